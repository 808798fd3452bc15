"""From what the broker knows to what a picker says: when a share can be had, what it is, and what else to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.picture import CardPicture, Picture
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.share import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer, AvailabilityModel
    from jupyter_gpushare.hub.picture import Standing

__all__ = ["about", "in_line", "picture_of", "without_project"]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_FEW_S: Final = 5
_MOST_KINDS: Final = 3
#: An A100, an H100, a T4.
_SPOKEN_WITH_AN: Final = "AEFHILMNORSX8"

_BADGES: Final = {
    Reason.EXCEEDS_PROJECT_QUOTA: "over quota",
    Reason.EXCEEDS_PROJECT_LIMIT: "over limit",
    Reason.EXCEEDS_PERSON_LIMIT: "over your limit",
    Reason.NOT_A_MEMBER: "not for you",
    Reason.NO_SUCH_PROJECT: "not for you",
    Reason.NO_SUCH_DEVICE: "no such GPU",
}
#: What to do instead. Of the project and what is left of it: nothing that a person sends.
_WAYS_OUT: Final = {
    Reason.EXCEEDS_PROJECT_QUOTA: (
        "Your team's quota leaves {left}. Ask the owner of {project}, or run it as a training job."
    ),
    Reason.EXCEEDS_PROJECT_LIMIT: "{project} may never have so much. Take a smaller share.",
    Reason.EXCEEDS_PERSON_LIMIT: (
        "Your own limit leaves {left}. Stop another server of yours, or ask the owner of {project}."
    ),
    Reason.NOT_A_MEMBER: "You are no member of {project}. Ask its owner to add you.",
    Reason.NO_SUCH_PROJECT: "There is no project {project} any more. Choose another one.",
    Reason.NO_SUCH_DEVICE: "No GPU here could ever hold it. Take a smaller share, or another kind.",
}
_TAKES_TURNS: Final = "A share is of memory: computing takes turns among those on one GPU."
_TOO_MANY: Final = "No machine here has so many GPUs for one server. Take fewer, or another kind."


def picture_of(
    answer: AvailabilityAnswer,
    projects: Sequence[str],
    *,
    idle_timeout_s: float | None = None,
    takes_turns: bool = True,
) -> Picture:
    """How a picker stands by the broker's *answer*.

    Args:
        answer: about each share.
        projects: those that the person is in.
        idle_timeout_s: after how many seconds an idle notebook is parked; None where each server decides for itself.
        takes_turns: whether computing on a part of a GPU is shared with the others there, and not held to that part.
    """
    return Picture(
        cards=[_card(model, answer, idle_timeout_s) for model in answer.shares],
        project=answer.project,
        projects=list(projects),
        headline=f"{answer.project} · {_in_use(answer)}",
        is_simulated=answer.is_simulated,
        note=_TAKES_TURNS if takes_turns else "",
    )


def without_project(shares: Sequence[str]) -> Picture:
    """The picker of somebody who is in no project: nothing can be had, and why."""
    way_out = "You are in no project that may use GPUs. Ask an admin, or a team's owner, to add you."
    return Picture([CardPicture(share, "never", "not for you", "", way_out) for share in shares], headline=way_out)


def about(seconds: float) -> str:
    """How long something takes, no more exactly than anybody can know: "about 30 s", "about 4 min"."""
    if seconds < _MINUTE_S:
        return f"about {max(_FEW_S, -(-int(seconds) // _FEW_S) * _FEW_S)} s"
    if seconds < _HOUR_S:
        return f"about {round(seconds / _MINUTE_S)} min"
    return f"about {round(seconds / _HOUR_S)} h"


def in_line(place: int) -> str:
    """A place in line: "2nd in line"."""
    teens = place % 100 in {11, 12, 13}
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending} in line"


def _in_use(answer: AvailabilityAnswer) -> str:
    quota = Fraction.parse(answer.quota)
    if quota.is_unlimited:
        return f"{_plainly(answer.in_use)} GPUs in use by your team"
    return f"{_plainly(answer.in_use)} of {_plainly(answer.quota)} GPUs in use by your team"


def _card(model: AvailabilityModel, answer: AvailabilityAnswer, idle_timeout_s: float | None) -> CardPicture:
    standing = _standing(model)
    meaning = " · ".join(part for part in (_memory(model), _parking(model, answer, idle_timeout_s)) if part)
    way_out = "" if standing == "now" else _way_out(model, answer)
    return CardPicture(model.share, standing, _badge(model, standing), meaning, way_out)


def _standing(model: AvailabilityModel) -> Standing:
    if model.fits_now:
        return "now"
    return "never" if model.is_refused else "soon"


def _badge(model: AvailabilityModel, standing: Standing) -> str:
    if standing == "now":
        return "free now" if not model.free else f"{model.free} free now"
    if standing == "never":
        return next((badge for reason, badge in _BADGES.items() if _is(model, reason)), "not available")
    # The first in line need not be told: for it, all there is to wait for is the time.
    place = "" if model.place is None or model.place <= 1 else in_line(model.place)
    time = "" if model.estimate_s is None else about(model.estimate_s)
    return ", ".join(part for part in (place, time) if part) or "in line"


def _way_out(model: AvailabilityModel, answer: AvailabilityAnswer) -> str:
    if model.reason is None:
        return ""
    if _is(model, Reason.NO_SUCH_DEVICE) and Share.parse(model.share).count > 1:
        return _TOO_MANY
    template = next((text for reason, text in _WAYS_OUT.items() if model.is_refused and _is(model, reason)), None)
    if template is None:
        return model.reason.text
    return template.format(left=_plainly(answer.left), project=answer.project)


def _is(model: AvailabilityModel, reason: Reason) -> bool:
    return model.reason is not None and model.reason.code == reason.value


def _memory(model: AvailabilityModel) -> str:
    if model.memory is None:
        return ""
    kinds = [kind.upper() for kind in sorted(model.kinds)]
    share = Share.parse(model.share)
    text = _gigabytes(model.memory) + ("" if share.is_whole else " guaranteed")
    if len(kinds) == 1:
        kind = kinds[0]
        return f"{text} on each {kind}" if share.count > 1 else f"{text} of {_article(kind)} {kind}"
    named = ", ".join(kinds[:_MOST_KINDS]) + ("…" if len(kinds) > _MOST_KINDS else "")
    # What differs from one kind to the other is not promised beyond the smallest.
    return f"at least {text} ({named})" if kinds else text


def _parking(model: AvailabilityModel, answer: AvailabilityAnswer, idle_timeout_s: float | None) -> str:
    if not answer.is_parking or model.memory is None:
        return ""
    on_each = model.memory if model.burst is None else model.burst
    most = on_each * Share.parse(model.share).count
    if answer.parks_up_to is not None:
        most = min(most, answer.parks_up_to)
    if not most:
        return "no host memory left to park into"
    after = "" if idle_timeout_s is None else f" when idle for {_duration(idle_timeout_s)}"
    return f"parks up to {_gigabytes(most)}{after}"


def _gigabytes(size: int) -> str:
    """Whole numbers without their zero: a card is read at a glance."""
    return Memory(size).human.replace(".0 GB", " GB")


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.0f} h"


def _article(kind: str) -> str:
    return "an" if kind[:1] in _SPOKEN_WITH_AN else "a"


def _plainly(amount: str) -> str:
    """An amount of GPUs as people read it, in at most two decimals."""
    gpus = Fraction.parse(amount)
    return "no limit" if gpus.is_unlimited else f"{gpus.gpus:.2f}".rstrip("0").rstrip(".")
