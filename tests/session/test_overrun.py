"""Who is ended for an overrun: the offender of one's own session, after a warning, and never anybody else."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.attribution import Attributed, Owner, attribute
from jupyter_gpushare.devices.device import Attribution, DeviceUse, Driver, DriverState, ProcessUse, Reading
from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.meter import Sample
from jupyter_gpushare.session.overrun import Fine, Held, Look, Over, Overrun, decide
from tests.session.fake_source import GIB, device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.rules.message import Message

A, B = Owner("kernel", "a"), Owner("kernel", "b")
SERVER = Owner("server", "")
ONE, TWO, THREE = Identity(1, 10), Identity(2, 20), Identity(3, 30)


def looked(*held: tuple[Identity, int], at: float = 0.0, owner: Owner = A) -> Look:
    """The session's processes at one moment, amounts in GiB."""
    return Look(at, tuple(Held(process, owner, memory * GIB) for process, memory in held))


def test_within_the_limit_all_is_fine() -> None:
    """Exactly the limit is within it."""
    assert decide([looked((ONE, 3), (TWO, 2))], 5 * GIB) == Fine()


def test_the_one_that_grew_is_the_offender_not_the_one_that_holds_most() -> None:
    """A large notebook that kept still is not ended for what a small one took since."""
    verdict = decide([looked((ONE, 4), (TWO, 1)), looked((ONE, 4), (TWO, 3), at=1)], 5 * GIB)
    assert isinstance(verdict, Over)
    assert verdict.offender is not None
    assert verdict.offender.process == TWO


def test_a_process_id_used_again_is_another_process() -> None:
    """What the former process with that number held excuses nobody."""
    again = Identity(ONE.pid, 99)
    verdict = decide([looked((ONE, 4), (TWO, 1)), looked((again, 4), (TWO, 3), at=1)], 5 * GIB)
    assert isinstance(verdict, Over)
    assert verdict.offender is not None
    assert verdict.offender.process == again


def test_of_two_that_grew_alike_the_last_one_goes() -> None:
    """The newest allocation is the one that broke the limit."""
    looks = [
        looked((ONE, 1), (TWO, 1)),
        looked((ONE, 3), (TWO, 1), at=1),
        looked((ONE, 3), (TWO, 3), at=2),
    ]
    verdict = decide(looks, 4 * GIB)
    assert isinstance(verdict, Over)
    assert verdict.offender is not None
    assert verdict.offender.process == TWO


def test_the_time_counts_from_the_last_look_within_the_limit() -> None:
    """An overrun that ended for a moment begins anew."""
    looks = [looked((ONE, 9)), looked((ONE, 1), at=1), looked((ONE, 9), at=2), looked((ONE, 9), at=4)]
    verdict = decide(looks, 5 * GIB)
    assert isinstance(verdict, Over)
    assert verdict.over_s == 2


def test_the_server_itself_is_never_the_offender() -> None:
    """A notebook server that holds GPU memory is not ended by its own guard."""
    verdict = decide([looked((ONE, 9), owner=SERVER)], 5 * GIB)
    assert verdict == Over(9 * GIB, 0, None)


@given(st.lists(st.dictionaries(st.sampled_from([ONE, TWO, THREE]), st.integers(1, 9)), min_size=1, max_size=6))
def test_the_offender_is_one_that_grew_and_still_holds(history: list[dict[Identity, int]]) -> None:
    """In every history: nobody is named within the limit, and above it one of the largest growth is."""
    looks = [looked(*holdings.items(), at=at) for at, holdings in enumerate(history)]
    verdict = decide(looks, 8 * GIB)
    if isinstance(verdict, Fine):
        assert looks[-1].memory <= 8 * GIB
        return
    before: dict[Identity, int] = next((each for each in reversed(history) if sum(each.values()) <= 8), {})
    growth = {process: memory - before.get(process, 0) for process, memory in history[-1].items()}
    assert verdict.offender is not None
    assert growth[verdict.offender.process] == max(growth.values()) > 0


