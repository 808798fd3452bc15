"""Who is shown what: every page, for every kind of viewer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from jupyter_gpushare.hub.pages import PageName
from jupyter_gpushare.hub.pages.anonymity import Known, known_of
from jupyter_gpushare.hub.site import Viewer
from jupyter_gpushare.rules.project import EVERYBODY, Project
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.hub.pages.reading import shown_text
from tests.hub.pages.still import StillSite, page_of
from tests.hub.pages.worlds import drawing, gpus, lease

TEAM_A = {"climate", "vision", "genes", "birds", "wine", "forms"}
TEAM_B = {"sweep", "maps", "gan", "lora"}
ALL = TEAM_A | TEAM_B | {"bert", "resnet", "survey", "poems", "tides", "diffusion"}
PROJECTS = {"team-a", "team-b", "team-c", "team-d"}

#: Who looks, by name, group and office; whose notebooks and jobs it is shown by name; of which projects it hears.
TABLE = {
    "a member": ("ana", (), False, {"climate", "genes", "birds", "forms"}, {"team-a"}),
    "a team mate": ("ali", (), False, {"vision", "wine"}, {"team-a"}),
    "a member by group": ("gil", ("a",), False, set(), {"team-a"}),
    "somebody in another team": ("cleo", (), False, {"bert", "resnet"}, {"team-c"}),
    "somebody in none": ("zoe", (), False, set(), set()),
    "an owner by name": ("cy", (), False, TEAM_A, {"team-a"}),
    "an owner by group": ("lea", ("b-leads",), False, TEAM_B, {"team-b"}),
    "in a group like an owner's name": ("lea", ("cy",), False, set(), set()),
    "called like an owner's group": ("@b-leads", (), False, set(), set()),
    "an admin": ("root", (), True, ALL, PROJECTS),
}


def marked() -> StillSite:
    """The small world, with every name of a notebook, person and project written so that it is found anywhere."""
    before = drawing()
    books = before.books
    leases = [
        each.evolve(name=f"nb.{each.name}.", person=f"pp.{each.person}.", project=f"pr.{each.project}.")
        for each in books.leases.values()
    ]
    projects = [
        replace(
            each,
            name=f"pr.{each.name}.",
            members=frozenset(name if name.startswith("@") else f"pp.{name}." for name in each.members),
            owners=frozenset(name if name.startswith("@") else f"pp.{name}." for name in each.owners),
        )
        for each in books.projects.values()
    ]
    told = Snapshot.of(
        projects=projects,
        pools=books.pools.values(),
        hosts=books.hosts.values(),
        devices=books.devices.values(),
        leases=leases,
    )
    return StillSite(told, before.now, hardware=before.hardware, busy=before.busy)


async def everything_shown(viewer: Viewer, site: StillSite) -> str:
    """What *viewer* is shown on all pages together, and of all projects that it asks for by name."""
    asked = [{}, *({"project": name, "search": ""} for name in sorted(site.books.projects))]
    pages = [await page_of(name, viewer, site, **each) for name in PageName for each in asked]
    return "\n".join(shown_text(page.main) for page in pages)


@pytest.mark.parametrize("who", TABLE)
def test_each_viewer_is_shown_the_names_that_are_its_business_and_no_others(who: str) -> None:
    """Names of notebooks and persons are for their owner, the project's owners and admins; projects for those in them."""
    person, groups, is_admin, names, projects = TABLE[who]
    site = marked()
    person = person if person.startswith("@") else f"pp.{person}."
    viewer = site.viewer(person, groups, is_admin=is_admin)
    text = asyncio.run(everything_shown(viewer, site))
    assert set(re.findall(r"nb\.([\w-]+)\.", text)) == names
    assert set(re.findall(r"pr\.([\w-]+)\.", text)) - _merely_asked_for(text) == projects
    told_of = {_plain(each.person) for each in site.books.leases.values() if viewer.owns_project(each.project)}
    # One's own name, and those whom the configuration names, are no secret from an owner.
    assert set(re.findall(r"pp\.([\w-]+)\.", text)) <= told_of | _configured(viewer, site) | {_plain(person)}


def _merely_asked_for(text: str) -> set[str]:
    """Projects of which the pages say no more than that the viewer is in no such one."""
    return {name for name in PROJECTS if text.count(f"pr.{name}.") == text.count(f"You are in no project pr.{name}.")}


def _configured(viewer: Viewer, site: StillSite) -> set[str]:
    """The members and owners, as configured, of what *viewer* owns."""
    owned = [project for name, project in site.books.projects.items() if viewer.owns_project(name)]
    return {_plain(name) for project in owned for name in project.members | project.owners}


def _plain(person: str) -> str:
    return person.removeprefix("pp.").removesuffix(".")


def test_a_project_for_everybody_names_nobody_to_anybody() -> None:
    """Being allowed to claim where everybody is makes nobody a colleague."""
    books = Snapshot.of(projects=[Project("default", gpus("4"), members=frozenset({EVERYBODY}))])
    viewer = Viewer.of(books, "zoe")
    assert known_of(viewer, lease("secret", "ana", "default")) == Known(is_own=False, is_named=False, project="default")


def test_why_somebody_waits_is_told_to_those_in_the_project_alone() -> None:
    """A reason may name a project, its quota and what it uses."""
    site = marked()
    texts = {name: asyncio.run(everything_shown(site.viewer(f"pp.{name}."), site)) for name in ("ana", "zoe")}
    assert "Others are brought back first" in texts["ana"]
    assert "Others are brought back first" not in texts["zoe"]
    assert "uses its fair share" not in texts["ana"] + texts["zoe"]


def test_the_admins_page_shows_nothing_to_others() -> None:
    """Should the service ever let somebody else open it, there is still nothing on it."""
    page = asyncio.run(page_of(PageName.ADMIN, drawing().viewer("cy"), drawing()))
    assert page.fragments.keys() == {"trouble"}
    assert "for admins" in shown_text(page.main)


def test_a_project_that_one_is_not_in_reads_like_one_that_there_is_not() -> None:
    """Whether there is such a project is nobody else's business."""
    site, viewer = drawing(), drawing().viewer("zoe")
    texts = [
        shown_text(asyncio.run(page_of("project", viewer, site, project=name)).main).replace(name, "…")
        for name in ("team-b", "no-such")
    ]
    assert texts[0] == texts[1]
