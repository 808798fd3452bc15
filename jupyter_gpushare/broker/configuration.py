"""``gpushare.toml``: projects, pools, hosts and the broker's own settings, as the admin wants them.

What the file sets is read-only elsewhere. Without a file everybody is a member of one project, ``default``, without a
quota of its own, and all devices are in one pool, ``default``, which brings every parked notebook back.
"""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

from jupyter_gpushare.broker import configuration_reading as reading
from jupyter_gpushare.broker.configuration_reading import Problem, TableReader, WrongValueError
from jupyter_gpushare.broker.cull_policy import CullPolicy
from jupyter_gpushare.broker.culling_configuration import read_culling
from jupyter_gpushare.broker.news_configuration import NewsHook, read_hooks
from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.event import HostSeen, Inventory, PolicySet
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import EVERYBODY, Project
from jupyter_gpushare.rules.snapshot import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["DEFAULT", "Configuration", "ConfigurationError", "HostWish", "Selector"]

#: The name of the project and of the pool that there are without a file.
DEFAULT: Final = "default"
_ISOLATION: Final = ("caps", "none", "hami-core", "mps", "mig")
_SELECTORS: Final = '[{ kind = "a100*" }, { host = "gpu-1", uuid = "GPU-3*" }]'
_MOST_AT_ONCE: Final = 1024
_MOST_OF_ONE: Final = 1_000_000
_SHORTEST_AUDIT_S: Final = 7 * 86400.0


