"""A real ipykernel with ``--ext=jupyter_gpushare``, asked as a server and a notebook ask it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import KernelManager

from jupyter_gpushare.devices.simulated.machine import Machine
from tests.notebook.fake_server import KERNEL_ID, FakeServer
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_client.blocking.client import BlockingKernelClient

REPORT = "POST", f"/kernels/{KERNEL_ID}/report"
GIB = 1 << 30


class Notebook:
    """One kernel and its client."""

    def __init__(self, client: BlockingKernelClient, server: FakeServer) -> None:
        self.client, self.server = client, server

    def run(self, code: str) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
        """What *code* printed, the display data it made, and the reply."""
        printed, displays = [], []

        def output(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] in {"display_data", "execute_result"}:
                displays.append(content["data"])

        reply = self.client.execute_interactive(code, output_hook=output, timeout=60)
        return "".join(printed), displays, reply["content"]

    def ask_to_free(self, content: dict[str, Any]) -> str:
        """Send a `gpushare_free_request` on the control channel; the message's id."""
        request = self.client.session.msg("gpushare_free_request", content)
        self.client.control_channel.send(request)
        return str(request["header"]["msg_id"])

    def answer(self, msg_id: str) -> dict[str, Any]:
        """The reply to *msg_id* on the control channel."""
        reply = self.client.get_control_msg(timeout=60)
        assert reply["parent_header"]["msg_id"] == msg_id
        assert reply["msg_type"] == "gpushare_free_reply"
        return dict(reply["content"])


@pytest.fixture(scope="module", name="shared")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    machine = tmp_path_factory.mktemp("machine") / "gpus"
    Machine.create(machine)
    with FakeServer() as server:
        server.answers[REPORT] = 200, {"wanted": True}
        extra = {**server.environment, "GPUSHARE_SIMULATED_MACHINE": str(machine)}
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(env={**os.environ, **extra}, extra_arguments=["--ext=jupyter_gpushare"])
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield Notebook(client, server)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()


@pytest.fixture
def notebook(shared: Notebook) -> Notebook:
    """The module's kernel with an empty GPU and a server that has seen nothing."""
    shared.run("from jupyter_gpushare.devices.simulated import cuda; kept = None; cuda.empty_cache()")
    until(lambda: reported(shared), "the report of the empty GPU")
    shared.server.seen.clear()
    return shared


def reported(notebook: Notebook) -> list[int]:
    """The bytes that the server was told, oldest first."""
    return [seen.body["memory"] for seen in notebook.server.seen if seen.path.endswith("/report")]


def test_the_magic_is_there_as_html_and_text(notebook: Notebook) -> None:
    """A cell shows the card in both forms, and leaves no result behind in Out."""
    _, (data,), reply = notebook.run("%gpushare")
    assert reply["status"] == "ok"
    assert data["text/plain"].startswith("GPU share  7.4 GB")
    assert "jp-gpushare-card" in data["text/html"]
    assert "\x1b" not in data["text/plain"]


def test_a_wrong_word_is_an_error_without_a_traceback(notebook: Notebook) -> None:
    """A typo stops "run all" as any error does, in one readable line."""
    _, _, reply = notebook.run("%gpushare relaese")
    assert reply["status"] == "error"
    assert "Did you mean release?" in reply["evalue"]


def test_completion_comes_through_the_kernel(notebook: Notebook) -> None:
    """What a notebook's Tab key asks for is answered with our words alone."""
    code = "%gpushare rel"
    reply = notebook.client.complete(code, reply=True, timeout=60)
    assert reply["content"]["matches"] == ["release"]
    assert code[reply["content"]["cursor_start"] :] == "rel"


def test_the_user_s_names_stay_the_user_s(notebook: Notebook) -> None:
    """Loading the extension puts nothing into the notebook's namespace."""
    printed, _, _ = notebook.run("%who_ls module\nprint([n for n in globals() if 'gpushare' in n.lower()])")
    assert "[]" in printed


def test_control_request_frees_cached_memory(notebook: Notebook) -> None:
    """The server's wish is answered with what came back, byte for byte."""
    notebook.run("kept = cuda.allocate('1GiB'); cuda.allocate('2GiB').free()")
    answer = notebook.answer(notebook.ask_to_free({"collect": True}))
    freed = {"framework": "simulated", "before": 3 * GIB, "after": GIB, "error": None}
    assert answer == {"status": "ok", "freed": [freed]}


