"""What a person sees of a share in a notebook: the words and figures, before any HTML, text or widget.

The magic and the widget show the same card, so that the same thing has the same words and the same
colour everywhere. A colour is named by its *role*, what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.notebook.parking_facts import MOVED_STATUSES, parking_notes, parking_words
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_gpushare.notebook import view as wire
    from jupyter_gpushare.notebook.view import Device, Kernel, KernelView, Reading, Share

__all__ = [
    "UNKNOWN",
    "Bar",
    "Card",
    "Countdown",
    "Figure",
    "Role",
    "Row",
    "Segment",
    "State",
    "card_of",
    "problem_card",
    "state_of",
]

#: mine: a notebook computing; kept: for me, unused; changing: about to change; parked; others; free; trouble.
Role = Literal["mine", "kept", "changing", "parked", "others", "free", "trouble"]

UNKNOWN: Final = "–"  # noqa: RUF001  # the sign for "not available" everywhere

_STATES: Final[dict[str, tuple[Role, str]]] = {
    "ACTIVE": ("mine", "●"),
    "HOLDING": ("kept", "◔"),
    "NOTHING_HELD": ("free", "○"),
    "RELEASING": ("changing", "↻"),
    "RELEASED": ("free", "✓"),
    "CANNOT_RELEASE": ("trouble", "!"),
    "NO_GPU": ("free", "∅"),
    "NO_DRIVER": ("free", "∅"),
    "DRIVER_LOST": ("trouble", "!"),
    "SHARE_DOES_NOT_FIT": ("trouble", "!"),
    "MIG_WITHOUT_UTILISATION": ("mine", "●"),
    "COUNTING_DOWN": ("changing", "◷"),
    "ASKED": ("changing", "◷"),
    "PARKING": ("changing", "↻"),
    "PARKED": ("parked", "❄"),
    "WAITING_FOR_ROOM": ("changing", "⋯"),
    "RESUMING": ("mine", "↻"),
    "RESUMED": ("mine", "✓"),
    "CANNOT_PARK": ("trouble", "!"),
    "KEPT": ("kept", "◔"),
    "KEPT_NO_LONGER": ("free", "○"),
    "BUSY_BUT_QUIET": ("kept", "‖"),
    "LEASE_WAITING": ("changing", "⋯"),
    "LEASE_RESUMING": ("mine", "↻"),
    "LEASE_PARKING": ("changing", "↻"),
    "LEASE_PARKED": ("parked", "❄"),
    "LENT_TO_TRAINING": ("parked", "❄"),
    "TRAINING_LEAVES": ("changing", "◷"),
    "LEASE_AWAY": ("free", "◌"),
    "LEASE_ENDED": ("free", "∅"),
    "SHARE_CHANGED": ("mine", "✓"),
}
_SEGMENT_WORDS: Final[dict[Role, str]] = {"mine": "you", "kept": "kept for you", "others": "others", "free": "free"}
_COMPUTE_WORDS: Final = {
    "shared": "Compute is shared: the driver gives each process equal turns.",
    "enforced": "Your part of compute is enforced.",
}
_ATTRIBUTION_WORDS: Final = {
    "exact": "As the driver reports it.",
    "in_kernel": "As the frameworks in the kernel count it.",
    "device_total": "The total of the whole device.",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as people read it, and on hover how it was found or why it is not available."""

    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Countdown:
    """A sentence whose remaining time runs: what stands before and after it, and when it is over (seconds, epoch)."""

    before: str
    after: str
    ends_at: float


