"""The share picker's HTML: usable by keyboard and screen reader, without a script, and with nothing unescaped."""

from __future__ import annotations

from html.parser import HTMLParser

from jupyter_gpushare.hub.form import render_picker, safe
from jupyter_gpushare.hub.offers import Offers
from jupyter_gpushare.share import Share

OFFERS = Offers.parse(["0.25..0.5", "0.5", "16GiB", "2x0.5", "2", "64@a100"], "0.5", None)


class Picker(HTMLParser):
    """The picker's elements, checked for being balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "input":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


PICKER = Picker(render_picker(OFFERS, Share.parse("0.5")))


def test_one_radio_button_for_each_share() -> None:
    """A browser sends the share's own text, and exactly one is selected from the start."""
    radios = PICKER.all("input")
    assert [radio["value"] for radio in radios] == ["0.25..0.5", "0.5", "16GiB", "2x0.5", "2", "64@a100"]
    assert {(radio["type"], radio["name"]) for radio in radios} == {("radio", "share")}
    assert [radio["value"] for radio in radios if "checked" in radio] == ["0.5"]


def test_every_radio_button_is_labelled() -> None:
    """A screen reader reads the group's name, the share and what it means; the picture says nothing more."""
    identifiers = [radio["id"] for radio in PICKER.all("input")]
    assert [label["for"] for label in PICKER.all("label")] == identifiers
    assert len(set(identifiers)) == len(identifiers)
    described = {radio["aria-describedby"] for radio in PICKER.all("input")}
    assert described == {span["id"] for span in PICKER.all("span") if "id" in span}
    assert "GPU share" in PICKER.texts
    assert all(picture["aria-hidden"] == "true" for picture in PICKER.all("svg"))


def test_picture_shows_the_fraction() -> None:
    """The solid part is the request, the pale one the limit; memory has none, because it depends on the GPU."""
    burst, half, memory, two_halves, *_ = (_widths(share) for share in OFFERS.shares)
    assert burst == [35, 17, 71]
    assert half == [35, 35, 71]
    assert memory == [71]
    assert two_halves == [35, 35, 71] * 2


def _widths(share: Share) -> list[int]:
    offers = Offers.parse([share], None, None)
    return [int(bar["width"] or 0) for bar in Picker(render_picker(offers, share)).all("rect")]


def test_no_more_than_four_bars() -> None:
    """A share of 64 GPUs does not fill the page."""
    assert len(_widths(Share.parse("64"))) == 4 * 3


def test_nothing_survives_unescaped() -> None:
    """Text can neither become HTML nor a template that some hubs would evaluate."""
    assert safe('<b>"{{ x }}"</b>{% y %}') == (
        "&lt;b&gt;&quot;&#123;&#123; x &#125;&#125;&quot;&lt;/b&gt;&#123;% y %&#125;"
    )
    assert "{{" not in render_picker(OFFERS, OFFERS.default)
    assert "{%" not in render_picker(OFFERS, OFFERS.default)


def test_no_more_is_promised_than_is_true() -> None:
    """Nothing books or enforces a share outside a cluster, so the page says so once and calls nothing one's own."""
    texts = " ".join(PICKER.texts)
    assert texts.count("shares are an agreement") == 1
    assert "yours" not in texts
    assert "your own" not in texts
    assert texts.count("guaranteed") == 1, "only where it is set against a limit"