def test_control_request_is_answered_while_a_cell_runs(notebook: Notebook) -> None:
    """A busy kernel frees its cache beside the cell: the cell ends only after the answer has come."""
    notebook.run("cuda.allocate('2GiB').free(); import threading; go_on = threading.Event()")
    notebook.run(
        "ip = get_ipython(); answer_free = ip.kernel.control_handlers['gpushare_free_request']\n"
        "ip.kernel.control_handlers['gpushare_free_request'] = lambda *a: (answer_free(*a), go_on.set())"
    )
    cell = notebook.client.execute("ended = go_on.wait(60)", reply=False)
    until(lambda: busy_with(notebook, cell), "the cell runs")
    answer = notebook.answer(notebook.ask_to_free({"collect": False}))
    assert answer["freed"][0]["after"] == 0
    until(lambda: notebook.client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") == cell, "the cell ends")
    _, (data,), _ = notebook.run("ip.kernel.control_handlers['gpushare_free_request'] = answer_free; ended")
    assert data["text/plain"] == "True"


def busy_with(notebook: Notebook, cell: str) -> bool:
    """Whether the next message says that *cell* has begun."""
    message = notebook.client.get_iopub_msg(timeout=60)
    return bool(message["msg_type"] == "execute_input" and message["parent_header"].get("msg_id") == cell)


@pytest.mark.parametrize("content", [{}, {"collect": "yes"}, {"collect": 1}])
def test_only_a_true_collect_collects(notebook: Notebook, content: dict[str, Any]) -> None:
    """Finalizers run only when the server says plainly that no cell is running."""
    notebook.run("import gc; gc.collect(); seen = []; gc.callbacks.append(lambda *a: seen.append(a))")
    notebook.answer(notebook.ask_to_free(content))
    _, (data,), _ = notebook.run("gc.callbacks.pop(); [i for p, i in seen if i['generation'] == 2]")
    assert data["text/plain"] == "[]"


def test_release_frees_and_tells(notebook: Notebook) -> None:
    """`%gpushare release --cache` gives cached memory back from the cell itself."""
    code = "kept = cuda.allocate('1GiB'); cuda.allocate('2GiB').free()\n%gpushare release --cache"
    _, displays, _ = notebook.run(code)
    assert "Released 2.1 GB of cached memory." in displays[0]["text/plain"]
    assert "1.1 GB are in use by variables." in displays[0]["text/plain"]


def test_one_cell_takes_the_gpu_and_hands_it_back(notebook: Notebook) -> None:
    """In a real kernel `%%gpushare` keeps the cell's output, errors and await, and parks once after each cell."""
    code = "%%gpushare\nimport asyncio\nprint('working')\nawait asyncio.sleep(0)\n1/0"
    printed, displays, reply = notebook.run(code)
    assert printed == "working\n"
    assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
    assert "----> 5 1/0" in re.sub(r"\x1b\[[\d;]*m", "", "\n".join(reply["traceback"]))
    assert "This cell has ended: 6.1 GB move to host memory." in displays[-1]["text/plain"]
    wishes = [seen.body for seen in notebook.server.seen if seen.path.endswith("/releases")]
    assert wishes == [{"level": "park", "kernel_id": KERNEL_ID, "when": "idle"}]


def test_cells_are_followed_by_reports(notebook: Notebook) -> None:
    """After a cell the server hears what this process holds, by its own count."""
    notebook.run("kept = cuda.allocate('1GiB')")
    until(lambda: reported(notebook)[-1:] == [GIB], "the report")


def test_the_widget_in_a_kernel_is_live_beside_a_running_cell(notebook: Notebook) -> None:
    """Its figures arrive while a cell runs: nothing waits for the kernel's main thread."""
    code = (
        "import time, jupyter_gpushare\n"
        "w = jupyter_gpushare.GpuShareWidget(); w._follow()\n"
        "deadline = time.monotonic() + 60\n"
        "while '6.1 GB' not in str(w.view) and time.monotonic() < deadline: time.sleep(0.01)\n"
        "w.close(); '6.1 GB' in str(w.view)"
    )
    _, displays, _ = notebook.run(code)
    assert displays[-1]["text/plain"] == "True"
    until(lambda: notebook.server.watchers == 0, "the stream ends")


def test_unloading_leaves_the_kernel_as_it_was(notebook: Notebook) -> None:
    """`%unload_ext` takes the magic, the handler and the reports away, and `%load_ext` brings them back."""
    notebook.run("%unload_ext jupyter_gpushare")
    state = "'gpushare_free_request' in get_ipython().kernel.control_handlers, 'gpushare' in get_ipython().magics_manager.magics['line']"
    _, (data,), _ = notebook.run(state)
    assert data["text/plain"] == "(False, False)"
    notebook.run("%load_ext jupyter_gpushare")
    _, (data,), _ = notebook.run(state)
    assert data["text/plain"] == "(True, True)"
