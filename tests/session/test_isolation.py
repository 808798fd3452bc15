"""The classic: a card of 15 GiB, a neighbour that asked for 10, and a notebook that asked for 5 and takes 10.

Under ``mps``, ``hami-core`` and ``mig`` it fails when it tries; under ``caps`` it ends within seconds. The neighbour
never notices. A real server and real kernels on the simulated machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.session.overrun import GRACE_S
from tests.devices.simulated.conftest import _PROGRAM as PROGRAM
from tests.session.isolation.places import put_hami_into, put_mps_on_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

GIB = 1 << 30
PREVENTIVE = ["mps", "hami-core", "mig"]
IMPORT = "from jupyter_gpushare.devices.simulated import cuda"


@pytest.fixture(name="mode")
def _mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="share")
def _share(mode: str) -> str:
    return "1" if mode == "mig" else "5GiB"


@pytest.fixture(name="gpushare_options")
def _gpushare_options(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    put_mps_on_path(monkeypatch, tmp_path / "bin")
    options: dict[str, Any] = {"isolation": mode, "mps_kernels": 1}
    if mode == "hami-core":
        options["hami_library"] = str(put_hami_into(tmp_path))
    return options


@pytest.fixture(name="machine")
def _machine(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The card; under MIG its two instances."""
    directory = tmp_path / "machine"
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(directory))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    card = [DeviceSpec(total=Memory(15 * GIB), reserve=Memory(0), uuid="GPU-card")]
    instances = [
        DeviceSpec(total=Memory(5 * GIB), reserve=Memory(0), mig=True, uuid="MIG-five"),
        DeviceSpec(total=Memory(10 * GIB), reserve=Memory(0), mig=True, uuid="MIG-ten"),
    ]
    machine = Machine.create(directory, instances if mode == "mig" else card, context_bytes=256 << 20)
    yield machine
    machine.close()


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """A source for each who asks."""
    jp_server_config["GpuShare"]["open_source"] = lambda environ: SimulatedSource(machine.path)  # noqa: ARG005
    return jp_server_config


class Neighbour:
    """A program of another session: the server is not its parent, though the test talks to it."""

    def __init__(self, device: str) -> None:
        self._starter = subprocess.Popen(
            [sys.executable, "-c", f"import os\nif os.fork() == 0:\n os.setsid()\n exec({PROGRAM!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": device},
        )
        self._starter.wait()

    def run(self, statement: str) -> str:
        """The repr of ``answer``, or ``raised Type: message``."""
        assert self._starter.stdin
        assert self._starter.stdout
        self._starter.stdin.write(statement + "\n")
        self._starter.stdin.flush()
        line = self._starter.stdout.readline().rstrip("\n")
        assert line, "the neighbour ended"
        return line.removeprefix("done ")

    def end(self) -> None:
        """Let it end."""
        self._starter.communicate()


@pytest.fixture(name="neighbour")
def _neighbour(mode: str, machine: Machine) -> Iterator[Neighbour]:
    """It asked for 10 GiB and holds 6 of them, with something in them."""
    neighbour = Neighbour("MIG-ten" if mode == "mig" else "GPU-card")
    assert neighbour.run("big = cuda.allocate('6080MiB'); weights = cuda.allocate('64MiB')") == "None"
    assert neighbour.run("weights.fill(seed=7); was = weights.checksum()") == "None"
    yield neighbour
    neighbour.end()


@pytest.fixture(name="run")
def _run(client_of: Any) -> Callable[..., Awaitable[Any]]:
    """Run a cell; what it printed, or the name of the error."""
    clients: dict[str, Any] = {}

    async def run(kernel_id: str, code: str) -> str:
        client = clients.setdefault(kernel_id, None) or client_of(kernel_id)
        clients[kernel_id] = client
        printed: list[str] = []

        def hear(message: Any) -> None:
            content = message["content"]
            printed.extend([content["text"]] if message["msg_type"] == "stream" and content["name"] == "stdout" else [])

        reply = await client.execute_interactive(code, allow_stdin=False, output_hook=hear, timeout=60)
        return "".join(printed).strip() if reply["content"]["status"] == "ok" else str(reply["content"]["ename"])

    return run


