"""``gpushare.toml`` means what it says, and what is wrong in it is told whole, with how to write it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.event import HostSeen, Inventory, PolicySet
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import EMPTY, Snapshot

EXAMPLE = Path(__file__).parents[2] / "hub_config" / "gpushare.toml"
EVERY_KEY = """
[broker]
admins = ["ana", "@gpu-admins"]
holder_grace = "45s"
losses = ["job_stopped_after_grace"]
keep_audit = "400d"

[projects.team-a]
quota = 2.5
weight = 1
limit = 8
person_limit = "0.5"
members = ["ana", "bo"]
owners = ["cy", "@leads"]

[projects.team-b]
quota = "unlimited"

[pools.class]
devices = [{ kind = "t4*" }, { host = "lab-*", uuid = "GPU-1" }]
parking = "observe"
isolation = "mps"
resume = "best-effort"
oversubscribe = 5
placement = "spread"
consolidation = true
minimum_turn = "1h30m"
backoff = "2m"
grace = "1.5s"
lend_at_least = "0s"
idle_timeout = "2d"

[pools.rest]

[hosts.gpu-1]
copies = 1

[hosts."gpu-*"]
parking_budget = "64GiB"
copies = 3
saves = 5
"""


def a_device(uuid: str = "GPU-9", host: str = "gpu-1", kind: str = "a100", pool: str = "rest") -> GpuDevice:
    """A device of 16 GiB."""
    return GpuDevice(uuid, host, kind, pool, Memory(1 << 34))


def problems(text: str) -> list[str]:
    """What is wrong in *text*, one line each."""
    with pytest.raises(ConfigurationError) as raised:
        Configuration.parse(text)
    return str(raised.value).splitlines()


def test_every_key_arrives_where_it_belongs() -> None:
    """Amounts are exact, durations are seconds, and no key is forgotten."""
    found = Configuration.parse(EVERY_KEY)
    team_a = Project(
        "team-a",
        Fraction(2_500_000),
        Fraction.ONE,
        Fraction(8_000_000),
        Fraction(500_000),
        frozenset({"ana", "bo"}),
        owners=frozenset({"cy", "@leads"}),
    )
    assert found.projects == (team_a, Project("team-b", Fraction.UNLIMITED))
    assert found.pools[0] == Pool(
        "class",
        parking="observe",
        isolation="mps",
        resume="best-effort",
        oversubscribe=Fraction(5_000_000),
        placement="spread",
        consolidation=True,
        minimum_turn_s=5400.0,
        backoff_s=120.0,
        grace_s=1.5,
        lend_at_least_s=0.0,
        idle_timeout_s=172_800.0,
    )
    assert found.pools[1] == Pool("rest")
    assert found.admins == {"ana", "@gpu-admins"}
    assert found.holder_grace_s == 45.0
    assert found.losses == {Loss.JOB_STOPPED_AFTER_GRACE}
    assert found.keeps_audit_s == 400 * 86400.0


def test_the_file_can_say_everything_of_a_pool() -> None:
    """A field that is added to a pool is set in the test above, and so can be set by an admin."""
    pool, plain = Configuration.parse(EVERY_KEY).pools[0], Pool("class")
    same = [each.name for each in fields(pool) if getattr(pool, each.name) == getattr(plain, each.name)]
    assert same == ["name"]


def test_without_a_file_everybody_shares_everything() -> None:
    """An empty file is the default: one project for everybody without a bound, one pool that guarantees."""
    found = Configuration.parse("")
    assert found == Configuration()
    (project,), (pool,) = found.projects, found.pools
    assert project.has("anybody")
    assert project.quota.is_unlimited
    assert (pool.resume, found.pool_of(a_device())) == ("guaranteed", "default")


def test_the_documented_example_is_right() -> None:
    """The file that admins copy can be read, and its comments name the real defaults."""
    text = EXAMPLE.read_text()
    found = Configuration.parse(text)
    assert {project.name for project in found.projects} == {"team-a", "team-b", "course"}
    # Its defaults are behind a "# ": with them taken in, nothing changes.
    said = "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and " = " in line else line for line in text.split("\n")
    )
    assert said.count("\n# ") < text.count("\n# ") - 12
    told = Configuration.parse(said)
    assert replace(told, projects=found.projects) == found
    assert [project.over_quota_weight for project in told.projects] == [
        project.over_quota_weight for project in found.projects
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[projects.a]", "[projects.a] quota: is missing; write for example quota = 4"),
        ("[projects.a]\nquota = -1", "[projects.a] quota: -1 is not a number; write for example quota = 2.5"),
        ("[projects.a]\nquota = nan", "[projects.a] quota: NaN is not a number; write for example quota = 2.5"),
        ("[projects.a]\nquota = 1e300", "[projects.a] quota: 1"),
        ("[projects.a]\nquota = true", "[projects.a] quota: True is no amount of GPUs; write for example quota = 2.5"),
        ("[projects.a]\nquota = 4\nlimit = 2", "[projects.a] limit: 2 is below the quota 4; write for example limit = 4"),
        ('[projects.a]\nquota = 1\nweight = "unlimited"', "[projects.a] weight: a weight needs a bound"),
        ('[projects.a]\nquota = 1\nmembers = "ana"', "[projects.a] members: 'ana' is no list; write for example"),
        ('[projects.a]\nquota = 1\nmembers = ["a\\u0000"]', r"[projects.a] members: 'a\x00' is no name"),
        ("[projects.a]\nquotas = 1\nquota = 1", "[projects.a] quotas: is unknown; perhaps quota is meant"),
        ("[projects.a]\nquota = 1\nzzz = 1", "[projects.a] zzz: is unknown; known are limit, members, owners, person_limit"),
        ('[projects."a b"]\nquota = 1', '[projects."a b"]: a name has letters, digits'),
        ("projects = 3", "[projects]: 3 is not a table; write for example [projects]"),
        ("[project.a]\nquota = 1", "project: is unknown; perhaps projects is meant"),
        ("[pools.a]\nidle_timeout = 600", '[pools.a] idle_timeout: 600 has no unit; write for example idle_timeout = "600s"'),
        ('[pools.a]\nidle_timeout = "soon"', "[pools.a] idle_timeout: 'soon' is no duration; write for example idle_timeout ="),
        ('[pools.a]\nidle_timeout = ""', "[pools.a] idle_timeout: '' is no duration"),
        ('[pools.a]\nidle_timeout = "0s"', "[pools.a] idle_timeout: less than a second is too short"),
        ('[pools.a]\nparking = "on"', "[pools.a] parking: 'on' is none of park, observe, off; write for example"),
        ('[pools.a]\nisolation = "vm"', "[pools.a] isolation: 'vm' is none of caps, none, hami-core, mps, mig"),
        ("[pools.a]\nconsolidation = 1", "[pools.a] consolidation: 1 is neither true nor false"),
        ("[pools.a]\noversubscribe = 5", "[pools.a] oversubscribe: more than 1 cannot be guaranteed"),
        ('[pools.a]\nresume = "best-effort"\noversubscribe = 0.5', "[pools.a] oversubscribe: 0.5 is not 1 or more"),
        ("[pools.a]\n[pools.b]", "[pools.b] devices: a and b both want the devices that no other pool wants"),
        ('[pools.a]\ndevices = ["a100"]', "[pools.a] devices: a selector names a kind, a host or a uuid"),
        ("[pools.a]\ndevices = [{ kind = 3 }]", "[pools.a] devices: what a selector names is text"),
        ("[hosts.h]\ncopies = 0", "[hosts.h] copies: 0 is no whole number from 1 to 1024; write for example copies = 2"),
        ("[hosts.h]\nparking_budget = 64", '[hosts.h] parking_budget: 64 has no unit; write for example parking_budget = "64GiB"'),
        ('[hosts.h]\nparking_budget = "64GB"', "[hosts.h] parking_budget: 'GB' is not a unit of memory"),
        ('[broker]\nkeep_audit = "1d"', "[broker] keep_audit: less than a week is too short"),
        ('[projects.a]\nquota = 1\nowners = "cy"', "[projects.a] owners: 'cy' is no list; write for example"),
        ("[broker]\nadmin = []", "[broker] admin: is unknown; perhaps admins is meant"),
        ("quota = ", "the file: it is no TOML: Invalid value (at end of document)"),
        ("[projects.a]\nquota = 1\nquota = 2", "the file: it is no TOML: Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_cure(text: str, line: str) -> None:
    """The line names the table, the key, what is wrong and a right example."""
    assert any(each.startswith(line) for each in problems(text)), problems(text)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    """An admin mends a file in one go, and not error by error."""
    assert len(problems('[projects.a]\nquota = -1\nx = 1\n[pools.p]\ngrace = 5\n[broker]\nadmins = ""\n[other]')) == 5


@given(st.text(max_size=300) | st.text(alphabet='[]{}"=.\n projectsquota-1a', max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever a file says, it is a configuration or one error with lines for people."""
    with suppress(ConfigurationError):
        assert Configuration.parse(text).pools


