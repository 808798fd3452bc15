"""When somebody last did something here that is no cell: saved a file, began or ended a notebook, typed in a terminal.

What pages ask by themselves, again and again, does not count: an open tab is not a person.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime

__all__ = ["Touches"]

_CONTENTS: Final = "https://events.jupyter.org/jupyter_server/contents_service/v1"
_CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_BY_PEOPLE: Final = re.compile(r"/(?:api/(?:contents|sessions|kernels|terminals)|gpushare/api/v1)\b")
#: A kernel speaks there, with a token of its own.
_BY_KERNELS: Final = re.compile(r"/gpushare/api/v1/kernels/[^/]+/(?:report|wake)$")
_FAILED: Final = 400


class Touches:
    """Follows one server.

    Args:
        settings: of its web application.
        events: its event logger.
        log: where trouble goes.
        clock: gives the time, seconds since the epoch.
    """

    def __init__(
        self, settings: dict[str, Any], events: Any, *, log: logging.Logger, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._events = events
        self._log = log
        self._clock = clock
        self._last = clock()

    @property
    def last(self) -> float:
        """When that was, in seconds since the epoch; the server's start if it never was."""
        typed: datetime | None = self._settings.get("terminal_last_activity")
        return self._last if typed is None else max(self._last, typed.timestamp())

    def install(self) -> None:
        """Begin to follow."""
        former = self._settings.get("log_function")

        def log_function(handler: Any) -> None:
            self._look(handler)
            if former is not None:
                former(handler)

        if former is not None:  # without one tornado has its own way, which is no setting
            self._settings["log_function"] = log_function
        try:
            self._events.add_listener(schema_id=_CONTENTS, listener=self._on_contents)
        except Exception:  # noqa: BLE001  # a contents manager without events; requests are followed all the same
            self._log.debug("Saved files are not told as events here", exc_info=True)

    def _look(self, handler: Any) -> None:
        path = str(handler.request.path)
        if (
            handler.request.method in _CHANGES
            and handler.get_status() < _FAILED
            and _BY_PEOPLE.search(path)
            and not _BY_KERNELS.search(path)
        ):
            self._last = self._clock()

    async def _on_contents(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002  # jupyter_events' names
        if data.get("action") != "get":
            self._last = self._clock()
