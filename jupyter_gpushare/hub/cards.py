"""The cards of the picker: one for each choice, with what it means, a picture, and when it could be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.bars import draw
from jupyter_gpushare.hub.markup import attribute, safe
from jupyter_gpushare.hub.meaning import explain
from jupyter_gpushare.hub.offers import NO_GPU, SHARE_OPTION
from jupyter_gpushare.hub.picture import CardPicture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpushare.hub.offers import Offers
    from jupyter_gpushare.share import Share

__all__ = ["CUSTOM", "CUSTOM_OPTION", "cards_of", "render_card", "title_of"]

#: In the share's place where the share stands in a field of its own.
CUSTOM: Final = "custom"
CUSTOM_OPTION: Final = "share_custom"
_LONGEST_SHARE: Final = 128
_CPU_ONLY: Final = "CPU only; take a share later from Lab"
_EXAMPLES: Final = "for example 0.3..0.8, 16GiB, 2x0.5; at most {most}"


@dataclass(frozen=True, slots=True)
class Card:
    """One choice.

    Attributes:
        value: what the form sends.
        title: the choice itself, as HTML.
        now: what it means and when it could be had.
        is_chosen: whether it is selected.
        picture: drawn under it, as HTML.
        field: what else is asked for with it, as HTML.
    """

    value: str
    title: str
    now: CardPicture
    is_chosen: bool
    picture: str = ""
    field: str = ""


def cards_of(offers: Offers, chosen: str, own: str, drawn: Mapping[str, CardPicture]) -> Iterator[Card]:
    """Every card, in the order shown.

    Args:
        offers: what there is to choose from.
        chosen: the value of the card that is selected.
        own: what stands in the field for a share of one's own.
        drawn: how each share stands, by its text; none for all while nobody can say.
    """
    if offers.no_gpu:
        now = CardPicture(NO_GPU, "now", "now", _CPU_ONLY)
        yield Card(NO_GPU, "<b>No GPU</b>", now, is_chosen=chosen == NO_GPU)
    for share in offers.shares:
        text = str(share)
        unknown = CardPicture(text, "unknown", "", explain(share, None))
        yield Card(text, title_of(share), drawn.get(text, unknown), is_chosen=chosen == text, picture=draw(share))
    if offers.custom is not None:
        meaning = _EXAMPLES.format(most=offers.custom)
        now = CardPicture(CUSTOM, "unknown", "", meaning)
        yield Card(CUSTOM, "<b>Custom…</b>", now, is_chosen=chosen == CUSTOM, field=_own_field(own))


def title_of(share: Share) -> str:
    """The share as a headline, in HTML: what is guaranteed is set off from what it may burst to."""
    words = share.describe().replace(" guaranteed", "").replace(" times ", " × ", 1)  # noqa: RUF001  # the sign that people read
    first, comma, rest = words.partition(",")
    return f"<b>{safe(first)}</b>{safe(comma + rest)}"


def render_card(number: int, card: Card) -> str:
    """*card* as HTML; *number* tells it from the others."""
    key, now = f"gpushare-{number}", card.now
    # A browser would not send a choice that is selected and disabled at once: the hub's default would start instead.
    is_closed = now.standing == "never" and not card.is_chosen
    state = attribute("checked", is_set=card.is_chosen) + attribute("disabled", is_set=is_closed)
    return f"""<div class="gpushare-card" data-share="{safe(card.value)}" data-standing="{now.standing}">
<input class="form-check-input" type="radio" required name="{SHARE_OPTION}" id="{key}" value="{safe(card.value)}" \
aria-describedby="{key}-badge {key}-meaning {key}-way"{state}>
<div class="gpushare-words"><label for="{key}">{card.title}</label>
<span class="gpushare-small" id="{key}-meaning" data-meaning>{safe(now.meaning)}</span>
<span class="gpushare-small" id="{key}-way" data-way>{safe(now.way_out)}</span>
{card.field}{card.picture}</div>
<span class="gpushare-badge" id="{key}-badge" data-badge>{safe(now.badge)}</span>
</div>"""


def _own_field(own: str) -> str:
    return (
        f'<input class="form-control form-control-sm" type="text" name="{CUSTOM_OPTION}" value="{safe(own)}" '
        f'maxlength="{_LONGEST_SHARE}" placeholder="0.3..0.8" autocomplete="off" spellcheck="false" '
        'aria-label="A share of your own">'
    )
