"""docs/configuration.md says what gpushare.toml can hold, as it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError, HostWish
from jupyter_gpushare.broker.configuration_page import TABLES, Key, Table, page
from jupyter_gpushare.rules.capacity import Host


def test_the_documentation_shows_what_is_read() -> None:
    """docs/configuration.md is made from the code: python -m jupyter_gpushare.broker.configuration_page."""
    documented = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert documented.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_key_is_documented_and_no_other(table: Table) -> None:
    """A key that nobody can look up is not found, and one that is not read is a lie."""
    with pytest.raises(ConfigurationError) as raised:
        Configuration.parse("\n".join([f"[{table.name}]", *map(_line, table.keys), "zzzz = 1"]))
    unknown = next(problem.problem for problem in raised.value.problems if problem.key == "zzzz")
    assert unknown.removeprefix("is unknown; known are ").split(", ") == sorted(key.name for key in table.keys)


def test_all_the_examples_together_are_a_file_that_says_something() -> None:
    """What is copied from the page must be right."""
    text = "\n".join(f"[{table.name}]\n" + "\n".join(map(_line, table.keys)) for table in TABLES)
    said, plain = Configuration.parse(text), Configuration()
    assert said.projects[0].quota > plain.projects[0].quota.ZERO
    assert said.pools[0].oversubscribe != plain.pools[0].oversubscribe
    assert said.losses
    assert said.admins
    assert said.hosts[0].copies == 1


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_whoever_writes_a_default_down_changes_nothing(table: Table) -> None:
    """The defaults on the page are those that hold."""
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    defaults = {row[0].removeprefix("| ").strip("`"): row[1].strip("`") for row in rows}
    plain = f"[{table.name}]\n" + ("quota = 1\n" if table.name.startswith("projects") else "")
    for key in table.keys:
        if not key.default:
            assert _in_force(f"{plain}{key.name} = {defaults[key.name]}") == _in_force(plain)


def _in_force(text: str) -> Configuration:
    said = Configuration.parse(text)
    host = said.host(Host("gpu-1"))
    return replace(said, hosts=(HostWish(host.name, host.parking_budget, host.copies, host.saves),))


def _line(key: Key) -> str:
    return f"{key.name} = {key.example}"
