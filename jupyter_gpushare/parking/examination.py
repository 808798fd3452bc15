"""One examination of a host by the doctor: its checks, then its trials, where no check stands against them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.checkpoint import CheckpointError
from jupyter_gpushare.parking.doctor import Row, diagnose, obstacles
from jupyter_gpushare.parking.harmful_drivers import checkpoint_before_kill
from jupyter_gpushare.parking.seen import Seen, look_at_host
from jupyter_gpushare.parking.self_test import QUALIFYING, TITLES, attempt, park_and_resume
from jupyter_gpushare.parking.trial import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.parking.qualification import Qualifications
    from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint
    from jupyter_gpushare.parking.self_test import Outcome, TrialCode

__all__ = ["Diagnosis", "Examination"]

_TRIAL_S: Final = 300.0
_DAMAGED: Final = "Do not park on this driver. Report this table, and try another driver branch."
_TOO_RISKY: Final = "Leave c.GpuShare.parking at 'observe' here, and report this table."


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found. *qualified* is None where nothing was tried with this driver yet."""

    seen: Seen
    rows: tuple[Row, ...]
    qualified: bool | None

    @property
    def parkable(self) -> bool:
        """Whether notebooks can be parked on this host."""
        return not obstacles(self.rows)


class Examination:
    """Looks at one host.

    Args:
        source: its devices.
        remote: its checkpoint process.
        qualifications: what was found out before, and where it is written down.
        simulated: the simulated machine's directory, empty for real devices.
        locks: the directory of the device tokens, None for the host's own.
        size: bytes that the trials move.
        trial_s: how long one trial may take.
        began: told what is being done, for people who wait.
    """

    def __init__(
        self,
        source: Source,
        remote: RemoteCheckpoint,
        qualifications: Qualifications,
        *,
        simulated: str = "",
        locks: str | None = None,
        size: int = 256 << 20,
        trial_s: float = _TRIAL_S,
        began: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._remote = remote
        self._qualifications = qualifications
        self._simulated = simulated
        self._locks = locks
        self._size = size
        self._trial_s = trial_s
        self._began = began

    async def run(self, *, qualify: bool = False) -> Diagnosis:
        """Look at everything, then try it; with *qualify* the riskier trials too, and write down how they went."""
        seen = await self._look()
        rows = diagnose(seen)
        version = _version(seen)
        rows.append(await self._self_test(seen, rows, version if qualify else ""))
        if qualify:
            rows += await self._qualify(seen, rows, version)
        outcomes = self._qualifications.outcomes(version) if version else {}
        qualified = self._qualifications.is_qualified(version) if outcomes else None
        return Diagnosis(seen, (*rows, _recorded(qualified, version)), qualified)

    async def _look(self) -> Seen:
        self._began("Looking at the host")
        host = await asyncio.to_thread(look_at_host, simulated=bool(self._simulated), locks=self._locks)
        self._began("Asking the driver")
        try:
            driver, problem = await self._remote.driver(), ""
        except CheckpointError as trouble:
            driver, problem = None, trouble.text
        return await asyncio.to_thread(Seen.of, self._source, host, driver, problem)

    async def _self_test(self, seen: Seen, rows: list[Row], version: str) -> Row:
        if reason := _why_not(rows):
            return _skipped("SELF_TEST", reason)
        outcome = await attempt("SELF_TEST", park_and_resume(self._bench(seen)), self._trial_s)
        if version:
            await asyncio.to_thread(self._qualifications.record, version, outcome)
        return _row(outcome, _DAMAGED)

    async def _qualify(self, seen: Seen, rows: list[Row], version: str) -> list[Row]:
        reason = _why_not(rows) or ("" if version else "the driver's version is not known")
        if reason:
            return [_skipped(code, reason) for code, _ in QUALIFYING]
        found = []
        for code, trial in QUALIFYING:
            self._began(f"Trying: {TITLES[code].lower()}")
            await asyncio.to_thread(self._qualifications.begin, version, code)
            outcome = await attempt(code, trial(self._bench(seen)), self._trial_s)
            await asyncio.to_thread(self._qualifications.record, version, outcome)
            found.append(_row(outcome, _TOO_RISKY))
        return found

    def _bench(self, seen: Seen) -> Bench:
        self._began("Parking and resuming a program of its own")
        return Bench(
            remote=self._remote,
            source=self._source,
            device=next(device.uuid for device in seen.devices if not device.is_mig),
            size=self._size,
            simulated=self._simulated,
            kill_needs_checkpoint=seen.checkpoint is not None and checkpoint_before_kill(seen.checkpoint.version),
        )


def _version(seen: Seen) -> str:
    """What results are kept under; empty when it cannot be told. A simulated driver needs no version to be itself."""
    return (seen.checkpoint.version or ("simulated" if seen.simulated else "")) if seen.checkpoint else ""


def _why_not(rows: list[Row]) -> str:
    """Why no trial is made: the first row that says no."""
    against = obstacles(rows)
    return f"{against[0].title}: {against[0].found}" if against else ""


def _skipped(code: TrialCode, reason: str) -> Row:
    return Row(code, TITLES[code], "skipped", f"not tried, because of {reason}")


def _row(outcome: Outcome, remedy: str) -> Row:
    if outcome.passed:
        return Row(outcome.code, TITLES[outcome.code], "ok", outcome.found)
    # Freezing is an extra that is off by default: without it parking is as safe.
    if outcome.code == "FREEZE":
        return Row(outcome.code, TITLES[outcome.code], "note", outcome.found, "Leave c.GpuShare.freeze_parked off.")
    return Row(outcome.code, TITLES[outcome.code], "no", outcome.found, outcome.remedy or remedy)


def _recorded(qualified: bool | None, version: str) -> Row:  # noqa: FBT001  # three answers
    title = "Qualified"
    if not version:
        return Row("QUALIFIED", title, "skipped", "the driver's version is not known")
    if qualified:
        return Row("QUALIFIED", title, "ok", f"driver {version} passed every trial on this host")
    found = f"driver {version} was not tried on this host" if qualified is None else f"driver {version} did not pass"
    remedy = "jupyter gpushare doctor --qualify; until it passes, parking=auto only observes on real GPUs."
    return Row("QUALIFIED", title, "note", found, remedy)
