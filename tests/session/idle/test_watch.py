"""The watch: when it parks, when it does not, and what it shows meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.evidence import Activity
from jupyter_gpushare.session.idle.policy import Active, BusyButQuiet, Idle, Kept
from jupyter_gpushare.session.requests import PolicyRequest
from tests.session.idle.conftest import GIB, NOON, use_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.session.idle.conftest import Watched

A, B = use_of("a"), use_of("b")
REFUSED = Message("BACKGROUND_WORK", "A thread of yours is running.")


async def test_what_is_idle_is_warned_of_and_parked(one: Watched) -> None:
    """After the timeout, counted down for the whole warning, and once."""
    await one.go(295, A)
    assert one.watch.parks_at("a") is None
    await one.go(20, A)
    parks_at = one.watch.parks_at("a")
    assert parks_at is not None
    assert NOON + 600 <= parks_at <= NOON + 610
    assert one.parking.asked == []
    await one.go(parks_at - one.clock.now - 1, A)
    assert one.parking.asked == []
    await one.go(600, A)
    assert one.parking.asked == ["a"]
    assert one.watch.judgement("a") is None


async def test_a_cell_ends_the_countdown(one: Watched) -> None:
    """What was about to be parked starts anew when a cell ends."""
    await one.go(500, A)
    assert one.watch.parks_at("a") is not None
    one.kernels.begin_cell("a")
    await one.go(5, A)
    assert one.watch.judgement("a") == Active(Activity.CELL_RUNNING)
    assert one.watch.parks_at("a") is None
    one.kernels.end_cell("a")
    await one.go(580, A)
    assert one.parking.asked == []
    await one.go(40, A)
    assert one.parking.asked == ["a"]


async def test_polls_postpone_nothing(one: Watched) -> None:
    """A resource monitor that makes the kernel busy at every other look moves no countdown and flickers nowhere."""
    shown = set()
    for _ in range(63):
        await one.go(5, A)
        one.kernels.states["a"] = "busy"
        await one.go(5, A)
        shown.add(one.watch.parks_at("a"))
        one.kernels.states["a"] = "idle"
    assert one.parking.asked == ["a"]
    assert len(shown - {None}) == 1


async def test_nothing_is_parked_at_a_moment_of_work(one: Watched) -> None:
    """A kernel that handles a message when its time has come is parked after that, not during it."""
    await one.go(595, A)
    one.kernels.states["a"] = "busy"
    await one.go(60, A)
    assert one.parking.asked == []
    one.kernels.states["a"] = "idle"
    await one.go(5, A)
    assert one.parking.asked == ["a"]


async def test_work_behind_the_cells_keeps_a_kernel(one: Watched) -> None:
    """A thread that takes 3 % of a core all the time is never parked; once it ends, the timeout begins."""
    for second in range(0, 1800, 5):
        one.ticks[1] = second * 3
        await one.go(5, A)
    assert one.parking.asked == []
    assert one.watch.judgement("a") == Active(Activity.CPU_IN_USE)
    await one.go(700, A)
    assert one.parking.asked == ["a"]


async def test_a_gpu_process_that_left_the_tree_is_seen(one: Watched) -> None:
    """A process that its kernel started in the background and left, and that holds the GPU, counts as the kernel's."""
    left = replace(A, pids=(77,))
    for second in range(0, 1200, 5):
        one.ticks[77] = second * 3
        await one.go(5, left)
    assert one.watch.judgement("a") == Active(Activity.CPU_IN_USE)


async def test_work_of_the_last_seconds_is_seen(watched: Callable[..., Watched]) -> None:
    """CPU time is read once more just before parking, however long ago it was read."""
    one = watched(cpu_every_s=10_000)
    one.kernels.start("a")
    await one.go(595, A)
    one.ticks[1] = 100
    await one.go(60, A)
    assert one.parking.asked == []


async def test_the_cpu_of_a_cell_is_not_work_behind_it(one: Watched) -> None:
    """A cell that computed for an hour leaves no trace that keeps its kernel from being idle."""
    await one.go(60, A)
    one.kernels.begin_cell("a")
    await one.go(60, A)
    one.ticks[1] = 360_000
    one.kernels.end_cell("a")
    await one.go(610, A)
    assert one.parking.asked == ["a"]


async def test_a_busy_gpu_keeps_a_kernel(one: Watched) -> None:
    """A sample above zero begins the time anew, whatever the CPU does."""
    await one.go(590, A)
    await one.go(5, use_of("a", percent=40))
    assert one.watch.judgement("a") == Active(Activity.GPU_IN_USE)
    await one.go(590, A)
    assert one.parking.asked == []
    await one.go(20, A)
    assert one.parking.asked == ["a"]


async def test_without_samples_nothing_is_parked(one: Watched) -> None:
    """A driver that stopped answering says nothing about idleness, and old samples do not speak for now."""
    await one.go(500, A)
    for _ in range(100):
        one.clock.now += 5
        await one.watch.turn()
    await one.settle()
    assert one.parking.asked == []
    assert one.watch.judgement("a") == Active(Activity.GPU_UNREADABLE)


