"""The hook of jupyterhub-idle-culler 2 and newer (``IdleCuller.cull_arbiter_hook``), which knows about GPUs.

In the culler's own configuration::

    from jupyter_gpushare.hub.culling import gpu_cull_arbiter

    c.IdleCuller.cull_arbiter_hook = gpu_cull_arbiter

The culler's service then needs the address of ours in ``GPUSHARE_BROKER`` and the scope ``custom:gpushare:admin``. Its
own ``max_age`` asks nobody: leave it off, and set ``max_age`` in ``[culling]`` instead.

What it costs matters, as it is called for each of thousands of servers: it answers at once, and only the first call of
a round, and those few that stop a server, are awaited.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from jupyter_gpushare.hub.culling.evidence_link import EvidenceLink
from jupyter_gpushare.hub.culling.hub_servers import seconds_of
from jupyter_gpushare.hub.culling.judging import Judge
from jupyter_gpushare.hub.culling.verdict import ServerSight
from jupyter_gpushare.hub.culling.wire import Stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_gpushare.hub.culling.announcing import Source

    Arbiter = Callable[..., bool | Awaitable[bool]]

__all__ = ["gpu_cull_arbiter", "make_arbiter"]

_LOG: Final = logging.getLogger(__name__)
_FRESH_S: Final = 30.0
# Older hubs show no full_name. Its progress_url is …/users/<name>/server/progress or …/servers/<server>/progress.
_PROGRESS: Final = re.compile(r"/users/([^/]+)/servers?/(?:([^/]+)/)?progress$")


def make_arbiter(
    source: Callable[[float], Source], *, clock: Callable[[], float] = time.time, fresh_s: float = _FRESH_S
) -> Arbiter:
    """A hook.

    Args:
        source: called once, with the culler's own timeout in seconds: gives where the evidence comes from.
        clock: gives the time, seconds since the epoch.
        fresh_s: for how long evidence is good: about as long as a round takes.
    """
    arbiter = _Arbiter(source, clock, fresh_s)

    # A function, as traitlets copies whatever else it finds in a configuration.
    def cull_arbiter(
        inactive: timedelta | None, inactive_limit: float, server: Mapping[str, Any]
    ) -> bool | Awaitable[bool]:
        return arbiter.ask(inactive, inactive_limit, server)

    return cull_arbiter


class _Arbiter:
    def __init__(self, source: Callable[[float], Source], clock: Callable[[], float], fresh_s: float) -> None:
        self._make = source
        self._clock = clock
        self._fresh_s = fresh_s
        self._source: Source | None = None
        self._by = Judge(None)
        self._ahead_s = 0.0
        self._asked_at = -float("inf")
        self._asking: asyncio.Future[None] | None = None

    def ask(
        self, inactive: timedelta | None, inactive_limit: float, server: Mapping[str, Any]
    ) -> bool | Awaitable[bool]:
        if self._clock() - self._asked_at >= self._fresh_s:
            return self._when_known(inactive, inactive_limit, server)
        return self._judge(inactive, server)

    async def _when_known(self, inactive: timedelta | None, inactive_limit: float, server: Mapping[str, Any]) -> bool:
        await self._learn(inactive_limit)
        answer = self._judge(inactive, server)
        return answer if isinstance(answer, bool) else await answer

    async def _learn(self, inactive_limit: float) -> None:
        """Have the evidence of now; who comes meanwhile waits for the same."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._look(inactive_limit))
            self._asking.add_done_callback(self._looked)
        await asyncio.wait([self._asking])

    async def _look(self, inactive_limit: float) -> None:
        self._by = Judge(None)
        if self._source is None:
            self._source = self._make(inactive_limit)
        known = await self._source.evidence()
        if known is not None:
            self._by, self._ahead_s = Judge(known, inactive_limit), known.at - self._clock()

    def _looked(self, asked: asyncio.Future[None]) -> None:
        self._asking, self._asked_at = None, self._clock()
        if not asked.cancelled() and (error := asked.exception()) is not None:
            _LOG.error("Nobody is culled while it is not known which servers are in use", exc_info=error)

    def _judge(self, inactive: timedelta | None, server: Mapping[str, Any]) -> bool | Awaitable[bool]:
        now = self._clock() + self._ahead_s
        person, name = _whose(server)
        sight = ServerSight(
            bool(server.get("pending")),
            bool(server.get("ready", server.get("url"))),
            None if inactive is None else now - inactive.total_seconds(),
            _moment(server.get("started")) if inactive is None or self._by.minds_age else None,
        )
        stops, why = self._by.judge(person, name, sight, server.get("user_options"), now)
        # Without a share it is the culler's own affair.
        return self._announced(Stop(person, name, why)) if stops and self._by.has_share(person, name) else stops

    async def _announced(self, stop: Stop) -> bool:
        assert self._source is not None  # noqa: S101  # what is known came from it
        go_on = await self._source.announce([stop])
        if stop in go_on:
            _LOG.info("%s goes on: %s", stop, go_on[stop])
        return stop not in go_on


def _whose(server: Mapping[str, Any]) -> tuple[str, str]:
    """The person and the name of *server*, as the hub shows it; two empty ones where it shows neither."""
    full = server.get("full_name")
    if isinstance(full, str):
        person, _, name = full.partition("/")
        return person, name
    found = _PROGRESS.search(str(server.get("progress_url") or ""))
    return (unquote(found[1]), unquote(found[2] or "")) if found else ("", "")


def _moment(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return seconds_of(datetime.fromisoformat(text))
    except ValueError:
        return None


#: The hook, for the service that the culler's environment names.
gpu_cull_arbiter: Final = make_arbiter(lambda limit_s: EvidenceLink.of(os.environ, limit_s))