class Stage:
    """Real processes whose GPU use is as the test says, under a guard."""

    def __init__(self, *, grace_s: float = 3.0) -> None:
        self.told: list[tuple[str | None, Message]] = []
        self.losses: list[tuple[Loss, list[str]]] = []
        self.owners: dict[int, Owner] = {}
        self.now = 100.0
        self.log = logging.getLogger("test.overrun")
        self.guard = Overrun(
            lambda devices: {each.uuid: 5 * GIB for each in devices},
            owner_of=lambda pid: self.owners.get(pid),  # noqa: PLW0108  # tests put another dict there
            kernel_pid=lambda key: next((pid for pid, owner in self.owners.items() if owner.key == key), None),
            label=lambda owner: f"{owner.key}.ipynb",
            announce=lambda loss, kernels, _why: self.losses.append((loss, list(kernels))),
            notify=lambda kernel_id, message: self.told.append((kernel_id, message)),
            log=self.log,
            grace_s=grace_s,
        )

    def look(
        self, held: dict[int, int], *, after: float = 1.0, change: Callable[[Sample], Sample] = lambda it: it
    ) -> None:
        """Show the guard what processes hold now, in GiB, *after* seconds."""
        self.now += after
        processes = tuple(ProcessUse(pid, Reading.exact(gib * GIB), Reading.exact(0)) for pid, gib in held.items())
        uses = (DeviceUse("GPU-0000", Reading.exact(sum(held.values()) * GIB), Reading.exact(0), processes),)
        driver = Driver("nvidia", DriverState.READY)
        self.guard.look(change(Sample(0, self.now, driver, (device(),), uses, self._attributed(uses))))

    def _attributed(self, uses: tuple[DeviceUse, ...]) -> Attributed:
        return attribute(uses, self.owners.get, has_open=frozenset, roots=(), host_pids=True)

    @property
    def codes(self) -> list[str]:
        return [message.code for _, message in self.told]


@pytest.fixture(name="program")
def _program() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts processes that do nothing, and ends those that are left."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_it_warns_waits_and_ends_the_offender_alone(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """The offender ends after the grace and its loss is announced; its sibling and the neighbour live on."""
    stage, offender, sibling, neighbour = Stage(), program(), program(), program()
    stage.owners = {offender.pid: A, sibling.pid: B}
    stage.look({offender.pid: 1, sibling.pid: 3, neighbour.pid: 20})
    stage.look({offender.pid: 9, sibling.pid: 3, neighbour.pid: 20})
    assert stage.codes == ["OVERRUN_WARNING"]
    assert stage.told[0][0] == "a"
    stage.look({offender.pid: 9, sibling.pid: 3, neighbour.pid: 20}, after=2.9)
    assert offender.poll() is None
    stage.look({offender.pid: 9, sibling.pid: 3, neighbour.pid: 20}, after=0.2)
    assert offender.wait(timeout=30) == -signal.SIGKILL
    assert stage.losses == [(Loss.OVERRUN_OF_ITS_OWN, ["a"])]
    assert stage.codes == ["OVERRUN_WARNING", "OVERRUN_ENDED"]
    assert "starts anew without its variables" in stage.told[1][1].text
    assert (sibling.poll(), neighbour.poll()) == (None, None)


def test_who_frees_in_time_is_left_alone(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """The warning was enough, and the next overrun has a grace of its own."""
    stage, offender = Stage(), program()
    stage.owners = {offender.pid: A}
    stage.look({offender.pid: 9})
    stage.look({offender.pid: 4}, after=2)
    stage.look({offender.pid: 9}, after=2)
    assert stage.codes == ["OVERRUN_WARNING", "OVERRUN_WARNING"]
    assert offender.poll() is None


def test_nobody_else_goes_while_the_ended_one_still_shows(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """A driver that is slow to free memory does not cost a second notebook."""
    stage, offender, sibling = Stage(grace_s=1), program(), program()
    stage.owners = {offender.pid: A, sibling.pid: B}
    stage.look({offender.pid: 1, sibling.pid: 2})
    for _ in range(6):
        stage.look({offender.pid: 9, sibling.pid: 4})
    assert stage.losses == [(Loss.OVERRUN_OF_ITS_OWN, ["a"])]
    assert sibling.poll() is None


def test_if_one_was_not_enough_the_next_has_its_own_grace(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """After the first has left, the second is warned before anything happens to it."""
    stage, offender, sibling = Stage(grace_s=2), program(), program()
    stage.owners = {offender.pid: A, sibling.pid: B}
    stage.look({offender.pid: 9, sibling.pid: 6})
    stage.look({offender.pid: 9, sibling.pid: 6}, after=2)
    offender.wait(timeout=30)
    stage.look({sibling.pid: 6})
    assert stage.codes == ["OVERRUN_WARNING", "OVERRUN_ENDED", "OVERRUN_WARNING"]
    assert sibling.poll() is None
    stage.look({sibling.pid: 6}, after=2)
    assert sibling.wait(timeout=30) == -signal.SIGKILL


def test_a_process_that_is_no_longer_ours_is_not_ended(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Between the sample and the end the number may have gone to somebody else: it is looked up once more."""
    stage, offender = Stage(grace_s=1), program()
    stage.owners = {offender.pid: A}
    stage.look({offender.pid: 9})
    stage.guard._owner_of = lambda _pid: None
    stage.look({offender.pid: 9}, after=2)
    assert offender.poll() is None
    assert not stage.losses


