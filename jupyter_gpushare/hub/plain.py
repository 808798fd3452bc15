"""Offering shares with any spawner that has a form: local processes, systemd, Docker."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec

from jupyter_gpushare.hub.chaining import OF_THE_CLASS, awaited, former_of
from jupyter_gpushare.hub.denial import deny
from jupyter_gpushare.hub.form import Choice, render_picker
from jupyter_gpushare.hub.form_reading import OURS, read_picker
from jupyter_gpushare.hub.offers import NotOfferedError
from jupyter_gpushare.hub.picker_link import PICKER_PATH, PickerLink
from jupyter_gpushare.hub.sealed import SealError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_gpushare.hub.admission import GpuShareAdmission
    from jupyter_gpushare.hub.offers import Offers

__all__ = ["wrap_form", "wrap_form_reader"]

_AWAY: Final = "What is free cannot be shown now: the service that shares the GPUs does not answer. "
_AWAY_THEN: Final = {
    "closed": "Until it does, servers start without a GPU only.",
    "open": "Servers start all the same, and get their share when it does.",
}


def wrap_form(admission: GpuShareAdmission, former: Any) -> Callable[[Any], Awaitable[str]]:
    """A form with the share picker on top of the form there was, *former*."""

    async def options_form(spawner: Any) -> str:
        form = former_of(former, spawner, "options_form")
        rest = await awaited(form(spawner)) if callable(form) else form
        return await _picker(admission, spawner) + (rest or "")

    return options_form


def wrap_form_reader(admission: GpuShareAdmission, former: Any) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A reader of that form: the share, and whatever *former* or the spawner class makes of the other fields."""

    async def options_from_form(formdata: Mapping[str, list[Any]], spawner: Any = None) -> dict[str, Any]:
        fields = {name: values for name, values in formdata.items() if name not in OURS}
        options = dict(await _read_rest(former, fields, spawner))
        offers = await admission.offered(spawner)
        try:
            # Ours come last: a reader of an admin's that names options as we do is not asked about shares.
            return {**options, **read_picker(offers, formdata)}
        except NotOfferedError as error:
            raise deny(await awaited(admission.word_denial(error.message, spawner))) from None

    return options_from_form


async def _picker(admission: GpuShareAdmission, spawner: Any) -> str:
    terms = admission.terms
    offers = await admission.offered(spawner)
    choice = _last_choice(offers, spawner)
    link = PickerLink.of(spawner, offers, str(await awaited(admission.project_of(spawner)) or ""))
    picture = await terms.link.picture(terms.urls.for_hub(spawner), link, choice.project)
    notice = "" if picture is not None else _AWAY + _AWAY_THEN[terms.broker_away]
    told = link if picture is None else msgspec.structs.replace(link, groups=picture.groups)
    return render_picker(offers, choice, picture, live_url=_live_url(admission, spawner, told), notice=notice)


def _live_url(admission: GpuShareAdmission, spawner: Any, link: PickerLink) -> str:
    """Where the open page asks; nowhere if its person's groups and what is offered are more than an address holds."""
    urls = admission.terms.urls
    try:
        return f"{urls.for_browser(spawner)}{PICKER_PATH}?{link.query(admission.terms.link.secret)}"
    except SealError:
        return ""


def _last_choice(offers: Offers, spawner: Any) -> Choice:
    """What the person had last, as far as it is still offered."""
    try:
        return Choice(offers.choose(spawner.user_options), offers.project_in(spawner.user_options))
    except NotOfferedError:
        return Choice(offers.default)


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
    if spawner is None:
        return None if former is OF_THE_CLASS else former
    return former_of(former, spawner, "options_from_form")


def _call_reader(reader: Callable[..., Any], fields: dict[str, list[Any]], spawner: Any) -> Any:
    if "spawner" in inspect.signature(reader).parameters:
        return reader(fields, spawner=spawner)
    return reader(fields)
