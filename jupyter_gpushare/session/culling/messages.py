"""What this server and the hub's service say to each other about culling, as `hub.culling.wire` documents it.

The two never import each other; a test compares them.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["TESTIMONY", "Outlook", "Testimony"]

#: Below the API of the hub's service.
TESTIMONY: Final = "culling/testimony"


class Testimony(msgspec.Struct, frozen=True):
    """What is known of this server's own use, as lengths of time in seconds; null where there is nothing to say.

    *parks_s* is null where nothing will be parked, and left out where that is not known.
    """

    lease: str = ""
    server: str = ""
    idle_s: float | None = None
    kept_s: float | None = None
    age_s: float | None = None
    parks_s: float | msgspec.UnsetType | None = msgspec.UNSET


class Outlook(msgspec.Struct, frozen=True):
    """What will become of this server, in seconds. Null is never; what an older service does not say is never, too."""

    park_after_s: float | None = None
    end_kernels_after_s: float | None = None
    end_parked_after_s: float | None = None
    warning_s: float = 600.0
    stops_in_s: float | None = None
    why: str = ""
    again_s: float = 60.0
    is_wanted: bool = False