def test_a_file_that_goes_too_deep_is_refused() -> None:
    """A nesting that no reader survives is an error of the file like every other."""
    assert problems("a = " + "[" * 100_000)[0].startswith("the file: it is no TOML")


@pytest.mark.parametrize(
    ("device", "pool"),
    [
        (a_device(kind="t4"), "class"),
        (a_device(kind="t4-16q"), "class"),
        (a_device("GPU-1", "lab-7"), "class"),
        (a_device("GPU-1", "gpu-1"), "rest"),
        (a_device(kind="T4"), "rest"),
    ],
)
def test_a_device_goes_to_the_first_pool_that_wants_it(device: GpuDevice, pool: str) -> None:
    """Selectors are patterns that must all fit; a pool without selectors has what is left over."""
    assert Configuration.parse(EVERY_KEY).pool_of(device) == pool


def test_a_device_that_no_pool_wants_is_left_to_others() -> None:
    """Where every pool names its devices, the others take no part."""
    found = Configuration.parse('[pools.a]\ndevices = [{ kind = "t4" }]')
    assert found.pool_of(a_device()) is None
    assert found.placed([a_device(), a_device("GPU-1", kind="t4", pool="")]) == (
        a_device("GPU-1", kind="t4", pool="a"),
    )


def test_a_hosts_own_name_goes_before_a_pattern() -> None:
    """What is said of one machine holds for it alone; where nothing is said, what was found out stays."""
    found = Configuration.parse(EVERY_KEY)
    measured = Host("gpu-1", Memory(7), copies=2, saves=2)
    assert found.host(measured) == replace(measured, copies=1)
    assert found.host(Host("gpu-2", Memory(7))) == Host("gpu-2", Memory.parse("64GiB"), 3, 5)
    assert found.host(Host("other", Memory(7))) == Host("other", Memory(7))


def test_its_events_put_it_in_force() -> None:
    """The rules hear of projects and pools, of hosts with other limits, and of devices that change their pool."""
    found = Configuration.parse(EVERY_KEY)
    assert found.events(EMPTY) == [PolicySet(found.projects, found.pools)]
    known = Snapshot.of(
        hosts=[Host("gpu-2"), Host("calm")],
        devices=[a_device("GPU-1", "gpu-2", "t4"), a_device("GPU-2", "gpu-2"), a_device("GPU-3", "calm")],
    )
    moved = a_device("GPU-1", "gpu-2", "t4", "class")
    assert found.events(known) == [
        PolicySet(found.projects, found.pools),
        HostSeen(Host("gpu-2", Memory.parse("64GiB"), 3, 5)),
        Inventory("gpu-2", (moved, a_device("GPU-2", "gpu-2"))),
    ]
