"""A page, and its parts: each a piece of HTML under an id, so that only what has changed is sent to those who look."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages import admin, overview, project, sessions, wait
from jupyter_gpushare.hub.pages.asked import Asked, PageName
from jupyter_gpushare.hub.pages.frame import Frame, Templates
from jupyter_gpushare.hub.pages.parts import Desk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from jupyter_gpushare.hub.pages.parts import Content
    from jupyter_gpushare.hub.site import Site, Viewer

__all__ = ["Page", "render"]

_CONTENTS: Final[Mapping[PageName, Callable[[Desk], Awaitable[Content]]]] = {
    PageName.SESSIONS: sessions.content,
    PageName.OVERVIEW: overview.content,
    PageName.PROJECT: project.content,
    PageName.ADMIN: admin.content,
    PageName.WAIT: wait.content,
}


@dataclass(frozen=True)
class Page:
    """One page, made for one viewer.

    Attributes:
        name: which.
        title: of the page.
        fragments: what may change while one looks: by the id of an element, the HTML inside it. No two lie in each
            other. Should there be other ids than a moment ago, the page has another shape: send `main` instead, under
            the id ``gpushare-main``.
        main: the HTML inside the element ``gpushare-main``: all of ours, the fragments included.
    """

    name: PageName
    title: str
    fragments: Mapping[str, str]
    _desk: Desk = field(repr=False)
    _values: Mapping[str, object] = field(repr=False)

    @cached_property
    def main(self) -> str:
        """All of ours: made only when somebody wants it."""
        return self._desk.part(self.name.value, parts=self.fragments, **self._values)

    @cached_property
    def html(self) -> str:
        """The whole page in the hub's own: made only when somebody wants it."""
        desk = self._desk
        return desk.templates.page(desk.frame, title=self.title, page=self.name.value, main=self.main)


async def render(
    page: PageName,
    viewer: Viewer,
    site: Site,
    *,
    frame: Frame,
    asked: Asked | None = None,
    templates: Templates | None = None,
) -> Page:
    """*page* as *viewer* may see it now.

    What the ledger cannot tell now is left out with a sentence. Whether the viewer may open the page at all is the
    service's business; what it may not see is not on it in any case.
    """
    name = PageName(page)
    desk = Desk(viewer, site, frame, asked or Asked(), templates or _templates())
    content = await _CONTENTS[name](desk)
    return Page(name, content.title, {"trouble": desk.part("trouble"), **content.fragments}, desk, content.values)


@lru_cache(1)
def _templates() -> Templates:
    return Templates()
