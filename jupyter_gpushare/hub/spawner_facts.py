"""What a spawner says of its start: who starts it, from which form, and how long it may take."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["form_of", "groups_of", "reserve_of"]

#: More than a start may take by the spawner's own limits, before its share goes to somebody else.
_SLACK_S: Final = 30.0
_LONGEST_S: Final = 86400.0
_MOST_GROUPS: Final = 1000
_LONGEST_GROUP: Final = 200
#: What the hub reads from its own address or form for itself.
_HUBS_OWN: Final = frozenset({"_xsrf", "next", "display_name"})
#: Before each option in an address, from JupyterHub 6 on.
_PREFIX: Final = "opt-"


def groups_of(spawner: Any) -> list[str]:
    """The hub's groups that the person is in now."""
    names = sorted(str(group.name) for group in getattr(spawner.user, "groups", ()))
    return [name for name in names if 0 < len(name) <= _LONGEST_GROUP][:_MOST_GROUPS]


def reserve_of(spawner: Any) -> float:
    """For how many seconds a share is kept for a server that starts: as long as its start may take, and some more."""
    limits = (getattr(spawner, "start_timeout", 60), getattr(spawner, "http_timeout", 30))
    return min(_LONGEST_S, max(1.0, float(sum(limits)) + _SLACK_S))


def form_of(spawner: Any) -> tuple[dict[str, list[str]], str] | None:
    """The fields with which a page started *spawner*, and where its person wanted to go then.

    None where no page did, where somebody else did, or where a file was sent, which no address can hold.
    """
    handler = getattr(spawner, "handler", None)
    request = getattr(handler, "request", None)
    starter = getattr(getattr(handler, "current_user", None), "name", None)
    if request is None or starter != spawner.user.name or request.files:
        return None
    is_post = request.method == "POST"
    given = request.body_arguments if is_post else request.query_arguments
    fields = {_unprefixed(name, is_post=is_post): _texts(values) for name, values in given.items()}
    then = request.query_arguments.get("next", [b""])[-1].decode("utf-8", "replace")
    return {name: values for name, values in fields.items() if name not in _HUBS_OWN}, then


def _unprefixed(name: str, *, is_post: bool) -> str:
    return name if is_post else name.removeprefix(_PREFIX)


def _texts(values: list[bytes]) -> list[str]:
    return [value.decode("utf-8", "replace") for value in values]
