"""Offering shares with any spawner that has a form: local processes, systemd, Docker."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.hub.chaining import awaited
from jupyter_gpushare.hub.denial import deny
from jupyter_gpushare.hub.form import render_picker
from jupyter_gpushare.hub.offers import SHARE_OPTION, NotOfferedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_gpushare.hub.offers import Offers

__all__ = ["wrap_form", "wrap_form_reader"]


def wrap_form(offers: Offers, former: Any) -> Callable[[Any], Awaitable[str]]:
    """A form with the share picker on top of the form there was: *former*, or the spawner class's own."""

    async def options_form(spawner: Any) -> str:
        form = spawner.trait_defaults("options_form") if former is None else former
        rest = await awaited(form(spawner)) if callable(form) else form
        return render_picker(offers, _last_choice(offers, spawner)) + (rest or "")

    return options_form


def wrap_form_reader(offers: Offers, former: Any) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A reader of that form: the share, and whatever *former* or the spawner class makes of the other fields."""

    async def options_from_form(formdata: Mapping[str, list[Any]], spawner: Any = None) -> dict[str, Any]:
        fields = {name: values for name, values in formdata.items() if name != SHARE_OPTION}
        options = dict(await _read_rest(former, fields, spawner))
        if formdata.get(SHARE_OPTION):
            options[SHARE_OPTION] = formdata[SHARE_OPTION][0]
        try:
            options[SHARE_OPTION] = str(offers.choose(options))
        except NotOfferedError as error:
            raise deny(error.message) from None
        return options

    return options_from_form


async def _read_rest(former: Any, fields: dict[str, list[Any]], spawner: Any) -> Mapping[str, Any]:
    reader = _find_reader(former, spawner)
    if reader is None:
        return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
    result: Mapping[str, Any] = await awaited(_call_reader(reader, fields, spawner))
    return result


def _find_reader(former: Any, spawner: Any) -> Any:
    if isinstance(former, str):  # "simple" and "passthrough", by their names
        from jupyterhub.spawner import Spawner  # type: ignore[import-untyped]

        return Spawner(options_from_form=former).options_from_form
    if former is None and spawner is not None:
        return spawner.trait_defaults("options_from_form")
    return former


def _call_reader(reader: Callable[..., Any], fields: dict[str, list[Any]], spawner: Any) -> Any:
    if "spawner" in inspect.signature(reader).parameters:
        return reader(fields, spawner=spawner)
    return reader(fields)


def _last_choice(offers: Offers, spawner: Any) -> Any:
    try:
        return offers.choose(spawner.user_options)
    except NotOfferedError:  # offered once, and no longer
        return offers.default
