"""The server's stream, followed in a thread: a view about once a second, for as long as somebody looks."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Final, NoReturn

from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_gpushare.notebook.address import ServerError
from jupyter_gpushare.notebook.server import Server, explain
from jupyter_gpushare.notebook.view import KernelView, NotUnderstoodError, decode_view

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Stream"]

_LARGEST_FRAME: Final = 1 << 20
#: A server that sends faster than this is not listened to more often.
_SHORTEST_GAP_S: Final = 0.1


class Stream:
    """Follows the stream and says what it shows, from a thread of its own.

    Args:
        server: whose stream.
        on_view: called with each view.
        on_problem: called with a sentence when there is none; the stream goes on trying.
        first_pause_s: the pause before it tries again, doubled each time up to *longest_pause_s*.
        longest_pause_s: the longest such pause.
        silence_s: how long the server may say nothing.
    """

    def __init__(
        self,
        server: Server,
        *,
        on_view: Callable[[KernelView], None],
        on_problem: Callable[[str], None],
        first_pause_s: float = 1.0,
        longest_pause_s: float = 30.0,
        silence_s: float = 15.0,
    ) -> None:
        self._server = server
        self._on_view = on_view
        self._on_problem = on_problem
        self._first_pause_s = self._pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._silence_s = silence_s
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="gpushare-stream", daemon=True)

    def start(self) -> None:
        """Begin to follow. A stream is started once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop soon. May be called from any thread, and more than once."""
        self._stopped.set()
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                return  # the loop has closed: it had stopped already

    def join(self, timeout_s: float) -> bool:
        """Wait until the thread has ended. Returns whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        self._wake, self._loop = asyncio.Event(), asyncio.get_running_loop()
        stop = asyncio.ensure_future(self._stopping(self._wake))
        while not self._stopped.is_set():
            listening = asyncio.ensure_future(self._listen())
            await asyncio.wait({listening, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                listening.cancel()
                await asyncio.wait({listening})
                return
            if not self._goes_on(listening):
                return
            await asyncio.wait({stop}, timeout=self._pause_s * random.uniform(0.8, 1.2))  # noqa: S311  # jitter
            self._pause_s = min(2 * self._pause_s, self._longest_pause_s)
        stop.cancel()

    async def _stopping(self, wake: asyncio.Event) -> None:
        # A coroutine of ours: a task of asyncio's own would look like the user's work, which is not parked.
        await wake.wait()

    def _goes_on(self, ended: asyncio.Future[NoReturn]) -> bool:
        try:
            ended.result()
        except ServerError as error:
            problem = error
        except Exception as error:  # noqa: BLE001  # said, whatever it was; the thread must not die of it
            problem = explain(error, self._server.deadline_s)
        self._on_problem(str(problem))
        return problem.code != "TOKEN_REFUSED"

    async def _listen(self) -> NoReturn:
        """Follow one connection until it ends, which it does by raising."""
        connection = await self._connect()
        heard = 0.0
        try:
            while True:
                # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with a frame.
                async with asyncio.timeout(self._silence_s):
                    frame = await connection.read_message()
                if frame is None:
                    raise ServerError("SERVER_GONE", "Lost contact with the server; trying again.")
                if time.monotonic() - heard >= _SHORTEST_GAP_S:
                    heard = time.monotonic()
                    self._show(frame)
        finally:
            _hang_up(connection)

    async def _connect(self) -> WebSocketClientConnection:
        connecting = asyncio.ensure_future(
            websocket_connect(
                self._server.stream_request(), max_message_size=_LARGEST_FRAME, resolver=self._server.resolver()
            )
        )
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # A handshake cannot be taken back. It ends within the request's deadline.
            await asyncio.wait({connecting})
            if connecting.exception() is None:
                _hang_up(connecting.result())
            raise

    def _show(self, frame: str | bytes) -> None:
        try:
            view = decode_view(frame)
        except NotUnderstoodError as error:
            self._on_problem(f"The server sent what makes no sense here ({error}).")
            return
        self._pause_s = self._first_pause_s
        self._on_view(view)


def _hang_up(connection: WebSocketClientConnection) -> None:
    """Say goodbye and close at once: the thread's loop ends now and cannot wait for the server's answer."""
    protocol = connection.protocol
    connection.close()
    if protocol is not None and protocol.stream is not None:
        protocol.stream.close()
