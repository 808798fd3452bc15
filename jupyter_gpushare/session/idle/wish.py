"""What a kernel spec, a notebook or an owner wishes about parking. Metadata is anybody's text and read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from msgspec import UNSET, UnsetType

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.duration import DurationError, parse_timeout
from jupyter_gpushare.session.untrusted import sendable

__all__ = ["Place", "Wish", "read_wish"]

Place = Literal["kernel_spec", "notebook", "owner"]

_FLAGS: Final = ("allow_background_work", "park")
_FIELDS: Final = ("idle_timeout", *_FLAGS)
_PLACE_NAMES: Final = {"kernel_spec": "kernel spec", "notebook": "notebook", "owner": "request"}
_LONGEST_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody says; UNSET where they say nothing. *park_again* undoes a weaker one's never."""

    idle_timeout_s: float | UnsetType | None = UNSET
    allow_background_work: bool | UnsetType = UNSET
    allow_foreign: bool | UnsetType = UNSET
    park_again: bool = False

    def amended(self, later: Wish) -> Wish:
        """This, with all that *later* says put in its place."""
        return Wish(
            self.idle_timeout_s if later.idle_timeout_s is UNSET else later.idle_timeout_s,
            self.allow_background_work if later.allow_background_work is UNSET else later.allow_background_work,
            self.allow_foreign if later.allow_foreign is UNSET else later.allow_foreign,
        )


def read_wish(metadata: object, place: Place) -> tuple[Wish, Message | None]:
    """The wish in *metadata* under ``gpushare``, and the first thing in it that is wrong and ignored."""
    said = metadata.get("gpushare") if isinstance(metadata, dict) else None
    if said is None:
        return Wish(), None
    if not isinstance(said, dict):
        return Wish(), _ignored(place, "gpushare", said, 'write for example {"idle_timeout": "30m"}')
    problems = [_ignored(place, f"gpushare.{name}", said[name], _KNOWN) for name in said if name not in _FIELDS]
    flags: dict[str, bool] = {}
    for name in _FLAGS:
        if isinstance(said.get(name), bool):
            flags[name] = said[name]
        elif name in said:
            problems.append(_ignored(place, f"gpushare.{name}", said[name], "write true or false"))
    timeout, problem = _read_timeout(said, place)
    problems += [problem] if problem else []
    wish = Wish(
        None if flags.get("park") is False else timeout,
        flags.get("allow_background_work", UNSET),
        park_again=flags.get("park", False) and timeout is UNSET,
    )
    return wish, problems[0] if problems else None


def _read_timeout(said: dict[str, object], place: Place) -> tuple[float | UnsetType | None, Message | None]:
    if "idle_timeout" not in said:
        return UNSET, None
    try:
        return parse_timeout(said["idle_timeout"]), None
    except DurationError as error:
        return UNSET, _ignored(place, "gpushare.idle_timeout", said["idle_timeout"], str(error))


def _ignored(place: Place, field: str, value: object, fix: str) -> Message:
    template = "In the metadata of the {place}, {field} is {value}. It is ignored; {fix}."
    shown = sendable(repr(value), _LONGEST_SHOWN)
    values = {"place": _PLACE_NAMES[place], "field": sendable(field, _LONGEST_SHOWN), "value": shown, "fix": fix}
    return Message("POLICY_IGNORED", template, values)


_KNOWN: Final = f"known are {', '.join(_FIELDS)}"
