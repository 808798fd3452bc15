"""Jobs that ignore their call back are ended only where an admin turned that loss on, and never before it is audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.admin_wire import ReclaimRequest
from jupyter_gpushare.broker.privileged.asking import Answer
from jupyter_gpushare.broker.privileged.enforcement import Enforcement
from jupyter_gpushare.broker.wire import LeaseModel
from jupyter_gpushare.rules.loss import Loss
from tests.broker.service.bench import JOB, never, until

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity
    from tests.broker.service.bench import Bench

STUBBORN = msgspec.structs.replace(JOB, grace_s=0.2)


class Ending:
    """Stands where the privileged program is asked, and notes what the audit had by then."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.asked: list[tuple[int, Loss]] = []
        self.audit: list[str] = []

    def __call__(self, process: Identity, _uid: int, loss: Loss, _lease: str) -> Answer:
        """Answer as the program does that has ended it."""
        self.audit = [recorded.entry.verb.value for recorded in self._bench.books.audit]
        self.asked.append((process.pid, loss))
        return Answer("ENDED", "it has ended")


async def _overstays(bench: Bench, losses: set[Loss]) -> tuple[Ending, int]:
    """A job that holds a device and does nothing about being reclaimed; its pid."""
    ending = Ending(bench)
    watch = Enforcement(bench.broker.reconciler, bench.broker.evidence, lambda: losses, ask=ending)
    bench.broker.reconciler.subscribe(watch.published)
    program = bench.program()
    program.run("buffer = cuda.allocate('1GiB')")
    holding = await bench.running(STUBBORN, program.pid)
    assert holding.lease is not None
    await bench.client.request("POST", "admin/reclaim", ReclaimRequest(holding.lease.id), type=LeaseModel)
    await until(lambda: any("again" in each.entry.details for each in bench.books.audit))
    return ending, program.pid


def test_the_loss_is_in_the_audit_before_anything_is_ended(play: Any) -> None:
    """Whoever reads the audit after a crash finds every ending there, with its process."""

    async def story(bench: Bench) -> None:
        ending, pid = await _overstays(bench, {Loss.JOB_STOPPED_AFTER_GRACE})
        await until(lambda: ending.asked)
        assert ending.asked[0] == (pid, Loss.JOB_STOPPED_AFTER_GRACE)
        assert "loss" in ending.audit

    play(story)


@pytest.mark.parametrize("losses", [set(), {Loss.OVERRUN_OF_ITS_OWN}])
def test_a_loss_that_is_off_ends_nothing(play: Any, losses: set[Loss]) -> None:
    """Without the admin's word a job past its deadline is only asked again."""

    async def story(bench: Bench) -> None:
        ending, _ = await _overstays(bench, losses)
        await never(lambda: ending.asked)
        assert not [each for each in bench.books.audit if each.entry.verb.value == "loss"]

    play(story)
