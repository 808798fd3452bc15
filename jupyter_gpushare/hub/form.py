"""The share picker on the hub's spawn page: plain HTML in the hub's own look, which works without a script."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.cards import CUSTOM, cards_of, render_card
from jupyter_gpushare.hub.markup import attribute, safe
from jupyter_gpushare.hub.offers import NO_GPU, PROJECT_OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.hub.offers import Offers
    from jupyter_gpushare.hub.picture import CardPicture, Picture
    from jupyter_gpushare.share import Share

__all__ = ["KIND_OPTION", "Choice", "render_picker"]

KIND_OPTION: Final = "share_kind"
_STATIC: Final = Path(__file__).parent / "static"
_SIMULATED: Final = (
    '<p class="gpushare-notice"><b>SIMULATED</b> These GPUs are simulated. They are for trying things out.</p>'
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is selected when the picker opens: the last choice, as far as it can still be had.

    Attributes:
        share: the share; None for no GPU.
        project: the project; empty for the first.
    """

    share: Share | None
    project: str = ""


def render_picker(
    offers: Offers, choice: Choice, picture: Picture | None = None, *, live_url: str = "", notice: str = ""
) -> str:
    """The form's part that chooses a share.

    Args:
        offers: what there is to choose from.
        choice: what is selected.
        picture: how things stand; None while nobody can say.
        live_url: where the page asks how things stand while it is open; empty for nowhere.
        notice: what there is to say before one chooses.
    """
    drawn = {} if picture is None else {card.share: card for card in picture.cards}
    chosen, own, kind = _selected(offers, choice.share, drawn)
    cards = "\n".join(render_card(number, card) for number, card in enumerate(cards_of(offers, chosen, own, drawn)))
    live = f' data-live="{safe(live_url)}"' if live_url else ""
    script = f"<script>{_read('picker.js')}</script>" if live_url else ""
    return f"""<style>{_read("picker.css")}</style>
<fieldset class="gpushare-picker"{live}>
<legend class="h3 mb-1">How much GPU?</legend>
{_before(picture, choice, notice)}
<div class="gpushare-cards">
{cards}
</div>
{_kinds(offers, kind)}{_note(picture)}<p class="visually-hidden" role="status" aria-live="polite" data-said></p>
</fieldset>
{script}"""


def _selected(offers: Offers, share: Share | None, drawn: Mapping[str, CardPicture]) -> tuple[str, str, str]:
    """The card, the text of the own share and the kind that are selected; nothing that cannot be had."""
    chosen, own, kind = _where(offers, share)
    if chosen in drawn and drawn[chosen].standing == "never":
        can_be_had = [card.share for card in drawn.values() if card.standing != "never"]
        chosen = next(iter(can_be_had), NO_GPU if offers.no_gpu else chosen)
    return chosen, own, kind


def _where(offers: Offers, share: Share | None) -> tuple[str, str, str]:
    if share is None:
        return NO_GPU, "", ""
    if share in offers.shares:
        return str(share), "", ""
    text, _, kind = str(share).partition("@")
    if kind in offers.kinds and text in map(str, offers.shares):
        return text, "", kind
    return CUSTOM, str(share), ""


def _before(picture: Picture | None, choice: Choice, notice: str) -> str:
    said = "" if picture is None else picture.headline
    lines = [f'<p class="gpushare-small mb-2"><span data-headline>{safe(said)}</span><span data-live-note></span></p>']
    if picture is not None and picture.is_simulated:
        lines.append(_SIMULATED)
    if notice:
        lines.append(f'<p class="gpushare-notice" data-notice>{safe(notice)}</p>')
    return "\n".join([*lines, *_project(picture, choice)])


def _project(picture: Picture | None, choice: Choice) -> list[str]:
    """The choice among several projects; the only one goes with the form, so that nobody has to find it out again."""
    if picture is None or not picture.projects:
        return []
    selected = choice.project if choice.project in picture.projects else picture.project
    if len(picture.projects) == 1:
        return [f'<input type="hidden" name="{PROJECT_OPTION}" value="{safe(selected)}">']
    return [_select(PROJECT_OPTION, "For which project?", [(each, each) for each in picture.projects], selected)]


def _note(picture: Picture | None) -> str:
    return (
        f'<p class="gpushare-small mt-2 mb-0">{safe(picture.note)}</p>\n'
        if picture is not None and picture.note
        else ""
    )


def _kinds(offers: Offers, kind: str) -> str:
    if not offers.kinds:
        return ""
    return _select(KIND_OPTION, "On which GPUs?", [("", "any"), *((each, each) for each in offers.kinds)], kind) + "\n"


def _select(name: str, label: str, choices: Sequence[tuple[str, str]], selected: str) -> str:
    key = name.replace("_", "-")
    options = "".join(
        f'<option value="{safe(value)}"{attribute("selected", is_set=value == selected)}>{safe(text)}</option>'
        for value, text in choices
    )
    return (
        f'<div class="gpushare-select"><label for="{key}">{safe(label)}</label>'
        f'<select class="form-select form-select-sm" name="{name}" id="{key}">{options}</select></div>'
    )


@cache
def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8").strip()
