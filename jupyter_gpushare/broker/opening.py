"""What a broker needs before it starts: its directories, and its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.places import private_directory

if TYPE_CHECKING:
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.broker.settings import Settings

__all__ = ["make_directories", "open_ledger"]


def make_directories(settings: Settings) -> None:
    """Make them where they are missing. What a machine's own broker has, others may look into; nobody else's.

    Raises:
        OSError: one cannot be had, or is open to others; says which, and what to do.
    """
    for directory in {settings.runtime, settings.state}:
        if settings.mode == "multi_user":
            directory.mkdir(parents=True, exist_ok=True)
        else:
            private_directory(directory)


def open_ledger(address: str) -> Ledger:
    """The ledger at *address*.

    Raises:
        LedgerError: it cannot be used; says what to do.
    """
    if address == "memory":
        return MemoryLedger()
    from jupyter_gpushare.broker.sql.ledger import SqlLedger

    return SqlLedger.open(address)
