"""Takes care of our options where the hub applies options: it would warn of them at each start otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub.chaining import awaited, is_set_for_a_spawner
from jupyter_gpushare.hub.form_reading import OURS

if TYPE_CHECKING:
    from traitlets.config import Config

__all__ = ["add"]

_TRAIT: Final = "apply_user_options"  # JupyterHub 5.3 and newer


def add(c: Config) -> None:
    """Take care of our options, unless an admin has said what becomes of options: then all of them are seen there."""
    if not is_set_for_a_spawner(c, _TRAIT):
        c.Spawner[_TRAIT] = _apply


async def _apply(spawner: Any, options: dict[str, Any]) -> None:
    of_the_class = spawner.trait_defaults(_TRAIT)
    if callable(of_the_class):
        await awaited(of_the_class(spawner, options))
        return
    others = {name: value for name, value in options.items() if name not in OURS}
    if isinstance(of_the_class, dict):
        spawner.apply_user_options = of_the_class
        await awaited(spawner._apply_user_options_dict(others))  # noqa: SLF001  # what the hub does with a dict
    elif others:
        spawner.log.warning("Received unhandled user_options: %s", ", ".join(sorted(others)))
