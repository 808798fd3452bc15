"""How things stand for somebody who is about to choose a share: what it means, how many there are, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer, AvailabilityModel
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.admission import in_line
from jupyter_gpushare.rules.demand import cost_of, share_cost
from jupyter_gpushare.rules.layout import lay_out
from jupyter_gpushare.rules.room import free_room, unpromised_room
from jupyter_gpushare.rules.snapshot import HostBooks, ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_gpushare.rules.layout import Layout
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot
    from jupyter_gpushare.share import Share

__all__ = ["Offering", "answer_of"]


class Offering:
    """The books as they stand for *person* of *project*: asked for several shares, one after the other."""

    def __init__(self, books: Snapshot, project: str, person: str) -> None:
        self._books = books
        self._layout: Layout = lay_out(books)
        self.left = left_for(books, books.projects.get(project), person)

    def meaning(self, share: Share) -> tuple[int | None, int | None, list[str]]:
        """The bytes that *share* guarantees and may burst to on the smallest device that could hold it; the kinds."""
        could = [
            device
            for device in self._books.devices.values()
            if share.kind in ("", device.kind)
            and device.condition != "gone"
            and share_cost(share, device.usable) <= Fraction.ONE
        ]
        if not could:
            return None, None, []
        parts = [
            tuple(min(cost_of(amount, device.usable), Fraction.ONE).of(device.usable).bytes for device in could)
            for amount in (share.request, share.limit)
        ]
        return min(parts[0]), min(parts[1]), sorted({device.kind for device in could})

    def how_many(self, share: Share, *, is_session: bool) -> int:
        """How many such shares there is room for at once; of a session, no more than its quota and limit leave."""
        fitting = self._layout.fitting(share, "")
        places = sum(
            _claims_at_once([self._room(uuid) // fitting.needs[uuid] for uuid in devices], share.count)
            for devices in fitting.sites.values()
            if all(fitting.needs[uuid] > 0 for uuid in devices)
        )
        if not is_session or self.left.is_unlimited or not fitting.dearest:
            return places
        return min(places, self.left.millionths // (fitting.dearest * share.count))

    def _room(self, uuid: str) -> int:
        return max(0, min(unpromised_room(self._books, uuid), free_room(self._books, uuid)))


def left_for(books: Snapshot, project: Project | None, person: str) -> Fraction:
    """What of its quota and of the person's limit the sessions of *person* could still have, after those in line."""
    if project is None:
        return Fraction.ZERO
    used = books.project_books.get(project.name, ProjectBooks())
    mine = used.persons.get(person, Fraction.ZERO)
    together, own = in_line(books, project.name, person)
    return min(_less(project.quota, used.sessions + together), _less(project.limit_of(person), mine + own))


def answer_of(
    books: Snapshot, shares: Sequence[AvailabilityModel], project: str, person: str, *, is_simulated: bool
) -> AvailabilityAnswer:
    """*shares*, and how the project and the hosts stand."""
    known = books.projects.get(project)
    used = books.project_books.get(project, ProjectBooks())
    return AvailabilityAnswer(
        list(shares),
        project=project,
        in_use=str(used.sessions),
        quota=str(Fraction.ZERO if known is None else known.quota),
        left=str(left_for(books, known, person)),
        parks_up_to=_parks_up_to(books),
        is_parking=not books.is_parking_stopped and any(pool.parking == "park" for pool in books.pools.values()),
        is_simulated=is_simulated,
    )


def _parks_up_to(books: Snapshot) -> int | None:
    """What the host with the most room still takes in; None where one has no bound."""
    hosts = [host for host in books.hosts.values() if host.condition == "ready"]
    if any(host.parking_budget.is_unlimited for host in hosts):
        return None
    taken = {host.name: books.host_books.get(host.name, HostBooks()).booked for host in hosts}
    return max((_left_on(host.parking_budget, taken[host.name]) for host in hosts), default=0)


def _left_on(budget: Memory, taken: Memory) -> int:
    return max(0, budget.bytes - taken.bytes)


def _less(amount: Fraction, taken: Fraction) -> Fraction:
    if amount.is_unlimited:
        return amount
    return Fraction(max(0, amount.millionths - taken.millionths))


def _claims_at_once(places: Iterable[int], count: int) -> int:
    """How many claims for *count* devices each fit, where device after device has *places*."""
    each = list(places)
    if count == 1:
        return sum(each)
    found = 0
    while sum(min(places, found + 1) for places in each) >= count * (found + 1):
        found += 1
    return found
