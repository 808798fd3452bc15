"""What each project may have: quota first, then by weight (DESIGN 5, rule 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import capacity, divide, fair_share
from jupyter_gpushare.rules.project import Project
from tests.rules.builders import books, device, gpus, job, on_loan, parked, project, running, session

if TYPE_CHECKING:
    from collections.abc import Mapping

_AMOUNTS = st.one_of(st.sampled_from([0, 250_000, 500_000, 1_000_000, 4_000_000]), st.integers(0, 20_000_000))
_PROJECTS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(_AMOUNTS, st.none() | _AMOUNTS, st.just(Fraction.UNLIMITED.millionths) | _AMOUNTS, _AMOUNTS),
    min_size=1,
)
_Drawn = dict[str, tuple[int, int | None, int, int]]


def _worlds(drawn: _Drawn) -> tuple[dict[str, Project], dict[str, int]]:
    projects = {
        name: Project(name, Fraction(quota), None if weight is None else Fraction(weight), Fraction(limit))
        for name, (quota, weight, limit, _) in drawn.items()
    }
    return projects, {name: demand for name, (_, _, _, demand) in drawn.items()}


def _most(projects: Mapping[str, Project], demands: Mapping[str, int], name: str) -> int:
    return min(demands[name], projects[name].limit.millionths)


def _deserved(projects: Mapping[str, Project], demands: Mapping[str, int], name: str) -> int:
    return min(_most(projects, demands, name), projects[name].quota.millionths)


@given(_PROJECTS, _AMOUNTS)
def test_all_is_divided_and_never_more(drawn: _Drawn, whole: int) -> None:
    """Shares come to all there is, or to all that is wanted, whichever is less: nothing idles while somebody wants it."""
    projects, demands = _worlds(drawn)
    shares = divide(whole, projects, demands)
    assert sum(shares.values()) == min(whole, sum(_most(projects, demands, name) for name in projects))


@given(_PROJECTS, _AMOUNTS)
def test_nobody_gets_more_than_it_wants_or_may_have(drawn: _Drawn, whole: int) -> None:
    """A share is neither negative, nor above the project's demand, nor above its limit."""
    projects, demands = _worlds(drawn)
    for name, share in divide(whole, projects, demands).items():
        assert 0 <= share <= _most(projects, demands, name)


@given(_PROJECTS, _AMOUNTS)
def test_quotas_that_fit_are_always_given(drawn: _Drawn, whole: int) -> None:
    """As long as the quotas fit, nobody is below min(quota, demand), whatever the weights are."""
    projects, demands = _worlds(drawn)
    deserved = {name: _deserved(projects, demands, name) for name in projects}
    if sum(deserved.values()) <= whole:
        shares = divide(whole, projects, demands)
        assert all(shares[name] >= deserved[name] for name in projects)


@given(_PROJECTS, _AMOUNTS, st.integers(0, 5_000_000))
def test_more_capacity_takes_nothing_from_anybody(drawn: _Drawn, whole: int, more: int) -> None:
    """A new GPU never makes a project's share smaller; rounding alone may shift one millionth."""
    projects, demands = _worlds(drawn)
    before, after = divide(whole, projects, demands), divide(whole + more, projects, demands)
    assert all(after[name] >= before[name] - 1 for name in projects)


@given(_PROJECTS, _AMOUNTS, st.integers(0, 5_000_000))
def test_wanting_more_takes_nothing_from_oneself(drawn: _Drawn, whole: int, more: int) -> None:
    """A project that asks for more never gets less for it."""
    projects, demands = _worlds(drawn)
    name = min(projects)
    after = divide(whole, projects, {**demands, name: demands[name] + more})
    assert after[name] >= divide(whole, projects, demands)[name] - 1


@given(_PROJECTS, _AMOUNTS)
def test_the_order_of_projects_means_nothing(drawn: _Drawn, whole: int) -> None:
    """Shares follow from names and figures alone, so that every broker comes to the same ones."""
    projects, demands = _worlds(drawn)
    backwards = dict(reversed(projects.items()))
    assert divide(whole, projects, demands) == divide(whole, backwards, demands)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({"a": "4", "b": "4"}, {"a": "2.5", "b": "3.5"}, id="what is left over goes by weight: 1 to 3"),
        pytest.param({"a": "6", "b": "2.5"}, {"a": "3.5", "b": "2.5"}, id="who has enough leaves the rest to others"),
        pytest.param({"a": "9"}, {"a": "6", "b": "0"}, id="who is alone gets all"),
        pytest.param({"a": "1", "b": "1"}, {"a": "1", "b": "1"}, id="nobody gets more than it wants"),
    ],
)
def test_the_rest_goes_by_weight(wanted: dict[str, str], expected: dict[str, str]) -> None:
    """Over quota the weights decide, and what one project does not need is divided among the others."""
    teams = [project("a", "2", weight="1"), project("b", "2", weight="3")]
    demands = {name: gpus(amount).millionths for name, amount in wanted.items()}
    shares = divide(gpus("6").millionths, {team.name: team for team in teams}, demands)
    assert {name: str(Fraction(share)) for name, share in shares.items()} == expected


def test_projects_without_weight_come_last() -> None:
    """A project with neither quota nor weight gets what the others leave, and shares it equally with its like."""
    teams = [project("a", "1"), project("guests", "0"), project("others", "0")]
    leases = [job("a1", "2", "a"), job("g1", "4", "guests"), job("o1", "4", "others")]
    shares = fair_share(books(*leases, per_host=6, projects=teams))
    assert {name: str(share) for name, share in shares.items()} == {"a": "2", "guests": "2", "others": "2"}


def test_quotas_that_do_not_fit_are_divided_in_proportion() -> None:
    """Where an admin promised more than there is, everybody keeps the same part of its quota."""
    teams = [project("a", "6"), project("b", "3")]
    snapshot = books(job("a1", "6", "a"), job("b1", "3", "b"), per_host=3, projects=teams)
    assert fair_share(snapshot) == {"a": gpus("2"), "b": gpus("1")}


def test_an_unlimited_quota_is_a_quota_like_any_other() -> None:
    """The project of a machine with one user may have all of it, and no sum overflows."""
    teams = [Project("mine", Fraction.UNLIMITED), project("b", "1")]
    snapshot = books(job("a1", "4", "mine"), job("b1", "1", "b"), per_host=4, projects=teams)
    shares = fair_share(snapshot)
    assert shares["mine"] + shares["b"] == gpus("4")
    assert shares["b"] >= gpus("0.5")


def test_only_ready_devices_are_divided() -> None:
    """What is drained, gone, or foreign is nobody's fair share."""
    devices = [
        device("h1-0"),
        device("h1-1", condition="draining"),
        device("h1-2", condition="gone"),
        device("h1-3", foreign=gpus("0.25")),
    ]
    assert capacity(books(devices=devices)) == gpus("1.75").millionths


def test_what_is_parked_counts_and_what_is_lent_does_not_count_twice() -> None:
    """A parked notebook keeps its part of the demand; a job on its loan counts for its project's demand alone."""
    notebook = parked(session("s", "1", "a"), "h1-0")
    borrower = on_loan(job("j", "1", "b"), ("s", "h1-0", "1"))
    snapshot = books(notebook, borrower, running(job("k", "1", "b"), "h1-1"), per_host=2, quotas={"a": "1", "b": "1"})
    assert fair_share(snapshot) == {"a": gpus("1"), "b": gpus("1")}
    assert snapshot.project_books["b"].counted == gpus("1")
