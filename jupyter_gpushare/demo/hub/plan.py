"""What a demo's hub is like: handed over as a file, as JupyterHub reads its configuration in a process of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HubError", "HubPlan", "Person", "find_proxy", "free_port"]

_PROXY: Final = "configurable-http-proxy"
#: Where `scripts/prepare` puts the proxy in a checkout.
_CHECKOUT: Final = Path(__file__).parents[3] / "tests" / "hub" / "node_modules" / ".bin"
_PASSWORD_BYTES: Final = 9
_LOCAL: Final = "127.0.0.1"


class HubError(RuntimeError):
    """The hub cannot be had; the message says what to do."""


class Person(msgspec.Struct, frozen=True):
    """Somebody who may sign in to the demo's hub.

    Attributes:
        name: as JupyterHub has it.
        groups: the hub's groups, which ``gpushare.toml`` names with an @.
        is_admin: of the hub.
        password: made for this run.
    """

    name: str
    groups: tuple[str, ...] = ()
    is_admin: bool = False
    password: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(_PASSWORD_BYTES))


class HubPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the hub's configuration needs to know.

    Attributes:
        directory: for the hub's database, its people's homes and the service's state.
        people: who may sign in.
        policy: the file ``gpushare.toml``.
        port: the hub's public one; the next three are between the hub's own parts.
        proxy: the command that starts the proxy.
        setup: what `setup_gpushare` is called with besides; None for a hub without GPU shares.
        environment: of people's servers and of the service.
        traits: traits of the configuration by "Class.trait", put in before `setup_gpushare` is called.
    """

    directory: str
    people: tuple[Person, ...]
    policy: str
    port: int
    hub_port: int
    proxy_port: int
    service_port: int
    proxy: tuple[str, ...]
    setup: dict[str, Any] | None = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    traits: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where people find the hub, without a trailing slash."""
        return f"http://{_LOCAL}:{self.port}"

    def write(self, path: Path) -> None:
        """Keep it in *path*, which this user alone can read: it holds passwords."""
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, so that it is private from the beginning
            file.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> HubPlan:
        """What `write` kept."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    @classmethod
    def make(
        cls,
        directory: Path,
        policy: Path,
        people: tuple[Person, ...],
        *,
        port: int = 0,
        next_port: Callable[[], int] | None = None,
        **more: Any,
    ) -> HubPlan:
        """A plan with free ports: *port* if it is free, and any other that *next_port* gives.

        Raises:
            HubError: there is no proxy; says how to get it.
        """
        give = next_port or free_port
        hub, proxy, service = (give() for _ in range(3))
        return cls(
            directory=str(directory),
            policy=str(policy),
            people=people,
            port=port if port and _is_free(port) else give(),
            hub_port=hub,
            proxy_port=proxy,
            service_port=service,
            proxy=(find_proxy(),),
            **more,
        )


def free_port() -> int:
    """A port of this machine that nobody listens at now."""
    with socket.create_server((_LOCAL, 0)) as probe:
        return int(probe.getsockname()[1])


def find_proxy() -> str:
    """The command of JupyterHub's proxy.

    Raises:
        HubError: there is none; says how to get it.
    """
    found = shutil.which(_PROXY) or shutil.which(_PROXY, path=str(_CHECKOUT))
    if found is None:
        raise HubError(f"JupyterHub needs its proxy: npm install -g {_PROXY}   (in a checkout: make demo gets it)")
    return found


def _is_free(port: int) -> bool:
    try:
        with socket.create_server((_LOCAL, port)):
            return True
    except OSError:
        return False