class ConfigurationError(ValueError):
    """A file that cannot be. All of its *problems* at once, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Selector:
    """Some devices, by shell patterns; all three must fit."""

    kind: str = "*"
    host: str = "*"
    uuid: str = "*"

    def fits(self, device: GpuDevice) -> bool:
        """Whether *device* is meant."""
        return all(fnmatch.fnmatchcase(getattr(device, name), getattr(self, name)) for name in ("kind", "host", "uuid"))


@dataclass(frozen=True, slots=True)
class HostWish:
    """What the file says of hosts whose name fits *pattern*; None where it says nothing."""

    pattern: str
    parking_budget: Memory | None = None
    copies: int | None = None
    saves: int | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a ``gpushare.toml`` says.

    Attributes:
        projects: all of them.
        pools: all of them, in the order of the file.
        devices: which devices each pool wants, by its name. The first pool that wants a device has it; one without a
            word about devices has what is left.
        hosts: limits of hosts.
        admins: names of people, and with an ``@`` before it the name of a group: the hub's with a hub, else a Unix one.
        holder_grace_s: after how long without a connection a holder is missing.
        person_connections: how many connections of one person are taken at once, except for admins.
        person_claims: how many leases one person may hold or wait for, except for admins.
        losses: what the broker may end by force; nothing unless the admin turns it on.
        policies: what each pool says to notebook servers, by its name; a default that nobody wrote is not said.
        keeps_audit_s: for how long lines of the audit are kept; None for ever.
        news: who is told what happens, by a webhook.
        culling: what a hub's service does about servers that nobody uses; nothing unless the admin says so.
    """

    projects: tuple[Project, ...] = (Project(DEFAULT, Fraction.UNLIMITED),)
    pools: tuple[Pool, ...] = (Pool(DEFAULT),)
    devices: Mapping[str, tuple[Selector, ...]] = field(default_factory=dict)
    hosts: tuple[HostWish, ...] = ()
    admins: frozenset[str] = frozenset()
    holder_grace_s: float = 30.0
    person_connections: int = 256
    person_claims: int = 1000
    losses: frozenset[Loss] = frozenset()
    policies: Mapping[str, PoolPolicy] = field(default_factory=dict)
    keeps_audit_s: float | None = None
    news: tuple[NewsHook, ...] = ()
    culling: CullPolicy = field(default_factory=CullPolicy)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a file.

        Raises:
            ConfigurationError: with everything that is wrong in it.
        """
        try:
            document = tomllib.loads(text, parse_float=Decimal)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigurationError([Problem("", "", f"it is no TOML: {error}", "[projects.team-a]")]) from None
        problems: list[Problem] = []
        found = _read(TableReader("", document, problems))
        if problems:
            raise ConfigurationError(problems)
        return cls(**found)

    def pool_of(self, device: GpuDevice) -> str | None:
        """The name of the pool that *device* belongs to; None leaves it to others."""
        wanting = (name for name, selectors in self.devices.items() if any(each.fits(device) for each in selectors))
        rest = (pool.name for pool in self.pools if pool.name not in self.devices)
        return next(wanting, None) or next(rest, None)

    def host(self, seen: Host) -> Host:
        """*seen*, with what the file says of it."""
        fitting = [wish for wish in self.hosts if fnmatch.fnmatchcase(seen.name, wish.pattern)]
        # Its very name says more than a pattern.
        for wish in sorted(fitting, key=lambda wish: wish.pattern != seen.name)[:1]:
            said = {name: getattr(wish, name) for name in ("parking_budget", "copies", "saves")}
            return replace(seen, **{name: value for name, value in said.items() if value is not None})
        return seen

    def placed(self, devices: Iterable[GpuDevice]) -> tuple[GpuDevice, ...]:
        """*devices*, each in its pool; those of no pool left out."""
        pools = ((device, self.pool_of(device)) for device in devices)
        return tuple(replace(device, pool=pool) for device, pool in pools if pool is not None)

    def events(
        self, snapshot: Snapshot = EMPTY, *, keeps_quotas: bool = False, by: str = "admin", why: str = ""
    ) -> list[Event]:
        """What puts it in force over *snapshot*. What the file does not say of a host stays as it is.

        With *keeps_quotas* a quota that an admin has set since holds; *by* and *why* are for the audit.
        """
        events: list[Event] = [PolicySet(self.projects, self.pools, keeps_quotas, by, why)]
        for host in snapshot.hosts.values():
            if (wished := self.host(host)) != host:
                events.append(HostSeen(wished))
            there = [each for each in snapshot.devices.values() if each.host == host.name and each.condition != "gone"]
            if (placed := self.placed(there)) != tuple(there):
                events.append(Inventory(host.name, placed))
        return events


def _read(top: TableReader) -> dict[str, Any]:
    projects = [_project(name, table) for name, table in top.tables("projects")]
    devices: dict[str, tuple[Selector, ...]] = {}
    policies: dict[str, PoolPolicy] = {}
    pools = [_pool(name, table, devices, policies) for name, table in top.tables("pools")]
    hosts = [_host(name, table) for name, table in top.tables("hosts", is_glob=True)]
    found = {**_broker(top.table("broker")), "news": read_hooks(top), "culling": read_culling(top)}
    rest = [pool.name for pool in pools if pool.name not in devices]
    if len(rest) > 1:
        problem = f"{' and '.join(rest)} both want the devices that no other pool wants"
        top.problems.append(Problem(f"pools.{rest[1]}", "devices", problem, _SELECTORS))
    top.finish()
    return {
        **({"projects": tuple(projects)} if projects else {}),
        **({"pools": tuple(pools)} if pools else {}),
        "devices": devices,
        "policies": policies,
        "hosts": tuple(hosts),
        **found,
    }


def _broker(table: TableReader) -> dict[str, Any]:
    found = {
        "admins": table.take("admins", reading.names, frozenset[str]()),
        "holder_grace_s": table.take("holder_grace", _some_time, 30.0),
        "person_connections": table.take("person_connections", reading.whole(1, _MOST_OF_ONE), 256),
        "person_claims": table.take("person_claims", reading.whole(1, _MOST_OF_ONE), 1000),
        "losses": table.take("losses", _losses, frozenset[Loss]()),
        "keeps_audit_s": table.take("keep_audit", _long_time, None),
    }
    table.finish()
    return found


def _project(name: str, table: TableReader) -> Project:
    project = Project(
        name,
        quota=table.take("quota", reading.gpus, Fraction.ZERO),
        weight=table.take("weight", _weight, None),
        limit=table.take("limit", reading.gpus, Fraction.UNLIMITED),
        person_limit=table.take("person_limit", reading.gpus, Fraction.UNLIMITED),
        members=table.take("members", reading.names, frozenset({EVERYBODY})),
        owners=table.take("owners", reading.names, frozenset[str]()),
    )
    if not table.has("quota"):
        table.wrong("quota", "is missing", "4")
    if project.limit < project.quota:
        table.wrong("limit", f"{project.limit} is below the quota {project.quota}", str(project.quota))
    table.finish()
    return project


def _pool(
    name: str, table: TableReader, devices: dict[str, tuple[Selector, ...]], policies: dict[str, PoolPolicy]
) -> Pool:
    plain = Pool(name)
    pool = Pool(
        name,
        parking=table.take("parking", reading.choice("park", "observe", "off"), plain.parking),
        isolation=table.take("isolation", reading.choice(*_ISOLATION), plain.isolation),
        resume=table.take("resume", reading.choice("guaranteed", "best-effort"), plain.resume),
        oversubscribe=table.take("oversubscribe", _oversubscribe, plain.oversubscribe),
        placement=table.take("placement", reading.choice("binpack", "spread"), plain.placement),
        consolidation=table.take("consolidation", reading.flag, plain.consolidation),
        minimum_turn_s=table.take("minimum_turn", reading.duration, plain.minimum_turn_s),
        backoff_s=table.take("backoff", _some_time, plain.backoff_s),
        grace_s=table.take("grace", reading.duration, plain.grace_s),
        lend_at_least_s=table.take("lend_at_least", reading.duration, plain.lend_at_least_s),
        idle_timeout_s=table.take("idle_timeout", _some_time, plain.idle_timeout_s),
    )
    if pool.oversubscribe > Fraction.ONE and pool.resume == "guaranteed":
        table.wrong("oversubscribe", "more than 1 cannot be guaranteed", '1, or resume = "best-effort"')
    if table.has("devices"):
        devices[name] = table.take("devices", _selectors, ())
    policies[name] = PoolPolicy(
        name,
        parking=None if pool.parking == "park" else pool.parking,  # the most there is bounds nobody
        isolation=pool.isolation if table.has("isolation") else None,  # type: ignore[arg-type]  # out of _ISOLATION
        idle_timeout_s=pool.idle_timeout_s if table.has("idle_timeout") else None,
    )
    table.finish()
    return pool


def _host(pattern: str, table: TableReader) -> HostWish:
    at_once = reading.whole(1, _MOST_AT_ONCE)
    wish = HostWish(
        pattern,
        parking_budget=table.take("parking_budget", reading.memory, None),
        copies=table.take("copies", at_once, None),
        saves=table.take("saves", at_once, None),
    )
    table.finish()
    return wish


def _weight(value: object) -> Fraction:
    weight = reading.gpus(value)
    if weight.is_unlimited:
        raise WrongValueError("a weight needs a bound", "2")
    return weight


def _oversubscribe(value: object) -> Fraction:
    factor = reading.gpus(value)
    if factor.is_unlimited or factor < Fraction.ONE:
        raise WrongValueError(f"{factor} is not 1 or more", "5")
    return factor


def _some_time(value: object) -> float:
    seconds = reading.duration(value)
    if seconds < 1:
        raise WrongValueError("less than a second is too short", '"30s"')
    return seconds


def _long_time(value: object) -> float:
    seconds = reading.duration(value)
    if seconds < _SHORTEST_AUDIT_S:
        raise WrongValueError("less than a week is too short: from it the broker knows what has ended", '"400d"')
    return seconds


def _losses(value: object) -> frozenset[Loss]:
    known = Loss.JOB_STOPPED_AFTER_GRACE
    for name in reading.names_in(value, f'["{known}"]'):
        if name != known:
            raise WrongValueError(f"{name!r} is nothing that the broker ends by force", f'["{known}"]')
    return frozenset({known}) if value else frozenset()


def _selectors(value: object) -> tuple[Selector, ...]:
    if not isinstance(value, list):
        raise WrongValueError("is no list of selectors", _SELECTORS)
    return tuple(_selector(each) for each in value)


def _selector(value: object) -> Selector:
    if not isinstance(value, dict) or not value or set(value) - {"kind", "host", "uuid"}:
        raise WrongValueError("a selector names a kind, a host or a uuid, or some of them", _SELECTORS)
    if not all(isinstance(each, str) and each for each in value.values()):
        raise WrongValueError("what a selector names is text", _SELECTORS)
    return Selector(**value)
