"""What a new configuration changes of which the books know nothing: the broker's own settings, culling, and news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.culling_configuration import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpushare.broker.configuration import Configuration
    from jupyter_gpushare.broker.cull_policy import CullPolicy
    from jupyter_gpushare.broker.news_configuration import NewsHook

__all__ = ["settings_changes", "settings_warnings"]

#: What one table says, by its keys, as people read it.
_Facts = dict[str, str]

#: What is so where a table of one pool or profile does not say it.
_AS_ELSEWHERE: Final = "as elsewhere"
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60))


def settings_changes(before: Configuration, after: Configuration) -> Iterator[str]:
    """A line for each table in which *after* says something else than *before*, as the file writes it."""
    yield from _changed("broker", _broker(before), _broker(after))
    yield from _each_changed("news", *({each.name: _hook(each) for each in said.news} for said in (before, after)))
    yield from _changed("culling", _culling(before.culling), _culling(after.culling))
    for word, name in (("pool", "pools"), ("profile", "profiles")):
        tables = ({key: _limits(said) for key, said in getattr(each.culling, name).items()} for each in (before, after))
        yield from _each_changed(f"culling of {word}", *tables)


def settings_warnings(before: Configuration, after: Configuration) -> Iterator[str]:
    """What people should know before they put *after* in force, where *before* was not so already."""
    if before.culling != after.culling and _ends_something(after.culling):
        yield "culling ends kernels or stops servers: what is only in their memory is lost, after the warning"


def _changed(word: str, before: _Facts, after: _Facts) -> Iterator[str]:
    names = [*after, *(name for name in before if name not in after)]
    told = [(name, before.get(name, _AS_ELSEWHERE), after.get(name, _AS_ELSEWHERE)) for name in names]
    if lines := [f"{name} {old} → {new}" for name, old, new in told if old != new]:
        yield f"{word}: {', '.join(lines)}"


def _each_changed(word: str, before: Mapping[str, _Facts], after: Mapping[str, _Facts]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{word} {name} is removed"
        elif name not in before:
            said = ", ".join(f"{key} {value}" for key, value in after[name].items())
            yield f"{word} {name} is new: {said or 'it says nothing'}"
        else:
            yield from _changed(f"{word} {name}", before[name], after[name])


def _broker(said: Configuration) -> _Facts:
    return {
        "admins": _names(said.admins),
        "holder_grace": _time(said.holder_grace_s),
        "person_connections": str(said.person_connections),
        "person_claims": str(said.person_claims),
        "losses": _names(said.losses),
        "keep_audit": "for ever" if said.keeps_audit_s is None else _time(said.keeps_audit_s),
    }


def _hook(hook: NewsHook) -> _Facts:
    return {"url": hook.url, "secret_file": str(hook.secret_file), "events": _names(hook.events)}


def _culling(policy: CullPolicy) -> _Facts:
    rounds = "on" if policy.has_rounds else "off"
    return {**_limits(_base(policy)), "check_every": _time(policy.every_s), "rounds": rounds}


def _limits(said: Mapping[str, Any]) -> _Facts:
    return {key: _limit(said[name]) for key, name in KEYS.items() if name in said}


def _limit(seconds: float | None) -> str:
    return "never" if seconds is None else _time(seconds)


def _time(seconds: float) -> str:
    """As the file writes it, such as 1h30m."""
    left, text = seconds, ""
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        text += f"{count:.0f}{unit}" if count else ""
    return f"{text}{left:g}s" if left or not text else text


def _names(names: frozenset[Any]) -> str:
    return ", ".join(sorted(map(str, names))) or "none"


def _ends_something(policy: CullPolicy) -> bool:
    names = set(KEYS.values()) - {"park_after_s", "warning_s"}
    tables = (_base(policy), *policy.pools.values(), *policy.profiles.values())
    return any(said.get(name) is not None for said in tables for name in names)


def _base(policy: CullPolicy) -> Mapping[str, Any]:
    return {name: getattr(policy.base, name) for name in KEYS.values()}
