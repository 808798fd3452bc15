"""The share picker on the hub's spawn page: plain HTML in the hub's own look, which works without a script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.meaning import AGREEMENT, explain, headline
from jupyter_gpushare.hub.offers import SHARE_OPTION
from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from jupyter_gpushare.hub.offers import Offers
    from jupyter_gpushare.share import Share

__all__ = ["render_picker", "safe"]

_MOST_BARS: Final = 4
_BAR_WIDTH: Final = 72
_BAR_HEIGHT: Final = 12
_GAP: Final = 4

# Hub 5 and 6 load Bootstrap 5; what it has no class for stands here, in its own variables, so that the hub's
# theme and its dark mode hold.
_STYLE: Final = """<style>
.gpushare-picker label { cursor: pointer; }
.gpushare-picker label:has(:checked) { border-color: var(--bs-primary); box-shadow: inset 3px 0 0 var(--bs-primary); }
.gpushare-picker label:has(:focus-visible) { outline: 2px solid var(--bs-primary); outline-offset: 2px; z-index: 1; }
.gpushare-picker svg { flex: none; color: var(--bs-primary); }
</style>"""


def safe(text: str) -> str:
    """*text* for HTML. Braces go too: some hubs run their forms through a template engine once more."""
    return escape(text).replace("{", "&#123;").replace("}", "&#125;")


def render_picker(offers: Offers, chosen: Share) -> str:
    """The form's part that chooses a share, with *chosen* selected."""
    cards = "\n".join(_render_card(number, share, share == chosen) for number, share in enumerate(offers.shares))
    return f"""{_STYLE}
<fieldset class="gpushare-picker mb-3">
<legend class="h4 mb-1">GPU share</legend>
<p class="small text-body-secondary mb-2">{safe(AGREEMENT)}</p>
<div class="list-group">
{cards}
</div>
</fieldset>"""


def _render_card(number: int, share: Share, checked: bool) -> str:  # noqa: FBT001  # private, one call
    identifier = f"gpushare-{number}"
    return f"""<label class="list-group-item list-group-item-action d-flex align-items-center gap-3" for="{identifier}">
<input class="form-check-input flex-shrink-0 m-0" type="radio" required name="{SHARE_OPTION}" id="{identifier}" \
value="{safe(str(share))}" aria-describedby="{identifier}-meaning"{" checked" if checked else ""}>
{_draw(share)}
<span><span class="d-block fw-semibold">{safe(headline(share))}</span>
<span class="d-block small text-body-secondary" id="{identifier}-meaning">{safe(explain(share, None))}</span></span>
</label>"""


def _draw(share: Share) -> str:
    """A bar for each GPU: guaranteed solid, the rest up to the limit pale. The headline says the same."""
    bars = min(share.count, _MOST_BARS)
    height = bars * (_BAR_HEIGHT + _GAP) - _GAP
    drawn = "".join(_draw_bar(share, number * (_BAR_HEIGHT + _GAP)) for number in range(bars))
    return f'<svg width="{_BAR_WIDTH}" height="{height}" aria-hidden="true" focusable="false">{drawn}</svg>'


def _draw_bar(share: Share, top: int) -> str:
    outline = _rectangle(top, _BAR_WIDTH, 'fill="none" stroke="currentColor" stroke-opacity=".6"')
    if not (isinstance(share.request, Fraction) and isinstance(share.limit, Fraction)):
        return outline  # how much of a GPU it is depends on the GPU
    limit = _rectangle(top, _part(share.limit), 'fill="currentColor" fill-opacity=".3"')
    request = _rectangle(top, _part(share.request), 'fill="currentColor"')
    return limit + request + outline


def _part(amount: Fraction) -> int:
    return amount.millionths * _BAR_WIDTH // Fraction.PER_GPU


def _rectangle(top: int, width: int, paint: str) -> str:
    return f'<rect x=".5" y="{top}.5" width="{max(width - 1, 1)}" height="{_BAR_HEIGHT - 1}" rx="2" {paint}/>'
