"""Empty cells through the whole of ours and through servers without it, by a client that adds nothing itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from benchmarks.metering.kernel_client import KernelClient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.gate.plan import Plan
    from benchmarks.metering.fleet import Member

__all__ = ["Times", "measure"]

#: Milliseconds by server, one list for each window.
Times = dict[str, list[list[float]]]

_WARM_UP_CELLS: Final = 20


def measure(members: Mapping[str, Member], plan: Plan) -> Times:
    """Interleaved windows, in another order in each round."""
    found: Times = defaultdict(list)
    names = list(members)
    for number in range(plan.windows):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            found[name].append(_window(members[name], plan.cells))
    return dict(found)


def _window(member: Member, cells: int) -> list[float]:
    with KernelClient(member.server, member.kernel_id) as client:
        return [client.round_trip_ms() for _ in range(cells + _WARM_UP_CELLS)][_WARM_UP_CELLS:]
