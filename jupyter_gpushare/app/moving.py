"""Parking and resuming one kernel through its server: asked, followed to the end, and told truly."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.app.servers import AnswerError
from jupyter_gpushare.session.requests import ReleaseRequest, ResumeAnswer, ResumeRequest
from jupyter_gpushare.session.wire import KernelView, ReleaseModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.app.choosing import Found
    from jupyter_gpushare.session.wire import ParkingModel

    Told = Callable[[ParkingModel], None]

__all__ = ["Outcome", "park", "resume"]

_LOOK_EVERY_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. *done* is whether the kernel is now where it was wanted; *text* is the sentence about it."""

    found: Found
    done: bool
    code: str
    text: str
    memory: int | None = None
    seconds: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "server": self.found.server.url,
            "kernel_id": self.found.kernel.id,
            "path": self.found.kernel.path,
            "done": self.done,
            "code": self.code,
            "message": self.text,
            "memory": self.memory,
            "seconds": self.seconds,
        }


async def park(found: Found, told: Told, deadline_s: float) -> Outcome:
    """Park one kernel. *told* hears how far it is; what is not done by the deadline goes on in the server."""
    parking = found.kernel.parking
    if parking is not None and parking.status == "parked":
        return Outcome(found, True, "PARKED", parking.message.text, parking.memory)  # noqa: FBT003  # a field
    return await _within(found, deadline_s, _park(found, told))


async def resume(found: Found, told: Told, deadline_s: float) -> Outcome:
    """Resume one kernel, as `park`."""
    parking = found.kernel.parking
    if parking is None or parking.status in ("running", "counting_down"):
        return Outcome(found, True, "RUNNING", "It is not parked: its GPU memory is on the GPU.")  # noqa: FBT003
    return await _within(found, deadline_s, _resume(found, told))


async def _within(found: Found, deadline_s: float, moving: Any) -> Outcome:
    try:
        async with asyncio.timeout(deadline_s):
            outcome: Outcome = await moving
    except TimeoutError:
        text = f"Not finished within {deadline_s:g} s. Nothing is lost, and it goes on in the server."
        return Outcome(found, False, "DEADLINE", text)  # noqa: FBT003
    except AnswerError as problem:
        code = problem.said.error.code if problem.said is not None else "SERVER_PROBLEM"
        return Outcome(found, False, code, str(problem))  # noqa: FBT003
    return outcome


async def _park(found: Found, told: Told) -> Outcome:
    started, server = time.monotonic(), found.server
    wish = ReleaseRequest(level="park", kernel_id=found.kernel.id)
    release = await server.ask(ReleaseModel, "POST", "releases", wish)
    while release.status == "running":
        await _look(found, told)
        release = await server.ask(ReleaseModel, "GET", f"releases/{release.id}")
    done, seconds = release.status == "released", time.monotonic() - started
    return Outcome(found, done, release.message.code, release.message.text, release.freed, seconds)


async def _resume(found: Found, told: Told) -> Outcome:
    started = time.monotonic()
    known = await _losses(found)
    await found.server.ask(ResumeAnswer, "POST", "resumes", ResumeRequest(found.kernel.id))
    memory = found.kernel.parking.memory if found.kernel.parking is not None else None
    while (parking := await _look(found, told)) is not None and parking.status not in ("running", "counting_down"):
        pass
    lost = {key: text for key, text in (await _losses(found)).items() if key not in known}
    if lost:
        return Outcome(found, False, "LOST", " ".join(lost.values()), memory)  # noqa: FBT003
    if found.kernel.parking is not None and found.kernel.parking.status == "asked":
        return Outcome(found, True, "CALLED_OFF", "Called off: its GPU memory stays on the GPU.", memory)  # noqa: FBT003
    seconds = time.monotonic() - started
    said = parking.message if parking is not None and parking.message.code == "RESUMED" else None
    text = said.text if said is not None else f"Resumed in {seconds:.1f} s; every variable is as it was."
    return Outcome(found, True, "RESUMED", text, memory, seconds)  # noqa: FBT003


async def _look(found: Found, told: Told) -> ParkingModel | None:
    """How it is with parking a moment later."""
    await asyncio.sleep(_LOOK_EVERY_S)
    view = await found.server.ask(KernelView, "GET", f"kernels/{found.kernel.id}")
    if view.kernel.parking is not None:
        told(view.kernel.parking)
    return view.kernel.parking


async def _losses(found: Found) -> dict[str, str]:
    notices = (await found.server.session()).notices
    return {notice.id: notice.message.text for notice in notices if notice.kind == "loss"}
