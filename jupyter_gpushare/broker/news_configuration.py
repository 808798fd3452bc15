"""``[news.<name>]`` of a ``gpushare.toml``: who is told by a webhook what happens to whom.

What is read here is what a file can say by itself. Whether the secret is there, and right, is found out by whoever
delivers the news, on the machine that does.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from jupyter_gpushare.broker import configuration_reading as reading
from jupyter_gpushare.broker.configuration_reading import WrongValueError

if TYPE_CHECKING:
    from jupyter_gpushare.broker.configuration_reading import TableReader

__all__ = ["EVENTS", "NewsHook", "read_hooks"]

#: What there is to tell.
EVENTS: Final = ("idle_soon", "your_turn", "called_back", "loss")
_ALL: Final = frozenset(EVENTS)
_EXAMPLE_URL: Final = '"https://chat.example.org/hooks/gpu"'
_EXAMPLE_FILE: Final = '"/etc/gpushare/chat.secret"'
_EXAMPLE_EVENTS: Final = '["your_turn", "loss"]'
_LONGEST_URL: Final = 2000
_HOST: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewsHook:
    """One receiver of news.

    Attributes:
        name: what admins call it; it is shown in metrics.
        url: where it listens.
        secret_file: the file with the secret that it shares with us.
        events: what it is told, of `EVENTS`.
    """

    name: str
    url: str = ""
    secret_file: Path = Path()
    events: frozenset[str] = _ALL


def read_hooks(top: TableReader) -> tuple[NewsHook, ...]:
    """Every receiver that the file names, in its order; what is wrong is noted in *top*."""
    return tuple(_hook(name, table) for name, table in top.tables("news"))


def _hook(name: str, table: TableReader) -> NewsHook:
    hook = NewsHook(
        name,
        url=table.take("url", _url, ""),
        secret_file=table.take("secret_file", _file, Path()),
        events=table.take("events", _events, _ALL),
    )
    for key, example in (("url", _EXAMPLE_URL), ("secret_file", _EXAMPLE_FILE)):
        if not table.has(key):
            table.wrong(key, "is missing", example)
    table.finish()
    return hook


def _url(value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise WrongValueError("is no address of plain characters", _EXAMPLE_URL)
    if len(value) > _LONGEST_URL:
        raise WrongValueError(f"is longer than {_LONGEST_URL} characters", _EXAMPLE_URL)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise WrongValueError(f"is no address: {str(error).lower()}", _EXAMPLE_URL) from None
    if parts.scheme not in ("http", "https"):
        raise WrongValueError(f"begins with {value[:12]!r}, and only http: and https: can be told", _EXAMPLE_URL)
    if parts.username is not None or parts.password is not None:
        raise WrongValueError("has a password in it; who receives it knows us by the signature", _EXAMPLE_URL)
    if not parts.hostname or port == 0 or not _is_host(parts.hostname):
        raise WrongValueError("names no host", _EXAMPLE_URL)
    if parts.fragment:
        raise WrongValueError("has a part after #, which is never sent", _EXAMPLE_URL)
    return value


def _is_host(text: str) -> bool:
    if _HOST.fullmatch(text):
        return True
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _file(value: object) -> Path:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or value.endswith("/"):
        raise WrongValueError("is no absolute path of a file", _EXAMPLE_FILE)
    return Path(value)


def _events(value: object) -> frozenset[str]:
    names = reading.names_in(value, _EXAMPLE_EVENTS)
    for name in names:
        if name not in _ALL:
            raise WrongValueError(f"there is no event {name!r}; known are {', '.join(EVENTS)}", _EXAMPLE_EVENTS)
    if not names:
        raise WrongValueError("names no event", _EXAMPLE_EVENTS)
    return frozenset(names)
