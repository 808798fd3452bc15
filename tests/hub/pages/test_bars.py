"""Devices as bars: every part of a device is drawn once, for what it is used for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.hub.pages.bars import Bar, Use, bar_of, sum_of
from jupyter_gpushare.hub.pages.device_rows import hosts, is_folded, matching
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.capacity import GpuDevice
from jupyter_gpushare.rules.lease import Lease, Loan, Status
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.hub.pages.worlds import crowd, drawing, gpus, job, lease, parked

if TYPE_CHECKING:
    from typing import Any

GPU = "GPU-1-0"


def drawn(*leases: Lease, **changes: Any) -> Bar:
    """The bar of one device with these leases."""
    device = GpuDevice(GPU, "host-1", "a100", "main", Memory(40 << 30), **changes)
    return bar_of(Snapshot.of(pools=[Pool("main")], devices=[device], leases=leases), device)


def parts_of(bar: Bar) -> list[tuple[str, str]]:
    """What is drawn, with the width in per cent."""
    return [(part.use.value, part.width) for part in bar.parts]


def test_an_empty_device_is_free() -> None:
    """An outline, and the word for it."""
    bar = drawn()
    assert parts_of(bar) == [("free", "100")]
    assert bar.text == "free 1.0"


def test_what_is_lent_of_a_parked_share_is_drawn_once_and_the_rest_is_kept() -> None:
    """The borrower's part is hatched; what nobody borrowed is kept for the owner."""
    borrower = job("j", "bo", "b", (GPU, "0.3"), loans=(Loan("id-p", GPU, gpus("0.3")),))
    bar = drawn(parked("p", "ana", "a", (GPU, "0.5")), borrower)
    assert parts_of(bar) == [("park", "20"), ("lent", "30"), ("free", "50")]
    assert bar.text == "parked, kept for its owner 0.2, lent 0.3, free 0.5"


def test_a_job_that_has_some_of_its_own_and_some_on_loan_is_both() -> None:
    """Each part under its own pattern."""
    borrower = job("j", "bo", "b", (GPU, "0.5"), loans=(Loan("id-p", GPU, gpus("0.25")),))
    bar = drawn(parked("p", "ana", "a", (GPU, "0.25")), borrower)
    assert parts_of(bar) == [("lent", "25"), ("train", "25"), ("free", "50")]


@pytest.mark.parametrize(
    "moving",
    [
        {"status": Status.PARKING},
        {"status": Status.RESUMING},
        {"status": Status.MISSING, "was": Status.RUNNING},
        {"reason": Reason.CALLED_BACK},
    ],
    ids=["parking", "resuming", "missing", "called back"],
)
def test_what_is_about_to_change_is_drawn_so(moving: dict[str, Any]) -> None:
    """It is still there, and not for long."""
    assert parts_of(drawn(lease("n", "ana", "a", (GPU, "1"), **moving))) == [("move", "100")]


def test_programs_without_a_share_and_gone_devices_are_not_free() -> None:
    """Nothing that nobody can have is drawn as free."""
    assert parts_of(drawn(foreign=gpus("0.25"))) == [("foreign", "25"), ("free", "75")]
    assert drawn(condition="gone").text == "nothing there"


def test_an_over_committed_device_is_drawn_whole() -> None:
    """More is held than there is: all of it is shown, in proportion."""
    bar = drawn(lease("n", "ana", "a", (GPU, "1")), lease("m", "ana", "a", (GPU, "1")))
    assert parts_of(bar) == [("run", "50"), ("run", "50")]


def test_several_devices_together_are_one_bar() -> None:
    """Sums, one part for each use, and what is free."""
    whole = sum_of([drawn(lease("n", "ana", "a", (GPU, "0.5"))), drawn(foreign=gpus("0.5")), drawn()])
    assert [(part.use, part.millionths) for part in whole.parts] == [
        (Use.RUNNING, 500_000),
        (Use.FOREIGN, 500_000),
        (Use.FREE, 2_000_000),
    ]


def test_every_bar_fills_its_width_and_all_capacity_is_in_it() -> None:
    """Whatever is on the devices."""
    for site in (drawing(), crowd()):
        for device in site.books.devices.values():
            bar = bar_of(site.books, device)
            assert sum(float(part.width) for part in bar.parts) == pytest.approx(100, abs=0.2)
            assert sum(part.millionths for part in bar.parts) == 1_000_000


def test_hosts_come_in_the_order_of_their_numbers_and_fold_when_there_are_many() -> None:
    """host-10 comes after host-9; a hundred devices are shown as hosts until somebody opens one."""
    small, large = (hosts(site.books, site.hardware, site.busy) for site in (drawing(), crowd()))
    assert [group.name for group in large] == [f"host-{n}" for n in range(1, 14)]
    assert [row.name for row in large[0].rows] == list("01234567")
    assert (is_folded(small), is_folded(large)) == (False, True)


def test_searching_finds_hosts_devices_and_kinds() -> None:
    """By any part of a name, in capitals or not."""
    groups = hosts(drawing().books, drawing().hardware, {})
    assert [group.name for group in matching(groups, " HOST-2 ")] == ["host-2"]
    assert [row.uuid for group in matching(groups, "gpu-1-3") for row in group.rows] == ["GPU-1-3"]
    assert len(matching(groups, "a100")) == 2
    assert matching(groups, "h100") == []


def test_what_is_special_about_a_device_is_said_in_words() -> None:
    """Drained, over-committed, used by a stranger: a mark each, and unknown is not idle."""
    device = GpuDevice(GPU, "host-1", "a100", "main", Memory(40 << 30), trespassed=True, condition="draining")
    leases = [lease("n", "ana", "a", (GPU, "1")), lease("m", "ana", "a", (GPU, "1"))]
    [group] = hosts(Snapshot.of(pools=[Pool("main")], devices=[device], leases=leases), {}, {})
    assert group.rows[0].marks == ("being emptied", "over-committed", "used by a program without a share")
    assert group.rows[0].computing is None
