"""Projects, leases and devices in a terminal: exact parts, the words of every other screen, nothing that steers it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from jupyter_gpushare.app.division import division
from jupyter_gpushare.app.leases import LeasesApp
from jupyter_gpushare.app.tables import bar, devices_table, leases_table, projects_table
from jupyter_gpushare.app.top import Overview, overview_of
from jupyter_gpushare.broker.wire import (
    DeviceModel,
    DevicesAnswer,
    GrantModel,
    HostModel,
    LeasesAnswer,
    LentModel,
    ProjectModel,
    ProjectsAnswer,
    UsageModel,
)
from tests.training.fake_broker import lease_model, reason


def device(uuid: str = "GPU-0", **changes: Any) -> DeviceModel:
    """A device that nobody has."""
    known: dict[str, Any] = {
        "uuid": uuid, "host": "host-1", "kind": "a100", "pool": "default", "usable": 40 * 10**9, "held": "0",
        "promised": "0", "parked": "0", "lent": "0", "foreign": "0", "condition": "ready", "over_committed": False,
        "trespassed": False,
    }  # fmt: skip
    return DeviceModel(**known | changes)


HOST = HostModel("host-1", None, 0, 2, 0, 4, 0, "ready")
PROJECT = ProjectModel("team-a", "4", "4", "unlimited", "unlimited", "5", "5.5", "2", "0.5", 3,
                       UsageModel(12.34, 1.0, 2.0, 3.0), "file")  # fmt: skip


def printed(*what: Any, width: int = 200) -> str:
    """As a terminal without colours shows it."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(*what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("books", "expected"),
    [
        ({}, {"free": "1"}),
        ({"held": "0.5", "promised": "0.5"}, {"notebook": "0.5", "free": "0.5"}),
        ({"promised": "0.5", "parked": "0.5"}, {"parked": "0.5", "free": "0.5"}),
        # A parked notebook lends its half to training, which has a quarter of its own besides.
        ({"held": "0.75", "promised": "0.5", "parked": "0.5", "lent": "0.5"},
         {"training": "0.25", "lent": "0.5", "free": "0.25"}),
        ({"held": "0.25", "promised": "1", "parked": "0.75", "foreign": "0.1"},
         {"notebook": "0.25", "parked": "0.75", "others": "0.1"}),
    ],
)  # fmt: skip
def test_the_parts_of_a_device(books: dict[str, str], expected: dict[str, str]) -> None:
    """Nothing counts twice, and what is lent is not shown as parked too."""
    parts = {kind: str(amount) for kind, amount in division(device(**books)).items() if amount}
    assert parts == expected


def test_a_bar_is_full_and_readable_without_colours() -> None:
    """Each kind has its own pattern, and the bar is as wide as a device."""
    text = bar(device(held="0.75", promised="0.5", parked="0.5", lent="0.5"), width=20).plain
    assert text == "▓" * 5 + "▞" * 10 + "·" * 5


def test_a_lease_says_where_why_and_to_whom() -> None:
    """One row answers who has what where, why it waits, and who uses what a parked one lends."""
    grants = [GrantModel("GPU-0", "host-1", "0.5", 20 * 10**9, "0")]
    parked = lease_model(
        kind="interactive",
        name="ada's notebook",
        status="parked",
        grants=grants,
        lent_to=[LentModel("b", "job", "0.5")],
    )
    waiting = lease_model(id="2", name="train.py", place=2, reason=reason("W", "Waits for a GPU."))
    text = printed(leases_table([waiting, parked]))
    assert text.index("ada's notebook") < text.index("train.py")
    for words in ("parked", "0.5 of GPU-0 (20.0 GB)", "lent to job of b", "waiting, 2 in line", "Waits for a GPU."):
        assert words in " ".join(text.split())


def test_who_may_not_know_whose_a_lease_is_reads_so() -> None:
    """A hub's broker leaves names out: the row says that it is somebody's, and below it stands who is told."""
    lender = lease_model(kind="interactive", name="", person="", status="parked", lent_to=[LentModel("b", "", "0.5")])
    text = " ".join(printed(leases_table([lender])).split())
    for words in (
        "a notebook",
        "somebody",
        "lent to somebody of b",
        "is told to them, to their project's owners and to",
    ):
        assert words in text
    assert "is told to them" not in printed(leases_table([lease_model()])), "nothing is kept back"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "Of those whose shares you may see, nobody has or waits for one now."),
        ({"status": "queued"}, "No share that you may see is like that now."),
    ],
)
def test_no_leases_is_no_word_about_everybody(asked: dict[str, str], words: str) -> None:
    """Who sees nobody's is not told that there is nobody."""
    assert LeasesApp(**asked).shown(LeasesAnswer([])) == words


def test_names_cannot_steer_the_terminal() -> None:
    """Escape sequences and rich's own markup in a name are shown and not obeyed."""
    text = printed(leases_table([lease_model(name="\x1b[31mevil [bold]")]))
    assert "\x1b" not in text
    assert "[bold]" in text


def test_a_project_shows_its_entitlement_and_its_use() -> None:
    """Quota, fair share, what it has, what is lent to it, who waits, and GPU-hours with one decimal."""
    row = next(line for line in printed(projects_table([PROJECT])).splitlines() if "team-a" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "team-a", "4", "5", "5.5", "2", "0.5", "3", "12.3", "1.0", "2.0", "3.0",
    ]  # fmt: skip


def test_many_devices_are_counted_and_not_cut_off() -> None:
    """A hundred devices and a thousand leases stay readable: the foremost are shown, the rest is a number."""
    devices = DevicesAnswer([HOST], [device(f"GPU-{number:03}") for number in range(100)])
    leases = LeasesAnswer([lease_model(id=str(number), status="running") for number in range(1000)])
    busy = lease_model(id="x", name="moves", status="parking")
    seen = Overview(devices, ProjectsAnswer([PROJECT]), LeasesAnswer([*leases.leases, busy]))
    text = printed(overview_of(seen, most_devices=5, most_leases=3))
    assert "… and 95 more" in text
    assert "… and 998 more leases" in text
    assert "moves" in text
    assert "100 GPUs" in text
    assert len(text.splitlines()) < 40


def test_trouble_on_a_device_is_said_in_words() -> None:
    """Draining, over-committed, trespassed and foreign memory are words, not only colours."""
    one = device(condition="draining", over_committed=True, trespassed=True, foreign="0.2")
    text = printed(devices_table([one], [HOST]))
    for words in ("draining", "over-committed", "used by programs of no share", "0.2 taken by others"):
        assert words in text