@pytest.mark.parametrize("mode", PREVENTIVE, indirect=True)
async def test_it_fails_when_it_tries(mode: str, neighbour: Neighbour, start_kernel: Any, run: Any) -> None:
    """The notebook gets the error, sees its share as the whole device, and goes on; the neighbour takes its 10 GiB."""
    kernel_id = await start_kernel()
    assert await run(kernel_id, f"{IMPORT}; cuda.allocate('10GiB')") == "OutOfMemoryError"
    assert await run(kernel_id, "print(cuda.mem_get_info()[1])") == str(5 * GIB)
    assert await run(kernel_id, "mine = cuda.allocate('4GiB'); print(mine.size)") == str(4 * GIB)
    assert neighbour.run("more = cuda.allocate('3GiB'); answer = weights.checksum() == was") == "True"


@pytest.mark.parametrize("mode", PREVENTIVE, indirect=True)
async def test_compute_shows_as_enforced(mode: str, start_kernel: Any, api: Any) -> None:
    """Only where it is may people see a mark for it."""
    await start_kernel()
    assert (await api("session"))["share"]["compute"] == "enforced"


@pytest.mark.parametrize("mode", ["mps", "hami-core"], indirect=True)
async def test_what_is_held_by_force_is_not_parked(
    mode: str, start_kernel: Any, run: Any, api: Any, until: Any
) -> None:
    """What cannot be parked, or was not measured, says so before anybody presses anything."""
    kernel_id = await start_kernel()
    await run(kernel_id, f"{IMPORT}; mine = cuda.allocate('1GiB')")

    async def refusal() -> Any:
        parking = (await api("kernels", kernel_id))["kernel"]["parking"]
        return parking and parking["refusal"]

    code = "MPS_CLIENT" if mode == "mps" else "HAMI_NOT_MEASURED"
    found = await until(refusal)
    assert found["code"] == code, found


@pytest.mark.parametrize("mode", ["caps"], indirect=True)
async def test_the_offender_ends_within_seconds(
    mode: str, neighbour: Neighbour, start_kernel: Any, run: Any, api: Any, until: Any, session: Any
) -> None:
    """It is warned and ended, a notebook beside it stays, and the neighbour's memory and process are untouched."""
    sibling, offender = await start_kernel("other.ipynb"), await start_kernel("eda.ipynb")
    await run(sibling, f"{IMPORT}; mine = cuda.allocate('1GiB'); mine.fill(seed=3); was = mine.checksum()")
    pid = session.kernels.pid(offender)
    assert await run(offender, f"{IMPORT}; mine = cuda.allocate('7GiB'); print('taken')") == "taken"

    async def told() -> Any:
        notices = (await api("session"))["notices"]
        both = [notice for notice in notices if notice["message"]["code"].startswith("OVERRUN")]
        return both if len(both) > 1 else None

    warned, ended, *others = await until(told)
    assert not others, others
    assert (warned["message"]["code"], ended["message"]["code"]) == ("OVERRUN_WARNING", "OVERRUN_ENDED")
    assert ended["message"]["values"]["who"] == "eda.ipynb"
    assert ended["at"] - warned["at"] > GRACE_S - 1
    print(f"ended {ended['at'] - warned['at']:.1f} s after the warning")  # noqa: T201  # printed, not judged
    await until(lambda: session.kernels.pid(offender) not in (pid, None))
    assert await run(sibling, "print(mine.checksum() == was)") == "True"
    assert neighbour.run("more = cuda.allocate('3GiB'); answer = weights.checksum() == was") == "True"


