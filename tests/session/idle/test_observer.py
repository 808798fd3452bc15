"""What parking did or would have done, added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from jupyter_gpushare.session.idle.observer import Observer, Tally, resolve_mode

if TYPE_CHECKING:
    from jupyter_gpushare.session.wire import ParkingMode
    from tests.session.idle.conftest import Clock

HOUR = 3600.0


@pytest.mark.parametrize(
    ("configured", "vendor", "qualified", "mode"),
    [
        ("auto", "simulated", False, "park"),
        ("auto", "nvidia", False, "observe"),
        ("auto", "nvidia", True, "park"),
        ("auto", "none", False, "observe"),
        ("off", "simulated", True, "off"),
        ("observe", "simulated", True, "observe"),
        ("park", "nvidia", False, "park"),
    ],
)
def test_a_real_device_is_only_observed_until_it_is_qualified(
    configured: Literal["auto", "off", "observe", "park"], vendor: str, *, qualified: bool, mode: str
) -> None:
    """Nothing is parked by itself on a host that has not passed, unless an admin says so."""
    assert resolve_mode(configured, vendor, qualified=qualified) == mode


def test_the_share_is_handed_back_only_while_nothing_is_held(clock: Clock) -> None:
    """Of two kernels, one parked hands back nothing; both do, until the first comes back."""
    tally = Tally(clock)
    tally.holds({"a", "b"}, outside=False)
    tally.parked("a")
    clock.now += HOUR
    assert tally.handed_back_s == 0
    tally.parked("b")
    clock.now += HOUR
    assert tally.handed_back_s == HOUR
    tally.resumed("a")
    clock.now += HOUR
    assert (tally.handed_back_s, tally.parks, tally.resumes) == (HOUR, 2, 1)


def test_a_terminal_keeps_the_share(clock: Clock) -> None:
    """What holds a GPU outside kernels counts as held."""
    tally = Tally(clock)
    tally.holds({"a"}, outside=True)
    tally.parked("a")
    clock.now += HOUR
    assert tally.handed_back_s == 0
    tally.holds((), outside=False)
    clock.now += HOUR
    assert tally.handed_back_s == HOUR


def test_a_resumed_kernel_holds_before_the_next_sample_shows_it(clock: Clock) -> None:
    """Between a resume and the next reading nothing is counted as handed back."""
    tally = Tally(clock)
    tally.parked("a")
    tally.parked("b")
    tally.holds((), outside=False)
    tally.resumed("a")
    clock.now += HOUR
    assert tally.handed_back_s == 0


def test_telling_twice_counts_once(clock: Clock) -> None:
    """A park that is told at every look is one park; a resume of what is not parked is none."""
    tally = Tally(clock)
    for _ in range(3):
        tally.parked("a")
    tally.forget("a")
    tally.resumed("a")
    assert (tally.parks, tally.resumes) == (1, 0)


def test_the_report_tells_what_observing_showed(clock: Clock) -> None:
    """In mode *observe* the report is of what would have been; in *park* of what was; the sentence says which."""
    modes: list[ParkingMode] = ["observe"]
    observer = Observer(lambda: modes[0], clock)
    assert observer.report().message.code == "WOULD_HAVE_PARKED"
    for _ in range(14):
        observer.would.parked("a")
        clock.now += 9 * HOUR / 14
        observer.would.resumed("a")
        observer.holds({"a"}, outside=False)
    observer.would.refused("BACKGROUND_WORK")
    report = observer.report()
    assert (report.parked, round(report.handed_back_s), report.refused) == (14, 9 * HOUR, {"BACKGROUND_WORK": 1})
    assert "nothing was parked" in report.message.text
    assert "14; handed back: 9 h; not possible: 1" in report.message.text
    modes[0] = "park"
    assert (observer.report().parked, observer.report().message.text) == (0, "No notebook has been parked so far.")
    modes[0] = "off"
    assert observer.report().message.code == "PARKING_OFF"


def test_an_ended_kernel_hands_nothing_back(clock: Clock) -> None:
    """The time stops with the kernel."""
    observer = Observer(lambda: "park", clock)
    observer.did.parked("a")
    clock.now += HOUR
    observer.forget("a")
    clock.now += HOUR
    assert observer.report().handed_back_s == HOUR
