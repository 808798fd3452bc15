"""The link from a refused start to the page on which its person waits: signed, so that nobody else can make one.

Opening the link queues a claim, and later sends the spawn form in the person's own name. A link that anybody could
write would let anybody do both for whomever they get to click on it.
"""

from __future__ import annotations

from typing import Final, Self
from urllib.parse import quote

import msgspec

from jupyter_gpushare.hub import sealed
from jupyter_gpushare.hub.sealed import SealError

__all__ = ["WAIT_PATH", "WaitLink", "WaitLinkError"]

#: Below the service's prefix; the server's name follows, nothing for the unnamed one.
WAIT_PATH: Final = "wait/"
_PURPOSE: Final = "wait"


class WaitLinkError(SealError):
    """The link cannot be used. Says why, and what to do."""


class WaitLink(msgspec.Struct, frozen=True):
    """What somebody waits for, and the spawn form that is sent for them when they get it.

    An open page outlives an upgrade of the hub: what another version wrote besides is passed over.

    Attributes:
        person: the hub's name of who waits; nobody else may use the link.
        server: the name of the server, empty for the unnamed one.
        share: what is asked for, as it is written.
        project: which project it counts for.
        fields: the spawn form's own fields, without its secret. They come back as they were sent.
        made: when the link was made, in seconds since the epoch.
        next: where the person wanted to go after the start; empty for the server.
        reserve_s: for how long a granted share is kept for the server which then starts.
        queue_timeout_s: after so long in line the claim is given up.
        name: what people call the server.
    """

    person: str
    server: str
    share: str
    project: str
    fields: dict[str, list[str]]
    made: float
    next: str = ""
    reserve_s: float = 300.0
    queue_timeout_s: float = 600.0
    name: str = "server"

    def url(self, prefix: str, secret: str) -> str:
        """The link, below the service's *prefix*.

        Raises:
            WaitLinkError: the form holds more than a link can.
        """
        try:
            query = sealed.seal(self, _PURPOSE, secret)
        except SealError as error:
            raise WaitLinkError(f"the form cannot be kept while you wait: {error}") from None
        return f"{prefix.rstrip('/')}/{WAIT_PATH}{quote(self.server, safe='')}?{query}"

    @classmethod
    def read(cls, body: str, signature: str, secret: str, person: str) -> Self:
        """The link whose query holds *body* as ``for`` and *signature* as ``sign``, used by *person*.

        Raises:
            WaitLinkError: the hub did not make it, or made it for somebody else.
        """
        try:
            link = sealed.read(cls, body, signature, _PURPOSE, secret)
        except SealError as error:
            raise WaitLinkError(f"This link does not work, {error}. Choose a share on the spawn page.") from None
        if link.person != person:
            raise WaitLinkError("This link was made for somebody else. Choose a share on your own spawn page.")
        return link
