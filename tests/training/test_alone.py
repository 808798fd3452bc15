"""A job whose broker is away goes on, and gives back what is lent to it when the lender asks itself."""

from __future__ import annotations

import asyncio
import stat
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.job_socket import YieldAnswer, YieldRequest, ask_jobs
from jupyter_gpushare.broker.wire import GrantModel
from jupyter_gpushare.training.alone import AWAY_S, Alone, listen
from tests.training.conftest import python, running
from tests.training.fake_broker import PATIENT_S, lease_model
from tests.training.test_supervisor import STANDING, WORKS, begin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.devices.simulated.machine import Machine
    from tests.training.conftest import Stage

GRANTS = [GrantModel("GPU-0", "host", "0.5", 1, "0.5")]
ON_LOAN = lease_model(status="running", grants=GRANTS, lent="0.5", epoch=1)
REQUEST = YieldRequest(["GPU-0"], "session")


@asynccontextmanager
async def alone(directory: Path, code: str) -> AsyncIterator[Stage]:
    """A job on a loan, whose broker has gone away."""
    there = directory / "there"
    async with running(directory, [*python(code), str(there)], grace_s=20.0) as stage:
        await begin(stage, there)
        if code == WORKS:
            await stage.until(lambda: stage.supervisor.job.can_park, "its safe points")
        stage.broker.put(lent="0.5")
        stage.broker.go_away()
        server = await listen(stage.supervisor, directory / "jobs", "job")
        yield stage
        server.close()


@pytest.mark.parametrize(("code", "place"), [(WORKS, "parked"), (STANDING, "none")])
def test_a_lender_that_asks_gets_its_device_back(tmp_path: Path, machine: Machine, code: str, place: str) -> None:
    """The job is parked at its safe point or stopped, says so when the device is free, and stays away."""

    async def story() -> None:
        async with alone(tmp_path, code) as stage:
            answers = await ask_jobs(tmp_path / "jobs", ["GPU-0"], "session", PATIENT_S)
            assert answers == [YieldAnswer(released=True)]
            assert machine.occupancy.state().held == ()
            assert stage.supervisor.job.place == place
            # What the broker hears first when it is back: it is not on the device, and waits for it.
            assert stage.broker.lease.status == "parked"
            assert stage.broker.said[-1] == ("released", 1)
            stage.broker.connected = True
            stage.broker.resume()
            await stage.broker.has_said("running")

    asyncio.run(story())


def test_a_broker_that_calls_it_back_too_is_answered(tmp_path: Path, machine: Machine) -> None:
    """It has left already, with the same epoch: a broker that comes back and wants just that must not wait for ever."""

    async def story() -> None:
        async with alone(tmp_path, WORKS) as stage:
            await ask_jobs(tmp_path / "jobs", ["GPU-0"], "session", PATIENT_S)
            said = list(stage.broker.said)
            stage.broker.connected = True
            stage.broker.put(status="yielding")
            await stage.until(lambda: stage.broker.said == [*said, ("released", 1)], "the broker's answer")

    asyncio.run(story())


def test_while_the_broker_answers_it_decides(tmp_path: Path, machine: Machine) -> None:
    """Nobody takes a share past the broker, and the job is not disturbed."""

    async def story() -> None:
        async with alone(tmp_path, STANDING) as stage:
            stage.broker.connected = True
            (answer,) = await ask_jobs(tmp_path / "jobs", ["GPU-0"], "session", PATIENT_S)
            assert not answer.released
            assert "broker" in answer.why
            assert stage.supervisor.job.place == "running"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lease", "away_s", "devices", "most_s"),
    [
        (ON_LOAN, None, ["GPU-0"], 0),
        (ON_LOAN, AWAY_S - 5, ["GPU-0"], 5),
        (lease_model(status="running", grants=GRANTS, lent="0"), 1, ["GPU-0"], 0),
        (ON_LOAN, 1, ["GPU-1"], 0),
        (None, 1, ["GPU-0"], 0),
    ],
)
def test_what_is_not_lent_is_not_given_back(
    lease: LeaseModel | None, away_s: float | None, devices: list[str], most_s: float
) -> None:
    """Only a loan, only on devices that it is on, and only when the broker has been away for a while."""
    each = Alone()
    refusal = each.call(YieldRequest(devices), lease, None if away_s is None else time.time() - away_s)
    assert refusal is not None
    assert not refusal.released
    assert refusal.again_s == pytest.approx(most_s, abs=1.0)
    assert not each.is_called


def test_the_broker_takes_over_again() -> None:
    """When it is back its word holds, also in the middle of a call."""
    each = Alone()
    assert each.call(REQUEST, ON_LOAN, 0.0) is None
    assert each.seen(ON_LOAN, can_park=True).status == "parking"
    assert each.seen(ON_LOAN, can_park=False).status == "yielding"
    each.forget()
    assert each.seen(ON_LOAN, can_park=True) is ON_LOAN


def test_nonsense_is_not_answered(tmp_path: Path, machine: Machine) -> None:
    """The socket is for its user alone, and what is no request changes nothing."""

    async def story() -> None:
        async with alone(tmp_path, STANDING) as stage:
            assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o700
            for nonsense in (b"{}\n", b"x" * 100_000 + b"\n", b'{"devices": []}\n'):
                reader, writer = await asyncio.open_unix_connection(tmp_path / "jobs" / "job")
                writer.write(nonsense)
                try:
                    assert await reader.read() == b""
                except ConnectionResetError:
                    assert len(nonsense) > 1000  # cut off in the middle
                writer.close()
            assert stage.supervisor.job.place == "running"
            assert await ask_jobs(tmp_path / "no-such-place", ["GPU-0"], "session", 1.0) == []

    asyncio.run(story())
