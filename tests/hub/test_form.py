"""The share picker's HTML: usable by keyboard and screen reader, without a script, and with nothing unescaped."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from jupyter_gpushare.hub.bars import draw
from jupyter_gpushare.hub.form import Choice, render_picker
from jupyter_gpushare.hub.form_reading import read_picker
from jupyter_gpushare.hub.markup import safe
from jupyter_gpushare.hub.offers import NotOfferedError, Offers
from jupyter_gpushare.hub.picture import CardPicture, Picture
from jupyter_gpushare.share import Share

SHARES = ["0.25..0.5", "0.5", "16GiB", "2x0.5", "2", "64@a100"]
OFFERS = Offers.parse(SHARES, "0.5", None, no_gpu=True)
WIDE = Offers.parse(["0.25", "0.5"], "0.5", None, no_gpu=True, custom="2", kinds=["a100", "t4"])
HALF = Choice(Share.parse("0.5"))
NOW = Picture(
    [
        CardPicture("0.25", "now", "5 free now", "10 GB guaranteed of an A100"),
        CardPicture("0.5", "soon", "2nd in line, about 4 min", "20 GB guaranteed of an A100", "Waits for a GPU."),
    ],
    project="team-a",
    projects=["team-a"],
    headline="team-a · 1.5 of 4 GPUs in use by your team",
)
EVIL = '"><script>alert("x")</script>{{ 7*7 }}{% x %}'


class Page(HTMLParser):
    """The form's elements, checked for being balanced."""

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
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data.strip())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]

    @property
    def radios(self) -> list[dict[str, str | None]]:
        return self.all("input", type="radio")

    @property
    def checked(self) -> list[str | None]:
        return [radio["value"] for radio in self.radios if "checked" in radio]


PAGE = Page(render_picker(OFFERS, HALF))


def test_one_radio_button_for_each_share() -> None:
    """A browser sends the share's own text, no GPU comes first, and exactly one is selected from the start."""
    assert [radio["value"] for radio in PAGE.radios] == ["none", *SHARES]
    assert {radio["name"] for radio in PAGE.radios} == {"share"}
    assert PAGE.checked == ["0.5"]


def test_every_radio_button_is_labelled() -> None:
    """A screen reader reads the group's name, the share, when it can be had and what it means; pictures add nothing."""
    identifiers = [radio["id"] for radio in PAGE.radios]
    assert [label["for"] for label in PAGE.all("label")] == identifiers
    assert len(set(identifiers)) == len(identifiers)
    described = {each for radio in PAGE.radios for each in (radio["aria-describedby"] or "").split()}
    assert described == {span["id"] for span in PAGE.all("span") if "id" in span}
    assert "How much GPU?" in PAGE.texts
    assert all(picture["aria-hidden"] == "true" for picture in PAGE.all("svg"))
    assert PAGE.all("p", role="status")[0]["aria-live"] == "polite"


def test_share_is_the_headline() -> None:
    """What is guaranteed comes first and in bold, the burst after it."""
    html = render_picker(OFFERS, HALF)
    assert "<b>¼ GPU</b>, up to ½" in html
    assert "<b>2 × ½ GPU</b>" in html  # noqa: RUF001  # the sign that people read


def test_page_without_a_script_says_all() -> None:
    """Badges, meanings and ways out are in the HTML itself; the script only keeps them true."""
    page = Page(render_picker(WIDE, HALF, NOW))
    for text in ("5 free now", "2nd in line, about 4 min", "20 GB guaranteed of an A100", "Waits for a GPU."):
        assert text in page.texts
    assert "team-a · 1.5 of 4 GPUs in use by your team" in page.texts
    assert page.all("script") == [], "nothing could be asked"
    assert page.all("input", type="hidden") == [{"type": "hidden", "name": "share_project", "value": "team-a"}]


def test_open_page_knows_where_to_ask() -> None:
    """The address is an attribute, escaped, and the script comes with the page."""
    page = Page(render_picker(WIDE, HALF, NOW, live_url="/services/gpushare/picker?for=x&sign=y"))
    assert page.all("fieldset")[0]["data-live"] == "/services/gpushare/picker?for=x&sign=y"
    assert len(page.all("script")) == 1


def closed(*shares: str) -> Picture:
    """A picture in which *shares* cannot be had."""
    way_out = "Your team's quota leaves 0.2."
    return Picture([CardPicture(share, "never", "over quota", "", way_out) for share in shares], projects=["team-a"])


def test_what_cannot_be_had_stays_with_a_way_out() -> None:
    """It is greyed, and says why and what to do; it cannot be sent."""
    page = Page(render_picker(WIDE, Choice(Share.parse("0.25")), closed("0.5")))
    disabled = [radio["value"] for radio in page.radios if "disabled" in radio]
    assert disabled == ["0.5"]
    assert "Your team's quota leaves 0.2." in page.texts
    assert "over quota" in page.texts


@pytest.mark.parametrize(
    ("offers", "picture", "selected"),
    [
        (WIDE, closed("0.5"), "none"),
        (WIDE, closed("0.25", "0.5"), "none"),
        (Offers.parse(["0.25", "0.5"], "0.5", None), closed("0.5"), "0.5"),
    ],
)
def test_nothing_that_cannot_be_had_is_selected_and_closed(offers: Offers, picture: Picture, selected: str) -> None:
    """A browser sends no choice that is selected and disabled: the admin's default would start unseen."""
    page = Page(render_picker(offers, HALF, picture))
    assert page.checked == [selected]
    assert not [radio for radio in page.radios if "checked" in radio and "disabled" in radio]


