"""Many notebook servers lost their broker, each with a job on its loan: everybody gets the own device back."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.job_socket import jobs_directory
from jupyter_gpushare.broker.wire import ClaimModel, LeasesAnswer
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.sequence import Parked, Target
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.session.lease.alone import Alone
from jupyter_gpushare.session.lease.joining import Joining
from jupyter_gpushare.session.lease.lease import SessionLease
from jupyter_gpushare.session.lease.settings import LeaseSettings
from jupyter_gpushare.session.lease.surroundings import Surroundings
from jupyter_gpushare.session.parking.record import Parking
from tests.session.lease.test_residence import sample
from tests.training.conftest import MIB, python
from tests.training.fake_broker import PATIENT_S
from tests.training.test_with_a_broker import POLICY, Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel

_LOG = logging.getLogger("test")
_HOLDS = python(
    "import time\nfrom jupyter_gpushare.devices.simulated import cuda\nb = cuda.allocate('600MiB')\ntime.sleep(9999)"
)


class Notebook:
    """The lease of a notebook server with one kernel that is parked; without the server.

    Attributes:
        kernel: its parking.
        lease: its lease.
    """

    def __init__(self, number: int, place: Place) -> None:
        self.kernel = Parking(f"kernel-{number}", "parked", "parked", memory=MIB)
        self.kernel.parked = Parked(Target(self.kernel.kernel_id, (), {}), 0.0, 0.0)
        self._claim = ClaimModel(f"session-{number}", "interactive", "team-a", "1", f"nb-{number}", is_parkable=True)
        settings = LeaseSettings(broker=place.environ["GPUSHARE_BROKER"], grace_s=1.0)
        self.joining = Joining(
            settings,
            claim=lambda: self._claim,
            processes=list,
            on_lease=lambda lease: self.lease.take_lease(lease),  # noqa: PLW0108  # not made yet
            on_change=lambda: self.lease.look(),  # noqa: PLW0108  # as above
            on_refused=lambda error: self.lease.take_refusal(error),  # noqa: PLW0108  # as above
            is_resident=lambda: self.lease.is_resident(),  # noqa: PLW0108  # as above
            environ=place.environ,
            log=_LOG,
        )
        self.alone = Alone(jobs_directory(place.environ), settings, changed=lambda: None, log=_LOG)
        self.lease = SessionLease(
            self.joining, self.alone, settings, self._surroundings(), on_grant=_nothing, project="team-a", log=_LOG
        )

    def all(self) -> list[Parking]:
        """As `Parkings.all`."""
        return [self.kernel]

    @property
    def model(self) -> LeaseModel | None:
        """The lease as the broker told it last."""
        return None if self.joining.holding is None else self.joining.holding.lease

    def has_room(self) -> bool:
        """Whether its kernel may look for room now; from then on it is on the device."""
        self.kernel.target = "running"
        if self.lease.may_resume(self.kernel) is not None:
            return False
        self.kernel.parked, self.kernel.status, self.kernel.resumed_at = None, "running", time.time()
        return True

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            last=lambda: sample(taken=time.monotonic()),
            ask=_nothing,
            parkings=lambda: self,  # type: ignore[arg-type, return-value]
            kernels=lambda: [self.kernel.kernel_id],
            idle_since=lambda: 0.0,
            mode=lambda: "park",
            idle_timeout_s=None,
            notify=_nothing,
            changed=_nothing,
        )


def _nothing(*_: object) -> None:
    """Nobody hears of it here."""


async def _until(holds: Callable[[], Any], place: Place, what: str) -> None:
    deadline = time.monotonic() + 2 * PATIENT_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}; {place.said()}"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("count", [2, pytest.param(16, marks=pytest.mark.long)])
def test_everybody_gets_the_own_device_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Each session resumes only when its own borrower has left, and with the broker back the jobs wait for a device."""
    specs = [DeviceSpec(total=Memory(1088 * MIB), reserve=Memory(64 * MIB)) for _ in range(count)]
    machine = Machine.create(tmp_path / "machine", specs, context_bytes=16 * MIB, copy_bytes_per_s=0)
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(machine.path))
    place = Place(tmp_path, machine, POLICY.replace("quota = 1", f"quota = {count}"))
    try:
        asyncio.run(_story(place, machine, count))
    finally:
        place.close()
        machine.close()


async def _story(place: Place, machine: Machine, count: int) -> None:
    client = BrokerClient(Endpoint.at_socket(place.socket))
    notebooks = [Notebook(number, place) for number in range(count)]
    for notebook in notebooks:
        notebook.joining.start()
    await _until(lambda: all(_is(each, "parked") for each in notebooks), place, "the share is handed back")
    for _ in notebooks:
        place.start_job("--project", "team-b", "--gpu", "1", train=_HOLDS)
    await _until(lambda: len(_held(machine)) == count, place, "every device is lent and used")

    place.broker.kill()
    await _until(lambda: not any(each.joining.holding.connected for each in notebooks), place, "no broker")  # type: ignore[union-attr]
    back: set[str] = set()

    def all_back() -> bool:
        for each in notebooks:
            assert each.model is not None
            device = each.model.grants[0].device
            if each.kernel.kernel_id not in back and each.has_room():
                assert device not in _held(machine), "it looked for room before the job had left"
                back.add(each.kernel.kernel_id)
        return len(back) == count

    await _until(all_back, place, f"{len(back)} of {count} are back")
    place.start_broker()
    await _until(lambda: all(_is(each, "running") for each in notebooks), place, "the broker sees who is back")
    deadline = time.monotonic() + PATIENT_S
    while (waiting := await _statuses(client)) - {"queued", "parked"}:
        assert time.monotonic() < deadline, waiting
        await asyncio.sleep(0.05)
    assert not _held(machine)
    for notebook in notebooks:
        await notebook.alone.stop()
        await notebook.joining.stop()


async def _statuses(client: BrokerClient) -> set[str]:
    """Where the jobs are."""
    answer = await client.request("GET", "leases?project=team-b", type=LeasesAnswer)
    return {lease.status for lease in answer.leases}


def _is(notebook: Notebook, status: str) -> bool:
    notebook.lease.look()
    return notebook.model is not None and notebook.model.status == status


def _held(machine: Machine) -> set[str]:
    """The devices on which somebody holds memory."""
    return {held.device for held in machine.occupancy.state().held}
