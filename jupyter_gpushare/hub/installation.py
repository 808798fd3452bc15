"""What the hub and its service have in common on disk: a directory, and in it the secret by which they know each other.

It outlives the hub, so that servers that run on are known again.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.hub.service import parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DEFAULT_CONFIG", "SIMULATED", "Installation", "check_configuration"]

#: What tells the service that the devices are simulated.
SIMULATED: Final = "GPUSHARE_SIMULATED_MACHINE"
HUB_TOKEN: Final = "GPUSHARE_HUB_TOKEN"  # noqa: S105  # the variable's name
#: What the service gets if nobody says otherwise: where its devices are, and nothing else of the hub's environment.
_PASSED_ON: Final = (SIMULATED, "GPUSHARE_SIMULATED_HOST")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SECRET: Final = "hub.token"  # noqa: S105  # a file's name
_SHORTEST_SECRET: Final = 32
DEFAULT_CONFIG: Final = "gpushare.toml"


class Installation:
    """The directory *state*, made if need be.

    Attributes:
        state: the directory, absolute.
        secret: what the hub's hooks and the service show each other.

    Raises:
        ValueError: the directory cannot be used; says why, and what to do.
    """

    def __init__(self, state: str | os.PathLike[str]) -> None:
        self.state = Path(state).absolute()
        _make_private(self.state)
        self.secret = _kept_secret(self.state / _SECRET)

    def arguments(
        self, config: Path | None, ledger: str, templates: Sequence[str] = (), *, unix_users: bool = False
    ) -> list[str]:
        """The service's command line.

        Raises:
            ValueError: *ledger* holds a password, which everybody could read who lists this machine's processes.
        """
        if urlsplit(ledger).password is not None:
            raise ValueError(
                "ledger: a password in the address would be seen by whoever lists the machine's processes; leave it "
                "out, and put it into the file ~/.pgpass of the hub's user"
            )
        return [
            f"--state={self.state}",
            *([] if config is None else [f"--config={config}"]),
            *([f"--ledger={ledger}"] if ledger else []),
            *(f"--templates={path}" for path in templates),
            *(["--unix-users"] if unix_users else []),
        ]

    def environment(self, said: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The service's environment: its secret, its hub, where simulated devices are, and what the admin *said*."""
        passed = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
        return {**passed, **said, **parent.of_this_process(), HUB_TOKEN: self.secret}


def check_configuration(config: str | os.PathLike[str] | None) -> Path | None:
    """The admin's file, if there is one and it can be read: the hub's start is where a mistake in it should show.

    Raises:
        ValueError: it was named and is not there, or something in it is wrong; says where.
    """
    if config is None:
        return None
    path = Path(config).absolute()
    if not path.exists():
        if str(config) == DEFAULT_CONFIG:
            return None  # without a file everybody is a member of one project
        raise ValueError(f"config: {path} is not there; write it, or leave config out")
    try:
        Configuration.parse(path.read_text(encoding="utf-8"))
    except ConfigurationError as error:
        raise ValueError(f"config: {path} is wrong:\n{error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"config: {path} cannot be read: {error}") from None
    return path


def _make_private(state: Path) -> None:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = state.lstat()
    except OSError as error:
        raise ValueError(
            f"state: {state} cannot be used: {error.strerror}; name a directory of the hub's own"
        ) from None
    if not stat.S_ISDIR(found.st_mode):
        raise ValueError(f"state: {state} is no directory; name one of the hub's own")
    if found.st_uid != os.getuid():
        raise ValueError(f"state: {state} belongs to another user; chown it to the hub's, or name another directory")
    if found.st_mode & _OTHERS:
        raise ValueError(f"state: {state} is open to other users, and holds secrets; run: chmod 700 {state}")


def _kept_secret(path: Path) -> str:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        secret = path.read_text(encoding="ascii").strip()
        if path.lstat().st_mode & _OTHERS or len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"state: {path} was changed by somebody; remove it, and a new one is made") from None
        return secret
    secret = secrets.token_urlsafe(_SHORTEST_SECRET)
    with os.fdopen(file, "w", encoding="ascii") as opened:
        opened.write(secret)
    return secret
