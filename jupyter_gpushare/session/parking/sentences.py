"""The sentences of parking. They reassure first: nothing is lost. No other module of the session makes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.conditions import CONDITIONS
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "A_CELL_CAME",
    "CELL_RUNNING",
    "COMES_BACK",
    "ENDED_MEANWHILE",
    "FAR_AWAY",
    "NOTHING_HELD",
    "NOT_QUIET",
    "NO_LONGER_WANTED",
    "OTHER_WAYS",
    "OUR_FAULT",
    "SERVER_STOPS",
    "UNREADABLE",
    "asked",
    "busy_but_quiet",
    "cannot_park",
    "counting_down",
    "ended_parked",
    "kept",
    "kept_no_longer",
    "lost",
    "not_looked_yet",
    "parkable",
    "parked",
    "parking",
    "resumed",
    "resuming",
    "waiting_for_room",
]


def _refusal(code: str, reason: str, remedy: str) -> NotParkable:
    return NotParkable(Message(code, reason), Message(f"{code}_REMEDY", remedy))


CELL_RUNNING = _refusal(
    "CELL_RUNNING",
    "a cell is running.",
    "Wait for its end, or run %gpushare release: it parks as soon as that has ended.",
)
A_CELL_CAME = _refusal("CELL_CAME", "a cell was started meanwhile, and it goes first.", "Release again after it.")
NOT_QUIET = _refusal(
    "KERNEL_DID_NOT_ANSWER",
    "the kernel did not answer in time, so it may be working; nothing was touched.",
    "Wait until it answers again, or restart the kernel.",
)
NOTHING_HELD = _refusal("NOTHING_HELD", "it holds no GPU memory.", "There is nothing to do: the GPU is free of it.")
NO_LONGER_WANTED = _refusal("NO_LONGER_WANTED", "it was called off.", "Release again whenever you like.")
ENDED_MEANWHILE = _refusal("KERNEL_ENDED", "the kernel ended meanwhile.", "There is nothing left to park.")
SERVER_STOPS = _refusal("SERVER_STOPS", "the server ends.", "Start it again.")
(FAR_AWAY,) = (_refusal(row.code, row.sentence, row.remedy) for row in CONDITIONS if row.code == "GATEWAY_KERNEL")
UNREADABLE = _refusal(
    "NOT_EXAMINED",
    "the GPUs or the kernel's processes could not be looked at in time.",
    "Nothing is lost, the notebook goes on; try again in a moment.",
)
OUR_FAULT = _refusal(
    "INTERNAL_ERROR",
    "something failed inside the server; nothing is lost, and the notebook goes on.",
    "The server's log says what; show it to your admin.",
)
OTHER_WAYS = Message("OTHER_WAYS", "Freeing its cache or ending the kernel are other ways to release.")
COMES_BACK = Message("COMES_BACK", "It is safe in host memory and comes back as soon as there is room.")


def _gb(memory: int | None) -> str:
    return "Your GPU memory" if memory is None else Memory(memory).human


def _seconds(seconds: float | None) -> str:
    """Whole seconds from ten on, one decimal below: people plan by the first and compare by the second."""
    if seconds is None:
        return "some"
    return f"{seconds:.0f}" if seconds >= 10 else f"{max(seconds, 0.1):.1f}"  # noqa: PLR2004


def _clock(name: str, at: float) -> dict[str, str]:
    """A time of day; front ends show the second form in the reader's own time zone."""
    return {name: time.strftime("%H:%M", time.localtime(at)), f"{name}_epoch": f"{at:.0f}"}


def _length(seconds: float) -> str:
    """A time span as people say it: "45 s", "6 min", "2 h 5 min"."""
    if seconds < 60:  # noqa: PLR2004
        return f"{max(int(seconds), 0)} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004


def _countdown(seconds: float) -> str:
    return f"{max(int(seconds), 0) // 60}:{max(int(seconds), 0) % 60:02d}"


def counting_down(idle_since: float, parks_at: float, now: float) -> Message:
    """It is idle and will be parked by itself."""
    template = "Idle for {idle}. Your GPU is handed back in {left}. Nothing is lost: it comes back with your next cell."
    return Message("COUNTING_DOWN", template, {"idle": _length(now - idle_since), "left": _countdown(parks_at - now)})


