"""The demo to click through, started as people start it and driven over its own server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import nbformat
import psutil
import pytest

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.processes import marked_processes
from jupyter_gpushare.demo.server import API, FrontEnd
from tests.demo.conftest import take_away

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


def _await_facts(demo: subprocess.Popen[str]) -> dict[str, Any]:
    assert demo.stdout is not None
    facts: dict[str, Any] = json.loads(demo.stdout.readline())
    return facts


def _front_end(facts: dict[str, Any]) -> FrontEnd:
    address = urlsplit(facts["url"])
    return FrontEnd(f"http://{address.netloc}/", parse_qs(address.query)["token"][0], deadline_s=60)


async def _run_notebook(facts: dict[str, Any]) -> list[str]:
    """Run every code cell of the guided notebook in the demo's own kernel; what the cells showed."""
    notebook = nbformat.read(Path(facts["directory"]) / "welcome.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = await Cells.open(_front_end(facts), "welcome.ipynb")
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outcome = await cells.run(cell.source)
            assert not outcome.error, f"{cell.source}\n{outcome.error}"
            shown.append(outcome.text)
    cells.close()
    return shown


def test_the_demo_serves_its_notebook_and_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[str]],
    gpushare: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """The printed address answers, the guided notebook runs through, ``status`` finds the session, Ctrl-C ends all."""
    demo = start("demo", "--json", "--no-browser", "--port", "0")
    facts = _await_facts(demo)
    assert facts["simulated"] is True
    with urlopen(facts["url"]) as page:  # noqa: S310  # our own server's address
        assert page.status == 200

    shown = asyncio.run(_run_notebook(facts))
    _, magic, _, _, same, parks, same_again, released, unchanged, too_much = shown
    assert "6.9 GB" in magic  # 6 GiB and the context
    assert "As soon as this cell has ended, 6.9 GB move to host memory" in parks
    assert "2.1 GB" in released
    assert (same, same_again, unchanged) == ("True", "True", "True")
    assert "out of memory" in too_much.lower()

    status = gpushare("status", "--json")
    assert status.returncode == 0, status.stderr
    (server,) = json.loads(status.stdout)
    assert server["session"]["share"]["text"] == "0.5"
    assert server["session"]["simulated"] is True
    assert [kernel["path"] for kernel in server["session"]["kernels"]] == ["welcome.ipynb"]
    for_people = gpushare("status").stdout
    assert "½ GPU guaranteed" in for_people
    assert "welcome.ipynb" in for_people
    assert "\x1b[" not in for_people

    os.kill(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0
    assert list((tmp_path / "temporary").glob("gpushare-demo-*")) == []
    assert marked_processes(Path(facts["directory"]).parent) == []


async def _lend_and_call_back(facts: dict[str, Any]) -> list[int]:
    """Park a notebook, wait for a job in its room, and run a cell; how many others were on the GPU at each point."""
    front_end = _front_end(facts)
    cells = await Cells.open(front_end, "welcome.ipynb")
    await cells.run("from jupyter_gpushare.devices.simulated import cuda; kept = cuda.allocate('4GiB'); kept.fill(3)")
    await cells.run("before = kept.checksum()")
    others = [(await front_end.session()).devices[0].other_holders]
    await front_end.request("POST", API + "releases", {"level": "park", "kernel_id": cells.kernel_id})
    others.append(await _await_others(front_end, 2))
    assert (await cells.run("print(kept.checksum() == before)")).text == "True\n"
    others.append(await _await_others(front_end, 1))
    cells.close()
    return [count or 0 for count in others]


async def _await_others(front_end: FrontEnd, count: int) -> int | None:
    give_up = time.monotonic() + 60
    others: int | None = None
    async with aclosing(front_end.snapshots()) as snapshots:
        async for snapshot in snapshots:
            others = snapshot.devices[0].other_holders
            if others == count or time.monotonic() > give_up:
                break
    return others


def test_what_is_parked_is_lent_until_it_is_wanted_back(start: Callable[..., subprocess.Popen[str]]) -> None:
    """A job comes to the GPU only while a notebook is parked, and has left it when the notebook is back, intact."""
    facts = _await_facts(start("demo", "--json", "--no-browser", "--port", "0", "--idle", "0"))
    assert asyncio.run(_lend_and_call_back(facts)) == [1, 2, 1]


def test_the_demo_opens_with_the_panel_shown(start: Callable[..., subprocess.Popen[str]]) -> None:
    """Who opens the demo sees the panel at once: Lab gets a setting that its schema knows."""
    server = _front_end(_await_facts(start("demo", "--json", "--no-browser", "--port", "0")))
    answer = asyncio.run(server.request("GET", "lab/api/settings/jupyter-gpushare:plugin"))
    assert answer.body["settings"] == {"showPanelAtStart": True}
    assert answer.body["schema"]["properties"]["showPanelAtStart"]["default"] is False


def test_a_kept_directory_stays_with_the_users_own_changes(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """``--lab-dir`` keeps notebooks, never overwrites them, and still ends and removes everything else, by kill in the background too."""
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "welcome.ipynb").write_text("my own", encoding="utf-8")
    demo = start("demo", "--no-browser", "--port", "0", "--lab-dir", str(kept), in_background=True)
    assert demo.stdout is not None
    printed = ""
    while "token=" not in printed:
        line = demo.stdout.readline()
        assert line, printed
        printed += line
    assert "SIMULATED" in printed
    os.kill(demo.pid, signal.SIGTERM)
    assert demo.wait(60) == 0
    assert (kept / "welcome.ipynb").read_text(encoding="utf-8") == "my own"
    assert list((tmp_path / "temporary").glob("gpushare-demo-*")) == []


def test_a_server_that_ends_by_itself_ends_the_demo_with_its_last_words(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Bad luck with the server is told with what it printed, and its kernels and files do not outlive it."""
    demo = start("demo", "--json", "--no-browser", "--port", "0")
    facts = _await_facts(demo)
    os.kill(facts["pid"], signal.SIGKILL)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "The server ended with code -9" in said
    assert list((tmp_path / "temporary").glob("gpushare-demo-*")) == []


def test_a_demo_whose_directory_was_cleaned_away_ends_without_a_traceback(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """A cleaner of temporary files may take the directory of a long demo: its processes still end, and quietly."""
    demo = start("demo", "--json", "--no-browser", "--port", "0")
    facts = _await_facts(demo)
    (root,) = (tmp_path / "temporary").glob("gpushare-demo-*")
    take_away(root)
    os.kill(demo.pid, signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode == 0, said
    assert "Traceback" not in said
    assert not psutil.pid_exists(facts["pid"])
    assert marked_processes(root) == []


def test_a_taken_port_is_no_obstacle(start: Callable[..., subprocess.Popen[str]]) -> None:
    """Another program on the wanted port moves the demo to a free one, and the printed address is the true one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        facts = _await_facts(start("demo", "--json", "--no-browser", "--port", str(port)))
        assert urlsplit(facts["url"]).port != port
        with urlopen(facts["url"]) as page:  # noqa: S310  # our own server's address
            assert page.status == 200


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["demo", "--break", "row"], "--break goes with --tour"),
        (["demo", "--tour", "opera"], "There is no story 'opera'. Stories: notebook, parking, share, teams, hub"),
        (["demo", "--tour", "--break", "nap"], "There is no step 'nap' to break. Steps: machine, server"),
        (["demo", "--tour", "--real"], "leave out --real"),
        (["demo", "--port", "99999"], "--port 99999 is no port; write for example"),
        (["demo", "--tour", "--deadline", "0"], "write for example --deadline 60"),
        (["demo", "now"], "'now' is no option of the demo"),
        (["dmeo"], "has no command 'dmeo'. Commands: admin, apply, backup, broker,"),
        ([], "Which command? admin, apply, backup, broker,"),
        (["demo", "--idle", "0.5"], "--idle 0.5 is too short; write for example --idle 30"),
    ],
)
def test_a_slip_on_the_command_line_names_the_word_and_the_remedy(
    arguments: list[str], told: str, gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Wrong words never start anything; the answer says which word is wrong and what is right."""
    ended = gpushare(*arguments)
    assert ended.returncode == 1
    assert told in " ".join((ended.stdout + ended.stderr).split())


def test_real_devices_are_asked_for_in_vain_with_a_way_out(
    gpushare: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """``--real`` where no GPU may be seen says why, and never falls back to simulated devices by itself."""
    ended = gpushare("demo", "--real", CUDA_VISIBLE_DEVICES="", NVIDIA_VISIBLE_DEVICES="void")
    assert ended.returncode == 1
    assert "eave out --real" in ended.stderr


def test_every_step_is_listed_with_its_sabotage(gpushare: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """``--list-steps`` tells what ``--break`` takes, without starting anything."""
    ended = gpushare("demo", "--list-steps")
    assert ended.returncode == 0
    assert "busy-refusal" in ended.stdout
    assert "a stranger takes the memory meanwhile" in ended.stdout
