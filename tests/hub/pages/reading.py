"""A page as a browser would read it: its elements, its text, its forms. Parsed by the standard library alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"input", "meta", "link", "br", "img", "col", "hr"})
_HIDDEN = frozenset({"script", "style", "title"})


@dataclass(eq=False)
class Element:
    """One element, with its attributes, its text and what is in it."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    own_text: str = ""

    @property
    def text(self) -> str:
        """All text in it, in no particular order between an element and what is in it."""
        return " ".join([self.own_text, *(child.text for child in self.children)])

    def all(self, tag: str = "") -> list[Element]:
        """It, and everything in it, that is a *tag*."""
        mine = [self] if not tag or self.tag == tag else []
        return [*mine, *(found for child in self.children for found in child.all(tag))]

    def is_in(self, tag: str) -> bool:
        """Whether it is in a *tag*."""
        return self.parent is not None and (self.parent.tag == tag or self.parent.is_in(tag))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._here = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self._here)
        self._here.children.append(element)
        if tag not in _VOID:
            self._here = element

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self._here.tag == tag, f"</{tag}> closes <{self._here.tag} {self._here.attributes}>"
        assert self._here.parent is not None
        self._here = self._here.parent

    def handle_data(self, data: str) -> None:
        self._here.own_text += data


def read(html: str) -> Element:
    """*html*, of which every element must be closed in its order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader._here is reader.root, f"<{reader._here.tag}> is not closed"
    return reader.root


def shown_text(html: str) -> str:
    """What people see, hear or find by hovering, of *html*: its text, and what attributes say."""
    said = []
    for element in read(html).all():
        if element.tag not in _HIDDEN:
            said.append(element.own_text)
            said += [element.attributes.get(name, "") for name in ("title", "aria-label", "value", "placeholder")]
    return "\n".join(said)


@dataclass(frozen=True)
class Form:
    """A form: where it goes, and what it sends."""

    method: str
    action: str
    fields: frozenset[str]
    hidden: dict[str, str]


def forms_of(html: str) -> list[Form]:
    """All forms of *html*. A button that sends elsewhere is a form of its own, as is one for a form by its id."""
    root = read(html)
    found = []
    for form in root.all("form"):
        inside = form.all()
        if form.attributes.get("id"):
            inside += [each for each in root.all() if each.attributes.get("form") == form.attributes["id"]]
        if not any(each.tag == "button" and "disabled" not in each.attributes for each in inside):
            continue  # nobody can send it
        named = {each.attributes["name"] for each in inside if each.attributes.get("name")}
        hidden = {
            each.attributes["name"]: each.attributes["value"]
            for each in inside
            if each.tag == "input" and each.attributes.get("type") == "hidden"
        }
        actions = {each.attributes["formaction"] for each in inside if each.attributes.get("formaction")}
        method = form.attributes.get("method", "get")
        found += [
            Form(method, action, frozenset(named), hidden) for action in (form.attributes["action"], *sorted(actions))
        ]
    return found
