"""Adding to what an admin has configured, without dropping any of it."""

from __future__ import annotations

import copy
import inspect
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from traitlets.config.loader import Config, LazyConfigValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "OF_THE_CLASS",
    "SetUpTwiceError",
    "awaited",
    "chain",
    "configured",
    "former_of",
    "is_ours",
    "is_set_for_a_spawner",
]

_MARK: Final = "__gpushare__"


class _Unset(Enum):
    OF_THE_CLASS = "the spawner class's own"


#: The value of a trait that no section of the configuration says anything about.
OF_THE_CLASS: Final = _Unset.OF_THE_CLASS


class SetUpTwiceError(RuntimeError):
    """`setup_gpushare` was called a second time on one configuration."""

    def __init__(self) -> None:
        super().__init__("setup_gpushare(c) was called before on this configuration; call it once, with all shares")


async def awaited(value: Any) -> Any:
    """*value*, awaited if it wants to be: JupyterHub's hooks may be either."""
    return await value if inspect.isawaitable(value) else value


def configured(section: Config, trait: str) -> Any:
    """What *section* says about *trait*, None when it says nothing; of a list that is only added to, what is added."""
    value = section.get(trait)
    if isinstance(value, LazyConfigValue):  # ``c.Spawner.some_list.append(…)`` without having set it
        return value.get_value([]) or None
    return value


def is_ours(hook: object) -> bool:
    """Whether *hook* was installed by `chain`."""
    return hasattr(hook, _MARK)


def chain(c: Config, trait: str, wrap: Callable[[Any], Callable[..., Any]], *, base: str = "Spawner") -> None:
    """Set *trait* for every spawner to what *wrap* makes of the value it had; `former_of` tells which, of a spawner.

    A spawner's class may have a section of its own that wins over *base*: each section is wrapped in place.
    """
    for section in _spawner_sections(c):
        if is_ours(section.get(trait)):
            raise SetUpTwiceError
        if trait in section:  # with None too, which would win over *base* all the same
            section[trait] = _marked(wrap(section[trait]))
    if trait not in c[base]:
        c[base][trait] = _marked(wrap(OF_THE_CLASS))


def former_of(former: Any, spawner: Any, trait: str) -> Any:
    """What *trait* of *spawner* would be without us, *former* being what `chain` gave for it."""
    if former is OF_THE_CLASS:
        return spawner.trait_defaults(trait)
    if isinstance(former, LazyConfigValue):  # of a copy, since it keeps the first list that it was added to
        return copy.deepcopy(former).get_value(spawner.trait_defaults(trait))
    return former


def is_set_for_a_spawner(c: Config, trait: str) -> bool:
    """Whether some spawner's section says anything about *trait*."""
    return any(trait in section for section in _spawner_sections(c))


def _spawner_sections(c: Config) -> list[Config]:
    chosen = configured(c.JupyterHub, "spawner_class")
    chosen_name = chosen.rpartition(".")[2] if isinstance(chosen, str) else getattr(chosen, "__name__", "")
    return [
        section
        for name, section in c.items()
        if isinstance(section, Config) and (name.endswith("Spawner") or name == chosen_name)
    ]


def _marked(hook: Callable[..., Any]) -> Callable[..., Any]:
    setattr(hook, _MARK, True)
    return hook
