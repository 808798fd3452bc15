"""A server extension of the soak: a client inside the server, and a hand that kills at a given step.

The client is what code in a server gets from ``kernel_manager.client()``, such as server-side execution has it. The
hand waits for an order in a file, and carries it out when the journal has written the step that it names.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from jupyter_gpushare.parking.journal import Journal

__all__ = ["ORDER", "is_checkpoint_process"]

#: In the environment: the file with the order, ``{"step": ..., "victim": "server" or "checkpoint"}``.
ORDER = "GPUSHARE_SOAK_ORDER"
_REPLY_S = 90.0


class ExecuteHandler(APIHandler):
    """Runs a cell through a client in the server."""

    @authenticated
    async def post(self, kernel_id: str) -> None:
        """Run the body's ``code``; the reply's content."""
        body = self.get_json_body() or {}
        clients: dict[str, _Client] = self.settings.setdefault("gpushare_soak_clients", {})
        if kernel_id not in clients:
            clients[kernel_id] = _Client(self.kernel_manager.get_kernel(kernel_id))
        self.finish(json.dumps(await clients[kernel_id].run(body["code"], body.get("expressions", {}))))


class _Client:
    """One client of one kernel, a cell at a time."""

    def __init__(self, kernel: Any) -> None:
        self._client = kernel.client()
        self._client.start_channels(True, False, False, False, False)  # noqa: FBT003  # the shell channel alone
        self._turn = asyncio.Lock()

    async def run(self, code: str, expressions: dict[str, str]) -> dict[str, Any]:
        async with self._turn:
            wanted = self._client.execute(code, user_expressions=expressions, allow_stdin=False)
            while True:
                reply = await self._client.get_shell_msg(timeout=_REPLY_S)
                if reply["parent_header"].get("msg_id") == wanted:
                    return dict(reply["content"])


def is_checkpoint_process(process: psutil.Process) -> bool:
    """Whether it is a server's checkpoint process."""
    try:
        return "jupyter_gpushare.parking.checkpoint_process" in process.cmdline()
    except psutil.Error:
        return False


def _obey(order: Path, step: str) -> None:
    """Kill what the order names, once, if this is its step."""
    try:
        told = json.loads(order.read_text())
    except FileNotFoundError:
        return
    if told["step"] != step:
        return
    order.unlink()
    if told["victim"] == "server":
        os.kill(os.getpid(), signal.SIGKILL)
    for child in psutil.Process().children():
        if is_checkpoint_process(child):
            child.kill()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "scripts.soak.server_side"}]


def _load_jupyter_server_extension(server: Any) -> None:
    server.web_app.add_handlers(".*$", [(server.base_url + r"soak/execute/([\w-]+)", ExecuteHandler)])
    path = os.environ.get(ORDER)
    if path:
        order, begin = Path(path), Journal.begin

        def begin_and_obey(journal: Journal, target: Any, step: Any, *args: Any) -> None:
            begin(journal, target, step, *args)
            _obey(order, step.value)

        setattr(Journal, begin.__name__, begin_and_obey)  # the soak's hand, in no product
