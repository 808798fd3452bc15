"""What a file changes of the broker's own settings, of culling and of news is told like everything else of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.configuration_page import TABLES
from jupyter_gpushare.broker.settings_changes import settings_changes, settings_warnings

if TYPE_CHECKING:
    from jupyter_gpushare.broker.configuration_page import Key

FULL: Final = """
    [broker]
    admins = ["ana", "@leads"]
    holder_grace = "90s"
    [culling]
    stop_after = "12h"
    max_age = "30d"
    warning = "1h30m"
    [culling.pools.class]
    stop_after = "1h"
    [culling.profiles."0.5"]
    end_kernels_after = "never"
    [news.chat]
    url = "https://chat.example.org/hooks/gpu"
    secret_file = "/etc/gpushare/chat.secret"
    events = ["loss"]
"""


def changes(before: str, after: str) -> list[str]:
    """What *after* changes."""
    return list(settings_changes(Configuration.parse(before), Configuration.parse(after)))


def test_each_table_has_its_line() -> None:
    """With before and after, as the file writes them."""
    assert changes("", FULL) == [
        "broker: admins none → @leads, ana, holder_grace 30s → 1m30s",
        "news chat is new: url https://chat.example.org/hooks/gpu, secret_file /etc/gpushare/chat.secret, events loss",
        "culling: stop_after never → 12h, max_age never → 30d, warning 10m → 1h30m",
        "culling of pool class is new: stop_after 1h",
        "culling of profile 0.5 is new: end_kernels_after never",
    ]


def test_what_is_said_no_more_is_told() -> None:
    """A table that is gone, and a key that is gone from one that stays."""
    fewer = FULL.replace('stop_after = "1h"', 'max_age = "9d"').replace("[culling.profiles", "[culling.pools.x")
    assert changes(FULL, fewer.replace('.pools.x."0.5"', ".pools.other")) == [
        "culling of pool class: max_age as elsewhere → 9d, stop_after 1h → as elsewhere",
        "culling of pool other is new: end_kernels_after never",
        "culling of profile 0.5 is removed",
    ]


def test_the_same_again_changes_nothing() -> None:
    """Applying a file twice is no change."""
    assert changes(FULL, FULL) == []


KEYS: Final = [
    (table.name, key)
    for table in TABLES
    if table.name.partition(".")[0] in ("broker", "news", "culling")
    for key in table.keys
]


@pytest.mark.parametrize(("table", "key"), KEYS, ids=[f"{table}.{key.name}" for table, key in KEYS])
def test_no_key_of_the_file_is_changed_in_silence(table: str, key: Key) -> None:
    """Every key that docs/configuration.md has of these tables, with its example: a new one must be told, too."""
    plain = {"url": '"https://other.example.org/"', "secret_file": '"/other"'} if table.startswith("news") else {}
    before, after = (
        "\n".join([f"[{table}]", *(f"{name} = {value}" for name, value in said.items())])
        for said in (plain, plain | {key.name: key.example})
    )
    said = "; ".join(changes(before, after))
    assert said.startswith(table.partition(".")[0])
    assert key.name.removesuffix("s") in said


def test_what_ends_something_is_warned_of_once() -> None:
    """Where a limit is set for one pool alone, too; not where nothing but parking is asked for."""
    plain = Configuration()
    for text, is_warned in (
        ('park_after = "20m"\nwarning = "5m"', False),
        ('max_age = "9d"', True),
        ('[culling.pools.class]\nstop_after = "1h"', True),
        ('[culling.profiles."1"]\nend_kernels_after = "never"', False),
    ):
        after = Configuration.parse(f"[culling]\n{text}")
        assert bool(list(settings_warnings(plain, after))) is is_warned, text
        assert list(settings_warnings(after, after)) == []
