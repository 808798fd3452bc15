"""The hub's own page around ours: its template, its bar on top, its theme, whichever hub of 5.5 to 6.1 it is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader, StrictUndefined
from jupyterhub._data import DATA_FILES_PATH  # type: ignore[import-untyped]
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["STATIC", "Frame", "HubUser", "Templates"]

_PACKAGE: Final = "jupyter_gpushare.hub.pages"
#: What the pages load, to be served below ``static/`` of the service's prefix.
STATIC: Final = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class HubUser:
    """The signed-in user, as far as the hub's template asks."""

    name: str

    @property
    def json_escaped_name(self) -> str:
        """The name inside a string of a script. The hub's template does not escape it again, so nothing may end one."""
        return json.dumps(self.name)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What surrounds a page.

    Attributes:
        user: the signed-in user's name.
        xsrf: what our forms send as ``_xsrf``.
        prefix: of this service, with slashes.
        hub_prefix: of the hub, with slashes.
        base_url: above both, with slashes.
        scopes: what the hub's template asks about, such as ``admin-ui``.
        is_live: whether the page keeps a connection and changes while one looks.
        template_vars: what the admin gives the hub's templates, such as the ``announcement``. Nothing of ours gives
            way to it.
    """

    user: str
    xsrf: str
    prefix: str = "/services/gpushare/"
    hub_prefix: str = "/hub/"
    base_url: str = "/"
    scopes: frozenset[str] = frozenset()
    is_live: bool = True
    template_vars: Mapping[str, Any] = field(default_factory=dict)

    def asset(self, name: str) -> str:
        """The address of one of our files, another one for every content."""
        return f"{self.prefix}static/{name}?v={_mark_of(name)}"

    def namespace(self) -> dict[str, Any]:
        """What the hub's ``page.html`` reads.

        The hub's menu of services is left out: which of them somebody may open, it tells nobody but its own pages.
        """
        return {
            **self.template_vars,
            "user": HubUser(self.user),
            "base_url": self.hub_prefix,
            "prefix": self.base_url,
            "login_url": f"{self.hub_prefix}login",
            "logout_url": f"{self.hub_prefix}logout",
            "parsed_scopes": self.scopes,
            "no_spawner_check": True,
            "version_hash": "",
            "static_url": self._static_url,
        }

    def _static_url(self, path: str, *, include_version: bool = True) -> str:
        """A file of the hub itself. The hub's own version mark is not known here, and it serves without one."""
        del include_version
        return f"{self.hub_prefix}static/{path}"


class Templates:
    """Our templates, inside the hub's.

    Args:
        paths: where the hub's admin keeps templates of its own (``JupyterHub.template_paths``): they come first, so
            that a hub that looks different does so here too.
    """

    def __init__(self, paths: Sequence[str] = ()) -> None:
        hubs = FileSystemLoader(str(Path(DATA_FILES_PATH) / "templates"))
        own = PackageLoader(_PACKAGE)
        #: The hub's template asks for names that need not be there; ours must not.
        self._framed = Environment(
            loader=ChoiceLoader(
                [
                    PrefixLoader({"gpushare": own}),
                    PrefixLoader({"templates": hubs}),
                    FileSystemLoader(list(paths)),
                    hubs,
                ]
            ),
            autoescape=True,
        )
        self._own = Environment(
            loader=own, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )

    def part(self, template: str, /, **values: Any) -> Markup:
        """*template*, filled in: HTML, in which everything of *values* is escaped."""
        return Markup(self._own.get_template(f"{template}.html").render(values).strip())  # noqa: S704  # it escapes

    def page(self, frame: Frame, **values: Any) -> str:
        """A whole page, in the hub's."""
        ours = {
            "asset": frame.asset,
            "service_prefix": frame.prefix,
            "our_xsrf": frame.xsrf,
            "is_live": frame.is_live,
        }
        return self._framed.get_template("gpushare/frame.html").render({**frame.namespace(), **ours, **values})


@cache
def _mark_of(name: str) -> str:
    """Some letters that change with the file *name* of ours."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
