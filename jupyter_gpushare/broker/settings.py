"""How a broker is run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from jupyter_gpushare.broker import places

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Mode", "Settings"]

#: *on_demand* serves the user who started it and ends when nobody needs it; *multi_user* serves everybody on the
#: machine; *hub* serves whom a hub's tokens name.
Mode = Literal["on_demand", "multi_user", "hub"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that does not come from ``gpushare.toml``.

    Attributes:
        mode: whom it serves.
        runtime: a directory for what ends with the machine's uptime.
        state: a directory for what stays: the key of its tokens, and the configuration that was applied.
        socket: the Unix socket to listen on; None for none.
        address: the network address to listen on, if *port* is not None; 0 takes any free port.
        port: the TCP port; None for none.
        inherited: sockets that a service manager has opened already, as file descriptors.
        ledger: where the books are: an SQLAlchemy URL, or ``memory`` for books that end with the broker.
        configuration: the admin's file; None for what was applied last.
        tokens: a file with persons' tokens, for a network.
        hello_s: how long a new connection may take to say hello.
        commit_s: how long a request waits for the ledger.
        quit_after_s: an on-demand broker ends after so long without a holder and without anything parked; None never.
        unix_users: whether the hub's users are this machine's users of the same name, as with system spawners; for
            ``hub`` alone.
    """

    mode: Mode
    runtime: Path
    state: Path
    ledger: str
    socket: Path | None = None
    address: str = "127.0.0.1"
    port: int | None = None
    inherited: tuple[int, ...] = ()
    configuration: Path | None = None
    tokens: Path | None = None
    hello_s: float = 10.0
    commit_s: float = 20.0
    quit_after_s: float | None = None
    unix_users: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @classmethod
    def on_demand(cls, environ: Mapping[str, str]) -> Self:
        """One user's own broker."""
        state = places.user_state(environ)
        return cls(
            mode="on_demand",
            runtime=places.user_runtime(environ),
            state=state,
            socket=places.user_socket(environ),
            ledger=sqlite(state),
            quit_after_s=600.0,
            environ=environ,
        )

    @classmethod
    def multi_user(cls, environ: Mapping[str, str]) -> Self:
        """The machine's broker."""
        socket = places.machine_socket()
        state = places.machine_state()
        return cls(
            mode="multi_user", runtime=socket.parent, state=state, socket=socket, ledger=sqlite(state), environ=environ
        )

    @classmethod
    def hub(
        cls,
        environ: Mapping[str, str],
        *,
        state: Path,
        port: int,
        ledger: str = "",
        configuration: Path | None = None,
        unix_users: bool = False,
    ) -> Self:
        """The broker of a hub, on this machine's own address alone: the hub's proxy is in front of it.

        *state* is a directory of the broker's own; an empty *ledger* is a file in it. Port 0 takes any that is free.
        """
        return cls(
            mode="hub",
            runtime=state,
            state=state,
            port=port,
            ledger=ledger or sqlite(state),
            configuration=configuration,
            unix_users=unix_users,
            environ=environ,
        )


def sqlite(state: Path) -> str:
    """The address of the ledger in the directory *state*."""
    return f"sqlite:///{state.absolute() / 'broker.sqlite'}"
