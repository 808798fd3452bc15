"""``[culling]`` of a ``gpushare.toml``: for how long what may be left idle. A hub's service keeps to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker import configuration_reading as reading
from jupyter_gpushare.broker.configuration_reading import WrongValueError
from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from jupyter_gpushare.broker.configuration_reading import TableReader

__all__ = ["KEYS", "read_culling"]

_TABLE: Final = "culling"
#: Each key of the file, with the field of `Limits` that it sets.
KEYS: Final = {
    "park_after": "park_after_s",
    "end_kernels_after": "end_kernels_after_s",
    "end_parked_after": "end_parked_after_s",
    "stop_after": "stop_after_s",
    "stop_parked_after": "stop_parked_after_s",
    "max_age": "max_age_s",
    "warning": "warning_s",
}
_WARNING: Final = "warning"
_NEVER: Final = "never"
#: A parked one's limit, and the one that it may not fall below.
_LONGER: Final = (("end_parked_after", "end_kernels_after"), ("stop_parked_after", "stop_after"))
_LEAST_S: Final = 1.0
_EVERY_S: Final = 300.0
_LEAST_EVERY_S: Final = 10.0


def read_culling(top: TableReader) -> CullPolicy:
    """What a whole file, *top*, says of culling; where it says nothing, nothing is culled."""
    table = top.table(_TABLE)
    base = Limits(**_said(table, Limits()))
    every_s = table.take("check_every", _every, _EVERY_S)
    has_rounds = table.take("rounds", reading.flag, default=True)
    pools = {name: _alone(each, base) for name, each in table.tables("pools")}
    # A profile may be a share such as "2x0.5@a100", which is no name of the usual kind.
    profiles = {_profile(name): _alone(each, base) for name, each in table.tables("profiles", is_glob=True)}
    table.finish()
    return CullPolicy(base, pools, profiles, every_s, has_rounds)


def _alone(table: TableReader, base: Limits) -> dict[str, Any]:
    said = _said(table, base)
    table.finish()
    return said


def _said(table: TableReader, base: Limits) -> dict[str, Any]:
    """What *table* says, and nothing that it does not; *base* holds where it says nothing."""
    said: dict[str, Any] = {}
    for key, name in KEYS.items():
        read = _some_time if key == _WARNING else _limit
        value = table.take(key, read, getattr(base, name))
        if table.has(key):
            said[name] = value
    for parked, running in _LONGER:
        longer, shorter = (said.get(KEYS[key], getattr(base, KEYS[key])) for key in (parked, running))
        if table.has(parked) and longer is not None and shorter is not None and longer < shorter:
            table.wrong(parked, f"is shorter than {running}; what is parked is kept at least as long", '"7d"')
    return said


def _limit(value: object) -> float | None:
    return None if value == _NEVER else _some_time(value, f'"12h", or "{_NEVER}"')


def _some_time(value: object, example: str = '"10m"') -> float:
    try:
        seconds = reading.duration(value)
    except WrongValueError as error:
        raise WrongValueError(error.problem, example) from None
    if seconds < _LEAST_S:
        raise WrongValueError("less than a second is too short", example)
    return seconds


def _every(value: object) -> float:
    seconds = reading.duration(value)
    if seconds < _LEAST_EVERY_S:
        raise WrongValueError(f"more often than every {_LEAST_EVERY_S:.0f} s is a burden to the hub", '"5m"')
    return seconds


def _profile(name: str) -> str:
    """A share as leases write it; any other name is a profile's slug."""
    try:
        return str(Share.parse(name))
    except ShareError:
        return name