def test_last_own_share_and_kind_are_remembered() -> None:
    """Who wrote a share finds it written; who chose a kind finds it chosen."""
    own = Page(render_picker(WIDE, Choice(Share.parse("0.3..0.8"))))
    assert own.checked == ["custom"]
    assert own.all("input", name="share_custom")[0]["value"] == "0.3..0.8"
    on_kind = Page(render_picker(WIDE, Choice(Share.parse("0.5@t4"))))
    assert on_kind.checked == ["0.5"]
    assert [option["value"] for option in on_kind.all("option") if "selected" in option] == ["t4"]


def test_choice_among_projects() -> None:
    """Somebody of two teams is asked which; what it chose last is chosen."""
    picture = Picture([], project="team-a", projects=["team-a", "team-b"])
    page = Page(render_picker(WIDE, Choice(None, "team-b"), picture))
    (select,) = page.all("select", name="share_project")
    assert [label for label in page.all("label") if label["for"] == select["id"]]
    assert [option["value"] for option in page.all("option") if "selected" in option] == ["team-b", ""]


def test_simulated_gpus_are_called_so() -> None:
    """Nobody takes a demonstration for GPUs."""
    assert "SIMULATED" in Page(render_picker(WIDE, HALF, Picture([], is_simulated=True))).texts
    assert "SIMULATED" not in Page(render_picker(WIDE, HALF, NOW)).texts


def test_nothing_survives_unescaped() -> None:
    """No text becomes HTML, or a template that some hubs would evaluate: neither another's, nor our own files."""
    assert safe('<b>"{{ x }}"</b>{% y %}') == (
        "&lt;b&gt;&quot;&#123;&#123; x &#125;&#125;&quot;&lt;/b&gt;&#123;% y %&#125;"
    )
    card = CardPicture("0.5", "soon", EVIL, EVIL, EVIL)
    picture = Picture([card], project=EVIL, projects=[EVIL, "x"], headline=EVIL)
    html = render_picker(WIDE, Choice(Share.parse("0.5"), EVIL), picture, live_url=EVIL, notice=EVIL)
    assert "<script>alert" not in html
    assert not [mark for mark in ("{{", "{%", "{#") if mark in html]
    Page(html)


def test_picture_shows_the_fraction() -> None:
    """The solid part is the request, the pale one the limit; memory has none, because it depends on the GPU."""
    burst, half, memory, two_halves, *_ = (_widths(share) for share in OFFERS.shares)
    assert burst == [("none", 96), ("burst", 48), ("own", 24)]
    assert half == [("none", 96), ("own", 48)]
    assert memory == [("none", 96)]
    assert two_halves == half * 2
    assert len(_widths(Share.parse("64"))) == 4 * 2, "a share of 64 GPUs does not fill the page"


def _widths(share: Share) -> list[tuple[str, int]]:
    return [((bar["class"] or "")[9:], int(bar["width"] or 0)) for bar in Page(draw(share)).all("rect")]


def test_no_more_is_promised_than_is_true() -> None:
    """While nobody can say what a share comes to, the page calls nothing one's own."""
    texts = " ".join(PAGE.texts)
    assert "yours" not in texts
    assert "your own" not in texts
    assert "guaranteed" not in texts


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"share": ["0.5"]}, {"share": "0.5"}),
        ({"share": ["none"]}, {"share": "none"}),
        ({}, {"share": "0.5"}),
        ({"share": ["0.5"], "share_kind": ["t4"]}, {"share": "0.5@t4"}),
        ({"share": ["none"], "share_kind": ["t4"]}, {"share": "none"}),
        ({"share": ["custom"], "share_custom": [" 0.3..0.8 "]}, {"share": "0.3..0.8"}),
        ({"share": ["custom"], "share_custom": ["0.3@a100"], "share_kind": ["t4"]}, {"share": "0.3@a100"}),
        ({"share": ["0.5"], "share_custom": ["left over"]}, {"share": "0.5"}),
        ({"share": ["0.5"], "share_project": ["team-a"]}, {"share": "0.5", "share_project": "team-a"}),
        ({"share": ["0.5"], "share_project": [""]}, {"share": "0.5"}),
    ],
)
def test_form_is_read_as_it_was_meant(fields: dict[str, list[str]], options: dict[str, str]) -> None:
    """What is kept of a form is a share in its own text, and the project."""
    assert read_picker(WIDE, fields) == options


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"share": ["custom"]}, "Write a share of your own"),
        ({"share": ["custom"], "share_custom": ["  "]}, "Write a share of your own"),
        ({"share": ["custom"], "share_custom": ["0.3.."]}, "limit: no amount is written; write for example"),
        ({"share": ["custom"], "share_custom": ["3"]}, 'The share "3" is not offered here'),
        ({"share": ["custom"], "share_custom": ["1"], "share_kind": ["h100"]}, 'The share "1@h100" is not offered'),
        ({"share": ["custom"], "share_custom": [EVIL]}, "cannot be read"),
        ({"share": ["0.75"], "share_kind": ["<b>"]}, "cannot be read"),
        ({"share": ["0.5"], "share_project": ["x" * 201]}, "A project is named by text"),
        ({"share": ["0.5"], "share_project": ["a\x00b"]}, "A project is named by text"),
    ],
)
def test_form_that_asks_for_too_much(fields: dict[str, list[str]], said: str) -> None:
    """It is refused with what is wrong, and what can be had."""
    with pytest.raises(NotOfferedError) as caught:
        read_picker(WIDE, fields)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500
