"""docs/hub-reference.md says what can be set and what is where, as the code has it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import jupyter_gpushare.hub
from jupyter_gpushare.broker.access import ACCESS
from jupyter_gpushare.hub.culling.__main__ import CullingApp
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.reference_page import arguments_of, page
from jupyter_gpushare.hub.reference_words import ENVIRONMENT, PAGES
from jupyter_gpushare.hub.service.command import HubServiceApp
from jupyter_gpushare.hub.service.page_access import PAGE_ACCESS, action_route
from jupyter_gpushare.hub.setup import setup_gpushare

from .guide import DOCS

#: No HTTP verb of theirs is in the interface's document: these are WebSockets.
_SOCKETS: Final = {"holder", "stream"}
_VARIABLE: Final = re.compile(r"\b(?:GPUSHARE|JUPYTERHUB)_[A-Z][A-Z_]+[A-Z]\b")


def test_the_documentation_shows_the_code() -> None:
    """docs/hub-reference.md is made from the code: python -m jupyter_gpushare.hub.reference_page."""
    assert (DOCS / "hub-reference.md").read_text(encoding="utf-8") == page()


def test_every_argument_is_explained_and_no_other() -> None:
    """An argument that nobody can look up is not found, and one that is not there is a lie."""
    assert list(arguments_of(setup_gpushare)) == list(inspect.signature(setup_gpushare).parameters)


def test_every_option_has_words() -> None:
    """An option without help would stand on the page without a meaning."""
    for application in (HubServiceApp, CullingApp):
        for name, trait in application.class_own_traits(config=True).items():
            assert trait.help, f"{application.__name__}.{name}"


def test_every_variable_of_the_hubs_side_is_explained() -> None:
    """What the hub's side reads or writes in an environment is in the table."""
    package = Path(jupyter_gpushare.hub.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.name != "reference_words.py"]
    used = {name for path in sources for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))}
    assert used <= {name for name, _, _ in ENVIRONMENT}


def test_every_page_and_action_is_there() -> None:
    """What the service answers is documented, and nothing that it does not."""
    actions = {action_route(name) for name in ACTIONS}
    assert {route for route, _ in PAGE_ACCESS} == {*PAGES, *actions}


def test_every_route_of_the_interface_is_there() -> None:
    """The table is that of the interface: as many rows as there are routes with a verb."""
    rows = re.findall(r"^\| `/[^`]*` \| (?:GET|PUT|POST|DELETE) \| [^|]+ \| [^|]+ \|$", page(), re.MULTILINE)
    pages = sum(PAGES[route][0] == "/" for route, _ in PAGE_ACCESS if route in PAGES)
    assert len(rows) - pages == len([route for route, _ in ACCESS if route not in _SOCKETS])
