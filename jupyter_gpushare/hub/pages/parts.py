"""What every page's view function is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.hub.pages import wording

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from markupsafe import Markup

    from jupyter_gpushare.hub.pages.asked import Asked
    from jupyter_gpushare.hub.pages.frame import Frame, Templates
    from jupyter_gpushare.hub.site import Site, Viewer

__all__ = ["Content", "Desk", "Link"]

_T = TypeVar("_T")
_WORDS: Final = {name: getattr(wording, name) for name in wording.__all__}


@dataclass(frozen=True, slots=True)
class Content:
    """What a page shows.

    Attributes:
        title: of the page.
        fragments: what may change while one looks, by the id of the element around it.
        values: what the page's own template is filled in with besides.
    """

    title: str
    fragments: Mapping[str, str]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """One of our pages, in the line of tabs."""

    name: str
    text: str
    href: str


@dataclass(frozen=True)
class Desk:
    """Who looks, at what, and what it takes to write it down."""

    viewer: Viewer
    site: Site
    frame: Frame
    asked: Asked
    templates: Templates

    def part(self, template: str, /, **values: Any) -> Markup:
        """*template*, filled in; what every template reads is there already."""
        return self.templates.part(template, **self._common, **values)

    @cached_property
    def _common(self) -> dict[str, Any]:
        return {
            **_WORDS,
            "prefix": self.frame.prefix,
            "xsrf": self.frame.xsrf,
            "asked": self.asked,
            "links": self.links(),
            "trouble": self.site.trouble,
            "is_simulated": self.site.is_simulated,
        }

    def links(self) -> list[Link]:
        """The pages that the viewer may open."""
        prefix = self.frame.prefix
        word = "Project" if len(self.viewer.projects) == 1 and not self.viewer.is_admin else "Projects"
        projects = [Link("project", word, f"{prefix}project")]
        return [
            Link("sessions", "My shares", f"{prefix}sessions"),
            Link("overview", "Overview", f"{prefix}overview"),
            *(projects if self.viewer.projects or self.viewer.is_admin else []),
            *([Link("admin", "Admin", f"{prefix}admin")] if self.viewer.is_admin else []),
        ]

    async def told(self, question: Awaitable[_T]) -> _T | None:
        """The answer to *question*; None while the ledger cannot give one."""
        try:
            return await question
        except LedgerError:
            return None