def _untrusted(sample: Sample) -> Sample:
    unknown = Reading.unavailable("another namespace")
    attributed = Attributed((), (), unknown, unknown, trusted=False, reason="another namespace")
    return Sample(sample.at, sample.taken, sample.driver, sample.devices, sample.uses, attributed)


def _told_by_kernel(sample: Sample) -> Sample:
    uses = tuple(
        DeviceUse(
            use.uuid,
            use.memory,
            use.utilisation,
            tuple(
                ProcessUse(each.pid, Reading(each.memory.value, Attribution.IN_KERNEL), each.utilisation)
                for each in use.processes or ()
            ),
        )
        for use in sample.uses
    )
    return Sample(sample.at, sample.taken, sample.driver, sample.devices, uses, sample.attributed)


@pytest.mark.parametrize("change", [_untrusted, _told_by_kernel])
def test_nobody_is_ended_on_a_guess(
    program: Callable[[], subprocess.Popen[bytes]], change: Callable[[Sample], Sample]
) -> None:
    """Only what the driver says exactly, in our own namespace, counts."""
    stage, offender = Stage(grace_s=0), program()
    stage.owners = {offender.pid: A}
    for _ in range(3):
        stage.look({offender.pid: 9}, change=change)
    assert offender.poll() is None
    assert not stage.told


def test_a_child_of_a_kernel_ends_without_its_kernel(program: Callable[[], subprocess.Popen[bytes]]) -> None:
    """The sentence says that the variables are still there, and they are."""
    stage, kernel, child = Stage(grace_s=0), program(), program()
    stage.owners = {kernel.pid: A, child.pid: A}
    stage.look({kernel.pid: 1, child.pid: 9})
    assert child.wait(timeout=30) == -signal.SIGKILL
    assert kernel.poll() is None
    assert "its variables are still there" in stage.told[-1][1].text


def test_what_the_system_refuses_is_said_once(
    program: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it may not be ended, people are told, and not at every reading."""

    def refuse(_handle: int, _signal: int) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    stage, offender = Stage(grace_s=0), program()
    stage.owners = {offender.pid: A}
    for _ in range(4):
        stage.look({offender.pid: 9})
    assert stage.codes == ["OVERRUN_WARNING", "OVERRUN_UNSTOPPABLE"]
    assert offender.poll() is None


def test_a_long_overrun_keeps_its_beginning() -> None:
    """What is remembered stays small, and since when and from what it grew stays in it."""
    stage = Stage(grace_s=1e9)
    stage.owners = {}
    watch_key = "GPU-0000"
    me = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        stage.owners = {me.pid: A}
        stage.look({me.pid: 1})
        for _ in range(200):
            stage.look({me.pid: 9})
    finally:
        me.communicate(b"\n")
    looks = stage.guard._watches[watch_key].looks
    assert len(looks) < 70
    verdict = decide(looks, 5 * GIB)
    assert isinstance(verdict, Over)
    assert verdict.over_s == 199