@pytest.mark.parametrize("mode", ["caps"], indirect=True)
async def test_the_offender_reads_it_below_its_cell(
    mode: str, start_kernel: Any, jp_ws_fetch: Any, session: Any
) -> None:
    """The warning, then what happened, come to the page as output of the very cell that runs."""
    kernel_id = await start_kernel()
    page = await jp_ws_fetch("api", "kernels", kernel_id, "channels")
    header = {"msg_id": "cell", "msg_type": "execute_request", "session": "page", "username": "", "version": "5.3"}
    content = {"code": f"{IMPORT}\nmine = cuda.allocate('9GiB')\nimport time; time.sleep(60)", "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await page.write_message(json.dumps(message))
    read: list[str] = []
    while len(read) < 2:
        heard = json.loads(await asyncio.wait_for(page.read_message(), 60))
        if heard["parent_header"].get("msg_id") == "cell" and heard["msg_type"] == "stream":
            read.append(heard["content"]["text"])
    page.close()
    assert read[0].startswith("Nothing is lost yet")
    assert "The kernel of eda.ipynb was ended" in read[1]


@pytest.mark.parametrize("mode", ["caps"], indirect=True)
async def test_frameworks_know_their_caps(mode: str, start_kernel: Any, run: Any) -> None:
    """The kernel's frameworks hear of the share before any of them is imported."""
    kernel_id = await start_kernel()
    assert await run(kernel_id, "import os; print(os.environ['GPUSHARE_MEMORY_CAPS'])") == f"{5 * GIB}/{15 * GIB}"


@pytest.mark.parametrize("mode", ["none"], indirect=True)
async def test_a_kernel_sees_only_its_shares_device_and_does_not_preallocate(
    mode: str, start_kernel: Any, run: Any
) -> None:
    """In every mode, whatever the machine has."""
    kernel_id = await start_kernel()
    names = ["CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH"]
    found = await run(kernel_id, f"import os; print([os.environ.get(name) for name in {names}])")
    assert found == "['GPU-card', 'false', 'true']"


@pytest.mark.parametrize("mode", ["mps"], indirect=True)
async def test_clients_leave_the_daemon_before_a_kill(
    mode: str, start_kernel: Any, jp_serverapp: Any, session: Any, tmp_path: Path
) -> None:
    """A kernel that is restarted is taken from the daemon first: a kill in the midst of work would harm the others."""
    kernel_id = await start_kernel()
    (pipes,) = {path.parent for path in (tmp_path / "state").rglob("control")}
    pid = session.kernels.pid(kernel_id)
    (pipes / "clients").write_text(f"{pid}\n")
    await jp_serverapp.kernel_manager.get_kernel(kernel_id).provisioner.kill()
    assert f"terminate_client 77 {pid}" in (pipes / "commands").read_text().splitlines()
    (pipes / "clients").unlink()


@pytest.mark.parametrize("mode", ["mps"], indirect=True)
async def test_a_kernel_beyond_the_parts_has_no_gpu(mode: str, start_kernel: Any, run: Any, api: Any) -> None:
    """The share is divided for one kernel here: the second starts without a GPU, and people read why."""
    await start_kernel("one.ipynb")
    second = await start_kernel("two.ipynb")
    assert await run(second, f"{IMPORT}; print(cuda.device_count())") == "0"
    (notice,) = (await api("session"))["notices"]
    assert notice["message"]["code"] == "ISOLATION_NO_PLACE"


@pytest.mark.parametrize("mode", ["caps"], indirect=True)
async def test_a_kernels_framework_is_capped_at_its_import(
    mode: str, start_kernel: Any, run: Any, tmp_path: Path
) -> None:
    """From the server's setting to the framework in a real kernel, without a word of the user's."""
    (tmp_path / "cupy.py").write_text("import os\nlimit = os.environ['CUPY_GPU_MEMORY_LIMIT']\n")
    kernel_id = await start_kernel()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import cupy; print(cupy.limit)"
    assert await run(kernel_id, code) == str(5 * GIB - (640 << 20))