@dataclass(frozen=True, slots=True)
class State:
    """The one sentence, with its colour and its icon. A live view writes the *countdown* anew each second."""

    role: Role
    icon: str
    text: str
    countdown: Countdown | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A name and its figures."""

    name: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a device's bar: its meaning, its words, and its part of the bar in per cent."""

    role: Role
    text: str
    percent: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One device: whose memory is where. Without segments, *why* says why nobody can tell."""

    title: str
    subtitle: str
    segments: tuple[Segment, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """Everything shown at once. Any part may be empty."""

    title: str
    headline: Figure
    details: tuple[Figure, ...] = ()
    state: State | None = None
    rows: tuple[Row, ...] = ()
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()


def card_of(view: KernelView, notes: Iterable[str] = ()) -> Card:
    """The card of a session as one of its kernels sees it."""
    own = [view.kernel.note.text] if view.kernel.note else []
    simulated = ["These GPUs are simulated: no real GPU is used."] if view.simulated else []
    return Card(
        title="GPU share",
        headline=memory_figure(view.memory),
        details=tuple(_details(view)),
        state=_state(view),
        rows=(*_rows(view.kernel), *_lease_rows(view)),
        bars=tuple(_bar(device, view.share) for device in _own_devices(view)),
        notes=(*_more_devices(view), *parking_notes(view), *own, *simulated, *notes),
    )


def problem_card(problem: str, notes: Iterable[str] = ()) -> Card:
    """The card when there is no view: what is missing, and in the notes what still works."""
    return Card("GPU share", Figure(UNKNOWN, problem), state=State("trouble", "!", problem), notes=tuple(notes))


def memory_figure(reading: Reading) -> Figure:
    """Memory in GB, or `UNKNOWN` with the reason."""
    if reading.value is None:
        return Figure(UNKNOWN, reading.reason or "not available")
    return Figure(Memory(reading.value).human, _ATTRIBUTION_WORDS[reading.attribution])


def state_of(said: wire.State, ends_at: float | None = None) -> State:
    """A sentence of the server with its colour and icon; *ends_at* is when a countdown in it is over."""
    role, icon = _STATES.get(said.code, ("free", "…"))
    return State(role, icon, said.text, _countdown(said, ends_at))


def _countdown(said: wire.State, ends_at: float | None) -> Countdown | None:
    before, found, after = said.template.partition("{left}")
    if ends_at is None or not found:
        return None
    return Countdown(_filled(before, said.values), _filled(after, said.values), ends_at)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """*template* with its values. What is in braces otherwise stays as it is: it is a server's text, no code."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _state(view: KernelView) -> State:
    """This notebook's own parking where there is something to say of it, else the session's state."""
    parking = view.kernel.parking
    if parking is not None and parking.status != "running":
        return state_of(parking.message, parking.parks_at)
    return state_of(view.state)


def _rows(kernel: Kernel) -> Iterable[Row]:
    parking = kernel.parking
    if parking is None:
        yield Row("This notebook", (memory_figure(kernel.memory), _percent(kernel.utilisation)))
        return
    parked = parking.status in MOVED_STATUSES and parking.memory is not None
    memory = Figure(f"{Memory(parking.memory or 0).human} parked", "In host memory, until the next cell.")
    yield Row("This notebook", (memory if parked else memory_figure(kernel.memory), _percent(kernel.utilisation)))
    yield Row("Parking", (Figure(parking_words(parking)),))


def _lease_rows(view: KernelView) -> Iterable[Row]:
    """What the broker says of the share, unless the state has said it already."""
    if view.lease is not None and view.lease.message.text != view.state.text:
        yield Row("Share", (Figure(view.lease.message.text),))
    if view.lease is not None and view.lease.policy is not None:
        yield Row("Pool", (Figure(view.lease.policy.text),))


def _percent(reading: Reading) -> Figure:
    if reading.value is None:
        return Figure(UNKNOWN, reading.reason or "not available")
    return Figure(f"{reading.value} %", _ATTRIBUTION_WORDS[reading.attribution])


def _details(view: KernelView) -> Iterable[Figure]:
    if view.memory.value is not None and view.share.request:
        yield Figure(f"{round(100 * view.memory.value / view.share.request)} % of share")
    yield Figure(view.share.description)
    kinds = sorted({device.kind for device in _own_devices(view)})
    if kinds:
        yield Figure(", ".join(kinds).upper())
    compute = _percent(view.utilisation)
    known = view.utilisation.value is not None
    yield Figure(f"compute {compute.text}", _COMPUTE_WORDS[view.share.compute] if known else compute.why)


def _own_devices(view: KernelView) -> Sequence[Device]:
    return [device for device in view.devices if device.uuid in view.share.devices]


def _more_devices(view: KernelView) -> Iterable[str]:
    own = len(_own_devices(view))
    others = len(view.devices) - own
    if others:
        yield f"{f'+{others} more' if own else others} GPU{'s' if others > 1 else ''}, not in your share"


def _bar(device: Device, share: Share) -> Bar:
    title = f"GPU {device.index}"
    mine, others = device.mine.value, device.others.value
    if mine is None or others is None or not device.usable:
        why = device.mine.reason if mine is None else device.others.reason
        used = memory_figure(device.used).text
        return Bar(title, device.name, (), f"{used} in use, not known by whom: {why or 'not available'}")
    kept = max(0, (share.request or 0) // len(share.devices) - mine)  # the request is summed over the share's devices
    kept = min(kept, max(0, device.usable - mine - others))
    free = max(0, device.usable - mine - kept - others)
    parts: list[tuple[Role, int]] = [("mine", mine), ("kept", kept), ("others", others), ("free", free)]
    whole = max(device.usable, mine + others)
    return Bar(title, device.name, tuple(_segment(role, size, whole) for role, size in parts if size))


def _segment(role: Role, size: int, whole: int) -> Segment:
    return Segment(role, f"{_SEGMENT_WORDS[role]} {Memory(size).human}", round(100 * size / whole, 1))
