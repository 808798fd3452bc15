"""What is still to be told of the audit, hook by hook: up to which line each of them has heard everything.

The audit is kept before anybody hears of it, and so nothing of it is lost when this process dies between a decision and
its news: the next one reads on where this one stopped. What was told last may be told once more, under the same id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from jupyter_gpushare.broker.ledger import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jupyter_gpushare.broker.ledger import Ledger, Recorded

__all__ = ["Outbox"]

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")
_NEWEST: Final = Span(newest_first=True)


class _Asks(Protocol):
    async def __call__(self, question: Callable[[Ledger], _T], /) -> _T: ...


class Outbox:
    """For one event loop.

    Args:
        path: where it is kept how far each hook is.
        ask: asks the ledger something, in its thread; may raise LedgerError.
    """

    def __init__(self, path: Path, ask: _Asks) -> None:
        self._path = path
        self._ask = ask
        self._heard: dict[str, int] = {}
        self._writing = asyncio.Lock()

    async def remember(self) -> None:
        """Begin with what was kept; with nothing if that is damaged or not there."""
        self._heard = await asyncio.to_thread(_read, self._path)

    async def begin(self, hook: str) -> None:
        """A hook that nobody knows yet hears of nothing that was before it.

        Raises:
            LedgerError: the ledger cannot be asked now.
        """
        newest = await self._newest()
        # Books that were restored from a backup are shorter than what was told of them.
        if not 0 <= self._heard.get(hook, -1) <= newest:
            await self._keep(hook, newest)

    async def read(self, after: int, verbs: Iterable[str], limit: int) -> tuple[list[Recorded], int]:
        """Lines of *verbs* above *after*, at most *limit* of each; and the number up to which these are all.

        Raises:
            LedgerError: the ledger cannot be asked now.
        """
        found: list[Recorded] = []
        upto = await self._newest()
        for verb in verbs:
            lines = await self._lines(after, verb, limit)
            found += lines
            if len(lines) == limit:
                upto = min(upto, lines[-1].number)
        return sorted((line for line in found if line.number <= upto), key=lambda line: line.number), max(after, upto)

    def heard(self, hook: str) -> int:
        """The number of the last line that *hook* has heard, with all before it."""
        return self._heard.get(hook, 0)

    async def tell(self, hook: str, number: int) -> None:
        """*hook* has heard everything up to *number*."""
        if number > self.heard(hook):
            await self._keep(hook, number)

    async def keep_only(self, hooks: Iterable[str]) -> None:
        """Forget hooks that there are no more: one that comes anew later begins anew."""
        kept = set(hooks)
        if self._heard.keys() - kept:
            self._heard = {name: number for name, number in self._heard.items() if name in kept}
            await self._write()

    async def _keep(self, hook: str, number: int) -> None:
        self._heard[hook] = number
        await self._write()

    async def _write(self) -> None:
        # One at a time, so that none is written over by an older one.
        async with self._writing:
            try:
                await asyncio.to_thread(_write, self._path, dict(self._heard))
            except OSError as error:
                # Then a little is told twice after the next start, under the same ids.
                _LOG.warning("How far news are told cannot be kept in %s: %s", self._path, error)

    async def _newest(self) -> int:
        lines = await self._ask(lambda ledger: ledger.audit(limit=1, span=_NEWEST))
        return lines[0].number if lines else 0

    async def _lines(self, after: int, verb: str, limit: int) -> Sequence[Recorded]:
        return await self._ask(lambda ledger: ledger.audit(after=after, limit=limit, where={"verb": verb}))


def _read(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _write(path: Path, heard: Mapping[str, int]) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".news-", delete=False) as new:
        try:
            new.write(msgspec.json.encode(heard))
            new.flush()
            os.fsync(new.fileno())
            Path(new.name).replace(path)
        except OSError:
            Path(new.name).unlink(missing_ok=True)
            raise
