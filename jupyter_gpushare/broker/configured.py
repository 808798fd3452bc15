"""The configuration in force: from the admin's file, or as it was applied last, or the usual one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.broker import admin_wire
from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.broker.configuration_changes import diff
from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.broker.public_error import PublicError, sendable
from jupyter_gpushare.broker.settings_changes import settings_changes, settings_warnings
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jupyter_gpushare.broker.settings import Settings
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Configured"]

_APPLIED: Final = "applied.toml"


class Configured:
    """What is in force.

    Attributes:
        now: the configuration.
        source: where it comes from.
    """

    def __init__(self, settings: Settings) -> None:
        self.now = Configuration()
        self.source: Literal["file", "api", "default"] = "default"
        self._file = settings.configuration
        self._applied = settings.state / _APPLIED

    @property
    def file(self) -> str:
        """The admin's file; empty without one."""
        return "" if self._file is None else str(self._file)

    def read(self) -> None:
        """Read it anew.

        Raises:
            ConfigurationError: it is wrong; says where. What was in force stays so.
            OSError: the admin's file cannot be read.
        """
        path = self._file or self._applied
        if self._file is None and not path.exists():
            return
        self.now = Configuration.parse(path.read_text(encoding="utf-8"))
        self.source = "api" if self._file is None else "file"

    def plan(self, text: str, books: Snapshot) -> tuple[Configuration, admin_wire.ApplyAnswer]:
        """What *text* says, and what it would change.

        Raises:
            PublicError: 400: it is wrong; every problem is named.
        """
        try:
            wished = Configuration.parse(text)
        except ConfigurationError as error:
            message = Message(
                "WRONG_CONFIGURATION", "Nothing is changed. {problems}", {"problems": sendable(str(error))}
            )
            raise PublicError(400, message, "text") from None
        plan = diff(books, wished)
        changes = [*plan.changes, *self._told(wished, plan.changes), *settings_changes(self.now, wished)]
        warnings = [*plan.warnings, *settings_warnings(self.now, wished)]
        return wished, admin_wire.ApplyAnswer(changes, warnings)

    def _told(self, wished: Configuration, changes: Collection[str]) -> Iterator[str]:
        """The pools of which notebook servers hear something else although the books stay as they are."""
        for name, policy in wished.policies.items():
            before = self.now.policies.get(name, PoolPolicy(name))
            if policy != before and not any(line.startswith((f"pool {name} ", f"pool {name}:")) for line in changes):
                said = (
                    "bounds its notebook servers" if not policy.says_nothing else "bounds its notebook servers no more"
                )
                yield f"pool {name}: {said}"

    def check_may_apply(self) -> None:
        """Whether a configuration may be applied at all.

        Raises:
            PublicError: 409: a file sets it.
        """
        if self._file is not None:
            template = "The broker's configuration is the file {file}: change that, and send the broker SIGHUP."
            raise PublicError(409, Message("SET_BY_FILE", template, {"file": str(self._file)}))

    def keep(self, text: str, wished: Configuration) -> None:
        """*wished*, which *text* says, is in force, also after the next start.

        Raises:
            OSError: it cannot be written.
        """
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self._applied.parent, delete=False) as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        Path(new.name).replace(self._applied)
        self.now, self.source = wished, "api"