def asked(memory: int | None) -> Message:
    """It is parked as soon as its cell has ended."""
    template = "{memory} move to host memory as soon as the cell has ended. Nothing is lost."
    return Message("ASKED", template, {"memory": _gb(memory)})


def parking(memory: int | None, moved: int | None) -> Message:
    """It is on its way off the device."""
    if memory is None:
        return Message("PARKING", "Parking your GPU memory. Nothing is lost.")
    if moved is None:
        return Message("PARKING", "Parking {memory}. Nothing is lost.", {"memory": _gb(memory)})
    values = {"moved": _gb(moved), "memory": _gb(memory)}
    return Message("PARKING", "Parking {moved} of {memory}. Nothing is lost.", values)


def parked(memory: int, since: float, resume_s: float | None) -> Message:
    """It is in host memory."""
    template = "{memory} safe in host memory since {since}. Run any cell and it returns (about {seconds} s)."
    return Message("PARKED", template, {"memory": _gb(memory), "seconds": _seconds(resume_s)} | _clock("since", since))


def waiting_for_room(memory: int, why: str) -> Message:
    """It is to come back, and its device has no room yet."""
    template = "Waiting for room: {why}. {memory} stay safe in host memory; your cell waits, nothing to do."
    return Message("WAITING_FOR_ROOM", template, {"memory": _gb(memory), "why": why.rstrip(".")})


def resuming(memory: int, moved: int | None) -> Message:
    """It is on its way back."""
    if moved is None:
        return Message("RESUMING", "Resuming {memory}. Your cell runs next.", {"memory": _gb(memory)})
    values = {"moved": _gb(moved), "memory": _gb(memory)}
    return Message("RESUMING", "Resuming {moved} of {memory}. Your cell runs next.", values)


def resumed(seconds: float) -> Message:
    """It is back."""
    return Message("RESUMED", "Resumed in {seconds} s; every variable is as it was.", {"seconds": _seconds(seconds)})


def cannot_park(refusal: NotParkable) -> Message:
    """It cannot be parked: why, and what would help. `reason_code` is the reason's own constant."""
    values = {"reason": refusal.reason.text, "remedy": refusal.remedy.text, "reason_code": refusal.reason.code}
    return Message("CANNOT_PARK", "Cannot park: {reason} {remedy}", values)


def kept(until: float) -> Message:
    """The owner keeps it."""
    return Message("KEPT", "Kept for you until {until}.", _clock("until", until))


def kept_no_longer() -> Message:
    """The owner keeps it no longer."""
    return Message("KEPT_NO_LONGER", "No longer kept: it is parked when it is idle, as configured. Nothing is lost.")


def busy_but_quiet(since: float, now: float) -> Message:
    """A cell runs, and the GPU has done nothing for long."""
    template = "A cell is running, but the GPU has been quiet for {quiet}. It stays yours; end the cell to release it."
    return Message("BUSY_BUT_QUIET", template, {"quiet": _length(now - since)})


def parkable(memory: int, park_s: float) -> Message:
    """It could be parked now."""
    values = {"memory": _gb(memory), "seconds": _seconds(park_s)}
    return Message("PARKABLE", "{memory} can be parked in about {seconds} s. Nothing is lost.", values)


def not_looked_yet() -> Message:
    """Nobody has looked whether it could be parked."""
    return Message("NOT_LOOKED_YET", "Whether it can be parked is being looked at.")


def lost(notebook: str, why: Message) -> Message:
    """A kernel's GPU state is gone; its other variables are not."""
    template = (
        "The GPU state of {notebook} is lost: {why} Variables in main memory are still there; restart to use the GPU."
    )
    return Message("GPU_STATE_LOST", template, {"notebook": notebook, "why": why.text})


def ended_parked(notebooks: Sequence[str]) -> Message:
    """The server ends, and parked kernels with it, as all kernels do."""
    template = "The server ends, and with it the parked kernels: {notebooks}."
    return Message("PARKED_KERNELS_ENDED", template, {"notebooks": ", ".join(notebooks)})
