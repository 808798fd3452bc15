"""What an open picker shows its service to be told how things stand: for whom it was made, and what it offers.

The hub makes it, and signs it, for the person whose spawn page it is. So the page needs no second sign-in, and the
service tells nobody more than the page had shown already.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Self
from urllib.parse import urlencode

import msgspec

from jupyter_gpushare.hub import sealed
from jupyter_gpushare.hub.offers import MOST_SHARES
from jupyter_gpushare.hub.sealed import SealError
from jupyter_gpushare.hub.spawner_facts import groups_of

if TYPE_CHECKING:
    from jupyter_gpushare.hub.offers import Offers

__all__ = ["PICKER_PATH", "PickerLink"]

#: Below the service's prefix.
PICKER_PATH: Final = "picker"
_PURPOSE: Final = "picker"
#: A page that has been open for longer asks in vain, and says so.
_HOLDS_S: Final = 86400.0


class PickerLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One person's picker.

    Attributes:
        person: whose.
        groups: its groups at the hub; in a page's own address those that `Picture.groups` names.
        shares: what is offered, as it is written.
        made: when, in seconds since the epoch.
        project: the project that counts where the hub decides; empty where the person may choose.
        most: the largest share that the person may write itself; empty where it may not.
        kinds: the kinds of GPU that may be asked for.
    """

    person: str
    groups: list[str]
    shares: Annotated[list[str], msgspec.Meta(max_length=MOST_SHARES)]
    made: float
    project: str = ""
    most: str = ""
    kinds: list[str] = []

    @classmethod
    def of(cls, spawner: Any, offers: Offers, project: str) -> Self:
        """The picker with which *spawner*'s person chooses from *offers*."""
        return cls(
            person=spawner.user.name,
            groups=groups_of(spawner),
            shares=[str(share) for share in offers.shares],
            made=time.time(),
            project=project,
            most=str(offers.custom or ""),
            kinds=sorted(offers.all_kinds),
        )

    def query(self, secret: str) -> str:
        """The signed query.

        Raises:
            SealError: it holds more than an address can.
        """
        return sealed.seal(self, _PURPOSE, secret)

    def form(self, secret: str) -> str:
        """The signed form that the hub itself sends, of any length."""
        return urlencode(sealed.sign(self, _PURPOSE, secret))

    @classmethod
    def read(cls, body: str, signature: str, secret: str, now: float, *, is_sent: bool = False) -> Self:
        """What the hub signed: for an address, or with *is_sent* to be sent by itself.

        Raises:
            SealError: it did not, or too long ago.
        """
        more = {"most": sealed.MOST_SENT} if is_sent else {}
        link = sealed.read(cls, body, signature, _PURPOSE, secret, **more)
        if not link.made - _HOLDS_S < now < link.made + _HOLDS_S:
            raise SealError("the page was opened too long ago; open it again")
        return link
