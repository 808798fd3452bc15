"""Who is at the other end of a connection.

On a Unix socket the system says which user it is (SO_PEERCRED, unix(7)). Over a network a bearer token says it
(RFC 6750): a person's, which the admin made, or a lease's own.
"""

from __future__ import annotations

import grp
import hashlib
import hmac
import os
import pwd
import socket
import stat
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.public_error import forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.broker.tokens import LeaseTokens
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Peer", "PeerTokens", "Peers", "TokenFileError", "peer_of"]

_SCHEMES: Final = ("bearer ", "token ")
_SHORTEST_TOKEN: Final = 20


class Peer(NamedTuple):
    """A process at the other end of a Unix socket."""

    pid: int
    uid: int
    gid: int


class TokenFileError(ValueError):
    """The file of tokens cannot be used. Names the line and shows a right one."""


def peer_of(connection: socket.socket) -> Peer | None:
    """Who is at the other end of *connection*; None when it is no Unix socket."""
    if connection.family != socket.AF_UNIX:
        return None
    size = struct.calcsize("3i")
    return Peer(*struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)))


class PeerTokens:
    """Persons' tokens, kept as hashes: who reads this memory learns none.

    Args:
        persons: the person of each token's SHA-256, and whether it is an admin.
    """

    def __init__(self, persons: Mapping[bytes, tuple[str, bool]]) -> None:
        self._persons = dict(persons)

    @classmethod
    def parse(cls, text: str) -> PeerTokens:
        """Read lines of ``person token`` or ``person token admin``.

        Raises:
            TokenFileError: a line is none.
        """
        found: dict[bytes, tuple[str, bool]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) not in (2, 3) or words[2:] not in ([], ["admin"]):
                raise TokenFileError(f"line {number}: write: person token, or: person token admin")
            if len(words[1]) < _SHORTEST_TOKEN:
                raise TokenFileError(
                    f"line {number}: the token is shorter than {_SHORTEST_TOKEN} characters: make a longer one"
                )
            found[_hash(words[1])] = (words[0], len(words) == 3)  # noqa: PLR2004  # the third word is "admin"
        return cls(found)

    @classmethod
    def of_file(cls, path: Path) -> PeerTokens:
        """Read a file that only its owner may read.

        Raises:
            TokenFileError: others may read it, or a line is wrong.
            OSError: it cannot be read.
        """
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise TokenFileError(f"{path} is open to others: chmod 600 {path}")
            return cls.parse(file.read())

    def person_of(self, token: str) -> tuple[str, bool] | None:
        """Whose *token* is, and whether an admin's; None for nobody's."""
        asked, found = _hash(token), None
        # Every one is compared, so that the time tells nothing.
        for known, person in self._persons.items():
            if hmac.compare_digest(known, asked):
                found = person
        return found


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Peers:
    """Tells who asks.

    Attributes:
        only_uid: the one user that is served, whose admin is the same; None serves everybody.
        admins: names of people, and of groups with an ``@`` before them, who may administer; root always may.
        persons: tokens that work over a network.
        leases: the tokens of leases; *lease* finds one by its id.
        peer: who is at the other end of a Unix socket.
        are_unix_users: whether persons whom a token names are this machine's users of that name. A hub's need not be:
            somebody may be called root there.
    """

    leases: LeaseTokens
    lease: Callable[[str], Lease | None]
    only_uid: int | None = None
    admins: frozenset[str] = frozenset()
    persons: PeerTokens = field(default_factory=lambda: PeerTokens({}))
    peer: Callable[[socket.socket], Peer | None] = peer_of
    are_unix_users: bool = True

    def identify(self, request: HTTPServerRequest) -> Caller | None:
        """Who sent *request*; None when that cannot be known.

        Raises:
            PublicError: 403: this broker serves another user alone.
        """
        stream = getattr(request.connection, "stream", None)
        connection = getattr(stream, "socket", None)
        peer = None if connection is None else self.peer(connection)
        if (caller := self._by_token(request.headers.get("Authorization", ""))) is not None:
            # A token says whose lease it is; whose processes are meant only the system can tell.
            return self.with_uid(caller) if peer is None else replace(caller, uid=peer.uid)
        return None if peer is None else self._by_user(peer)

    def with_uid(self, caller: Caller) -> Caller:
        """*caller*, whom a token or a hub names, as the user of this machine that it is; else without one."""
        is_user = self.are_unix_users and caller.kind == "person"
        return replace(caller, uid=_uid_of(caller.person) if is_user else None)

    def bounded_user(self, connection: socket.socket) -> str | None:
        """The name of the local user at the other end, None for an admin or where that cannot be known."""
        peer = self.peer(connection)
        if peer is None or peer.uid in (0, self.only_uid):
            return None
        name = _name(peer.uid)
        return None if self._is_admin(name, peer.gid) else name

    def _by_token(self, header: str) -> Caller | None:
        scheme = next((scheme for scheme in _SCHEMES if header.lower().startswith(scheme)), None)
        if scheme is None:
            return None
        token = header[len(scheme) :].strip()
        if (key := self.leases.lease_of(token)) is not None:
            lease = self.lease(key)
            return None if lease is None else Caller(lease.person, lease=key)
        found = self.persons.person_of(token)
        return None if found is None else Caller(found[0], is_admin=found[1])

    def _by_user(self, peer: Peer) -> Caller:
        if self.only_uid is not None:
            if peer.uid != self.only_uid:
                raise forbidden(
                    "ANOTHER_USERS_BROKER",
                    "This broker serves {person} alone, who started it. For everybody on this machine an admin "
                    "installs one: jupyter gpushare install-service.",
                    person=_name(self.only_uid),
                )
            return Caller(_name(peer.uid), peer.uid, is_admin=True)
        name = _name(peer.uid)
        return Caller(name, peer.uid, is_admin=peer.uid == 0 or self._is_admin(name, peer.gid))

    def _is_admin(self, name: str, gid: int) -> bool:
        if name in self.admins:
            return True
        groups = [admin[1:] for admin in self.admins if admin.startswith("@")]
        return any(_is_in_group(name, gid, group) for group in groups)


def _name(uid: int) -> str:
    """The user's name; the number where it has none, as in containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _uid_of(person: str) -> int | None:
    """The user of that name on this machine; None for somebody whom only a token knows."""
    try:
        return pwd.getpwnam(person).pw_uid
    except KeyError:
        return None


def _is_in_group(name: str, gid: int, group: str) -> bool:
    try:
        found = grp.getgrnam(group)
    except KeyError:
        return False
    return found.gr_gid == gid or name in found.gr_mem
