"""What culling says over REST, below the service's ``…/api/v1``. Everything that arrives is decoded into these.

* ``PUT culling/testimony``: a notebook server says what it knows of its own use, and hears what will become of it.
* ``GET culling/evidence?stop_after=<seconds>``: a culler asks what is known of all servers with a share.
* ``POST culling/losses``: a culler is about to stop servers, and hears which of them it must not.

Lengths of time are in seconds and travel as lengths: the clocks of two machines differ.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from jupyter_gpushare.broker.cull_policy import CullPolicy  # decoded
from jupyter_gpushare.hub.culling.verdict import ShareSight, Why  # decoded

__all__ = [
    "EVIDENCE",
    "LOSSES",
    "MOST_STOPS",
    "TESTIMONY",
    "Evidence",
    "GoesOn",
    "KnownShare",
    "LossesAnswer",
    "LossesRequest",
    "Outlook",
    "Stop",
    "Testimony",
]

TESTIMONY: Final = "culling/testimony"
EVIDENCE: Final = "culling/evidence"
LOSSES: Final = "culling/losses"
#: So many may be announced at once.
MOST_STOPS: Final = 1000

_Length = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Name = Annotated[str, msgspec.Meta(max_length=255)]


class Testimony(msgspec.Struct, frozen=True):
    """What a notebook server knows of its own use. A newer one may say more, which is left alone.

    Attributes:
        lease: whose testimony it is; empty for the one that its token is of.
        server: of a server without a share: the hub's name for it, as `claim_key` has it; it must be the asker's own.
        idle_s: for how long, by sufficient evidence, nobody and nothing has used it; null while somebody does, and
            where that cannot be told.
        kept_s: for how long its person still keeps it; null where they do not.
        age_s: for how long it has run.
        parks_s: its share will be parked so long from now if it is left as it is; null where it will not be, and left
            out where that is not known.
    """

    lease: Annotated[str, msgspec.Meta(max_length=64)] = ""
    server: Annotated[str, msgspec.Meta(max_length=200)] = ""
    idle_s: _Length | None = None
    kept_s: _Length | None = None
    age_s: _Length | None = None
    parks_s: _Length | msgspec.UnsetType | None = msgspec.UNSET


class Outlook(msgspec.Struct, frozen=True):
    """What will become of a notebook server that is left as it is. Null is never.

    Attributes:
        park_after_s: its idle GPU is parked after so long, at the latest.
        end_kernels_after_s: it is to end its own idle kernels that hold a GPU after so long.
        end_parked_after_s: the same of its parked kernels.
        warning_s: how long before that, and before it is stopped, its person is warned.
        stops_in_s: it is stopped so long from now.
        why: what for; empty where it is not.
        again_s: when to say and ask again, at the latest.
        is_wanted: whether anything depends on how idle it is; where nothing does, nobody has to find out.
    """

    park_after_s: float | None
    end_kernels_after_s: float | None
    end_parked_after_s: float | None
    warning_s: float
    stops_in_s: float | None
    why: str
    again_s: float
    is_wanted: bool


class KnownShare(msgspec.Struct, frozen=True):
    """One server's share, or with the status ``none`` a server without one that speaks: what its verdict depends on."""

    person: str
    sight: ShareSight
    pool: str
    profile: str


class Evidence(msgspec.Struct, frozen=True):
    """What is known at the moment *at*: *shares* by the hub's name of the claim; others have none."""

    at: float
    policy: CullPolicy
    shares: dict[str, KnownShare]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server that is to be stopped: *person*'s, the one called *server*, empty for the unnamed one, for *why*."""

    person: _Name
    server: _Name
    why: Why


class LossesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """These are about to be stopped."""

    stops: Annotated[list[Stop], msgspec.Meta(min_length=1, max_length=MOST_STOPS)]


class GoesOn(msgspec.Struct, frozen=True):
    """A server that must go on, and why."""

    person: str
    server: str
    reason: str


class LossesAnswer(msgspec.Struct, frozen=True):
    """Those among them that must go on. The others may be stopped: it is in the audit."""

    go_on: list[GoesOn]