async def test_counters_take_the_place_of_utilisation(one: Watched) -> None:
    """Where the driver cannot say who computes, a kernel whose own counters rest is parked; without them it is not."""
    unread = use_of("a", None, None)
    await one.go(1200, unread, trusted=False, device=50)
    assert one.watch.judgement("a") == Active(Activity.GPU_UNREADABLE)
    one.reports["a"] = GIB
    await one.go(300, unread, trusted=False, device=50)
    one.reports["a"] = 2 * GIB
    await one.go(590, unread, trusted=False, device=50)
    assert one.parking.asked == []
    await one.go(30, unread, trusted=False, device=50)
    assert one.parking.asked == ["a"]


async def test_a_silent_device_is_enough(one: Watched) -> None:
    """Where the driver cannot say who computes, but nobody does, the kernel is idle."""
    await one.go(620, use_of("a", None, None), trusted=False, device=0)
    assert one.parking.asked == ["a"]


async def test_held_messages_keep_a_kernel(one: Watched) -> None:
    """What waits at the gate is work to come."""
    one.parking.holding["a"] = 1
    await one.go(1200, A)
    assert one.parking.asked == []
    assert one.watch.judgement("a") == Active(Activity.MESSAGES_HELD)


async def test_a_lock_that_ends_is_followed_by_a_whole_warning(one: Watched) -> None:
    """Nobody loses the GPU in the second in which their lock runs out."""
    one.keep.keep(7200, "a")
    await one.go(7195, A)
    assert one.watch.judgement("a") == Kept(NOON + 7200)
    await one.go(5, A)
    parks_at = one.watch.parks_at("a")
    assert parks_at == NOON + 7500
    await one.go(295, A)
    assert one.parking.asked == []
    await one.go(10, A)
    assert one.parking.asked == ["a"]


async def test_a_shorter_timeout_is_followed_by_a_whole_warning(one: Watched) -> None:
    """An owner who asks for 30 s after hours of idleness sees 30 s of countdown."""
    one.overrides.set_owner("a", PolicyRequest(idle_timeout_s=None))
    await one.go(3600, A)
    judged = one.watch.judgement("a")
    assert isinstance(judged, Idle)
    assert judged.parks_at is None
    one.overrides.set_owner("a", PolicyRequest(idle_timeout_s=30.0))
    await one.go(5, A)
    assert one.watch.parks_at("a") == one.clock.now + 30
    await one.go(25, A)
    assert one.parking.asked == []
    await one.go(10, A)
    assert one.parking.asked == ["a"]


async def test_a_notebook_says_when_it_is_parked(one: Watched) -> None:
    """The metadata of the notebook that shows the kernel reaches the judgement."""
    content = json.dumps({"metadata": {"gpushare": {"idle_timeout": "1h"}}})
    one.contents.files["a.ipynb"] = {"last_modified": 1, "size": 9, "content": content}
    await one.go(1200, A)
    assert one.parking.asked == []
    await one.go(2500, A)
    assert one.parking.asked == ["a"]


async def test_a_running_cell_with_a_quiet_gpu_is_told_and_never_parked(one: Watched) -> None:
    """input(), a debugger or sleep is a state of its own."""
    one.kernels.begin_cell("a")
    await one.go(2000, A)
    judged = one.watch.judgement("a")
    assert isinstance(judged, BusyButQuiet)
    assert judged.since <= NOON + 5
    assert one.parking.asked == []


async def test_a_resumed_kernel_has_its_whole_timeout(one: Watched) -> None:
    """What was resumed by hand, without a cell, is not parked again at once."""
    await one.go(620, A)
    assert one.parking.parked == ["a"]
    await one.go(3600)
    one.parking.parked.clear()
    await one.go(590, A)
    assert one.parking.asked == ["a"]
    await one.go(30, A)
    assert one.parking.asked == ["a", "a"]


async def test_a_kernel_that_died_between_samples_is_dropped(one: Watched) -> None:
    """Nothing is said of it, and nothing fails over it."""
    await one.go(400, A)
    del one.kernels.known["a"]
    one.clock.now += 300
    await one.watch.turn()
    assert one.watch.judgement("a") is None
    assert one.parking.asked == []


async def test_kernels_are_judged_each_for_itself(one: Watched) -> None:
    """One that works keeps no other from being parked."""
    one.kernels.start("b")
    one.kernels.begin_cell("b")
    await one.go(620, A, use_of("b", percent=90))
    assert one.parking.asked == ["a"]


async def test_an_ended_kernel_is_forgotten(one: Watched) -> None:
    """Nothing is shown, parked or kept of it, nor of its successor."""
    one.keep.keep(3600, "a")
    await one.go(5, A)
    del one.kernels.known["a"]
    one.watch.forget("a")
    await one.go(700, A)
    assert one.watch.judgement("a") is None
    assert one.keep.until("a") is None
    assert one.parking.asked == []


async def test_a_kernel_elsewhere_is_not_parked(one: Watched) -> None:
    """Without a process here there is no CPU time to read, and no claim that it is idle."""
    one.kernels.pids["a"] = None
    await one.go(1200, A)
    assert one.parking.asked == []
    assert one.watch.judgement("a") == Active(Activity.CPU_UNREADABLE)


async def test_people_are_told_only_of_changes(one: Watched) -> None:
    """A frame is not drawn each second because a kernel is still idle."""
    await one.go(200, A)
    told = len(one.changes)
    await one.go(60, A)
    assert len(one.changes) == told
    await one.go(60, A)
    assert len(one.changes) == told + 1
