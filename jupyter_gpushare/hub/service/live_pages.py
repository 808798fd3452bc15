"""Open pages, told what changes on them: one WebSocket each, only the parts that differ, at most once a second.

A page that many look at is not made for each of them: who may see the same is sent the same. Making pages takes at most
a fifth of the process's time, however many are open: the broker goes first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.hub.pages import Asked, PageName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from jupyter_gpushare.hub.pages import Page
    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.hub.service.standing import Standing
    from jupyter_gpushare.hub.service.waits import Wait
    from jupyter_gpushare.hub.site import Viewer

__all__ = ["LivePages", "Looking", "Peephole"]

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 1.0
_PAUSES: Final = 4.0
_MOST_BYTES_A_S: Final = 20_000
#: The element around all of ours on a page.
_WHOLE: Final = "gpushare-main"
#: Who is asked about again so often may have been shut out meanwhile.
_ASKED_AGAIN_S: Final = 60.0
_KEPT_EVERY_S: Final = 20.0
#: What templates make is text of a kind of its own.
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class Peephole(Protocol):
    """The connection of one open page."""

    def send(self, body: bytes) -> None:
        """Send it."""

    def is_behind(self) -> bool:
        """Whether what was sent last is still on its way."""

    def end(self, reason: str, *, for_good: bool = True) -> None:
        """Close, and say why: *for_good*, or to come again."""

    async def who(self) -> Standing | None:
        """Who sits there, asked of the hub anew; None for nobody any more.

        Raises:
            PublicError: it may not be here any more, or the hub is away.
        """


@dataclass(eq=False)
class Looking:
    """One open page.

    Attributes:
        page: which.
        standing: who looks.
        asked: what its address says.
        wait: what it waits for; None for any other page.
        xsrf: what the forms on it carry.
        sent: what it was sent last, by the element's id, and *sent_at* when.
        shape: the ids of its elements; None before anything was sent.
        next_at: before which it is sent nothing more; *asked_at* and *kept_at*: when the hub was asked last who looks,
            and the broker told last that somebody waits. All of them by the clock of `LivePages`.
        busy: what it waits for; None for nothing.
    """

    peephole: Peephole
    page: PageName
    standing: Standing
    asked: Asked
    xsrf: str
    wait: Wait | None = None
    sent: dict[str, str] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)
    shape: AbstractSet[str] | None = None
    next_at: float = 0.0
    asked_at: float = 0.0
    kept_at: float = 0.0
    busy: asyncio.Task[None] | None = None

    def is_free(self, _done: asyncio.Task[None]) -> None:
        """What it waited for is done."""
        self.busy = None


class LivePages:
    """All pages that are open. For one event loop.

    Args:
        service: makes the pages.
        monotonic: seconds that only go forward.
    """

    def __init__(self, service: HubService, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._monotonic = monotonic
        self._open: set[Looking] = set()
        self._opened = asyncio.Event()
        self._making = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        """Begin to look after them."""
        self._task = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """Close all of them; each browser comes back when there is somebody again."""
        tasks = [looking.busy for looking in self._open if looking.busy is not None]
        tasks += [] if self._task is None else [self._task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for looking in list(self._open):
            self._close(looking, "the service stops", for_good=False)

    def add(self, looking: Looking) -> None:
        """A page was opened."""
        looking.asked_at = looking.kept_at = self._monotonic()
        self._open.add(looking)
        self._opened.set()

    def remove(self, looking: Looking) -> None:
        """It was closed."""
        self._open.discard(looking)

    async def _go_on(self) -> None:
        while True:
            await self._opened.wait()
            began = self._monotonic()
            try:
                await self.look_at_all()
            except Exception:  # noqa: BLE001  # logged; it must go on
                _LOG.exception("The open pages could not be looked after")
            if not self._open:
                self._opened.clear()
            await asyncio.sleep(max(0.0, began + _EVERY_S - self._monotonic()))

    async def look_at_all(self) -> None:
        """Send every page what has changed on it. Where the hub or the ledger is asked first, nobody waits for that."""
        made: dict[tuple[object, ...], Page] = {}
        for looking in list(self._open):
            now = self._monotonic()
            if looking not in self._open or looking.next_at > now or looking.busy or looking.peephole.is_behind():
                continue
            if self._has_to_ask(looking, now):
                looking.busy = asyncio.create_task(self._look_at(looking, {}))
                looking.busy.add_done_callback(looking.is_free)
            else:
                await self._look_at(looking, made)

    def _has_to_ask(self, looking: Looking, now: float) -> bool:
        return looking.wait is not None or now - looking.asked_at >= _ASKED_AGAIN_S

    async def _look_at(self, looking: Looking, made: dict[tuple[object, ...], Page]) -> None:
        try:
            await self._ask_again(looking)
            if looking not in self._open or (looking.wait is not None and not await self._wait(looking)):
                return
            await self._tell(looking, made)
        except PublicError as error:
            self._close(looking, error.message.text)
        except Exception:  # noqa: BLE001  # logged; the others are told all the same
            _LOG.exception("The open page %s could not be made", looking.page.value)
            self._close(looking, "the page could not be made", for_good=False)

    async def _tell(self, looking: Looking, made: dict[tuple[object, ...], Page]) -> None:
        viewer = self._service.viewer_of(looking.standing)
        key = (looking.page, viewer, looking.xsrf, repr(looking.asked))
        if key not in made:
            made[key] = await self._make(looking, viewer)
        if looking in self._open:
            self._send(looking, made[key])

    async def _ask_again(self, looking: Looking) -> None:
        """See that the person is still who it was; where the hub is away, for now it is."""
        if self._monotonic() - looking.asked_at < _ASKED_AGAIN_S:
            return
        looking.asked_at = self._monotonic()
        try:
            standing = await looking.peephole.who()
        except PublicError as error:
            if error.message.code != "HUB_AWAY":
                raise
            return
        if standing is None or standing.name != looking.standing.name:
            self._close(looking, "you are signed in no more")
            return
        looking.standing = standing
        if not self._service.may_look(looking.page, standing):
            self._close(looking, "you may not look at this any more")

    async def _wait(self, looking: Looking) -> bool:
        """Stay in line, as long as the page is open; whether there is something to be shown."""
        waits, wait = self._service.waits, looking.wait
        assert wait is not None  # noqa: S101  # narrows the type
        if self._monotonic() - looking.kept_at >= _KEPT_EVERY_S:
            looking.kept_at = self._monotonic()
            with suppress(PublicError):  # what became of it is shown
                await waits.keep(looking.standing, wait)
        waiting = await waits.look(looking.standing, wait)
        looking.asked = Asked(waiting=waiting)
        if waiting.state == "granted":
            looking.peephole.send(_encode({"go": await waits.spawn_address(wait.link)}))
            self._close(looking, "the share is granted")
            return False
        return looking in self._open

    async def _make(self, looking: Looking, viewer: Viewer) -> Page:
        async with self._making:
            began = time.monotonic()
            frame = self._service.frame_of(looking.standing, looking.xsrf)
            page = await self._service.render(looking.page, viewer, frame, looking.asked)
            await asyncio.sleep(_PAUSES * (time.monotonic() - began))
            return page

    def _send(self, looking: Looking, page: Page) -> None:
        """Send what differs: what has waited longest first, and no more at once than a second may carry."""
        now = self._monotonic()
        changed = self._changed(looking, page.fragments, now)
        if looking.shape is not None and looking.shape != page.fragments.keys():
            looking.sent, changed = dict(page.fragments), {_WHOLE: page.main}
        looking.shape = page.fragments.keys()
        looking.next_at = now + _EVERY_S / 2
        if changed:
            body = _encode({"fragments": changed})
            looking.peephole.send(body)
            looking.next_at = max(looking.next_at, now + len(body) / _MOST_BYTES_A_S)

    def _changed(self, looking: Looking, fragments: Mapping[str, str], now: float) -> dict[str, str]:
        changed: dict[str, str] = {}
        size = 0
        differ = [key for key, html in fragments.items() if looking.sent.get(key) != html]
        for key in sorted(differ, key=lambda key: looking.sent_at.get(key, 0.0)):
            size += len(fragments[key])
            if changed and size > _MOST_BYTES_A_S:
                break
            changed[key] = looking.sent[key] = fragments[key]
            looking.sent_at[key] = now
        return changed

    def _close(self, looking: Looking, reason: str, *, for_good: bool = True) -> None:
        self.remove(looking)
        looking.peephole.end(reason, for_good=for_good)
