"""The page docs/configuration.md, made from what is read: ``python -m jupyter_gpushare.broker.configuration_page``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.cull_policy import Limits
from jupyter_gpushare.broker.news_configuration import EVENTS, NewsHook
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.capacity import Host
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import EVERYBODY, Project

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TABLES", "Key", "Table", "page"]

_INTRODUCTION: Final = """\
# gpushare.toml

Who may have how much of which GPUs, in one file. All of it is optional. Without a file everybody is a member of one
project, `default`, which may use every GPU, and all GPUs are in one pool, `default`.

```sh
jupyter gpushare apply --dry-run gpushare.toml    # says what it would change, and changes nothing
jupyter gpushare apply gpushare.toml
jupyter gpushare broker --config gpushare.toml    # or so: then the file alone decides, and `apply` is refused
```

After a change to a file that a broker was started with, send it `SIGHUP`. A file with a mistake changes nothing; each
mistake is named with its table, its key and how to write it. A quota or a machine that becomes smaller than what is in
use takes nothing away: nothing new begins until it fits again. An example with all of it is
[hub_config/gpushare.toml](../hub_config/gpushare.toml).

Amounts of GPU are numbers such as `2.5`, or `"unlimited"`. Times are `"90s"`, `"10m"`, `"1h30m"`, `"2d"`. Memory is
`"64GiB"`.

This page is generated from `jupyter_gpushare/broker/configuration.py` by
`python -m jupyter_gpushare.broker.configuration_page`; a test compares the two.
"""


_PARKING: Final = (
    '`"park"`; `"observe"`: people may park their own, nobody is asked to for others; `"off"`: every park is refused. '
    "A notebook server that is set to less keeps to that"
)
_ISOLATION: Final = (
    "how kernels that start are held to their share, at least: a server that is set to a later one of `none`, `caps`, "
    "`hami-core`, `mps`, `mig` keeps to that"
)
_TIMEOUT: Final = (
    "idle notebooks are parked after so long, where nobody says otherwise, and at the latest: kernel specs, notebooks "
    "and their owners can only shorten it"
)
_ITS_OWN: Final = "each server's own `c.GpuShare.{}`"
_RESUME: Final = '`"guaranteed"`: lent to training only. `"best-effort"`: to notebooks too, in turns, for classes'
_OFF: Final = "off"
_LOSSES: Final = "what a multi-user broker may end by force: a job that still runs when its grace is over"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: how it is written in an example that differs from the default, and what it means."""

    name: str
    example: str
    meaning: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One sort of table. *name* is the one of the example."""

    name: str
    meaning: str
    defaults: object
    keys: tuple[Key, ...]


TABLES: Final = (
    Table(
        "projects.team-a",
        "A team; everything in use counts against one project.",
        Project("team-a", Fraction.ZERO),
        (
            Key(
                "quota",
                "4",
                "GPUs that it always gets when it wants them; its notebooks never get more",
                "none: say it",
            ),
            Key("weight", "2", "its part of what is left over, against the weights of others", "its quota"),
            Key("limit", "8", "more than this it never has, whatever is free, lent GPUs included"),
            Key("person_limit", "1", "GPUs for all notebook servers of one person together"),
            Key("members", '["ana", "@team-a"]', "who may use it: people, and with `@` groups of the hub"),
            Key(
                "owners",
                '["cy", "@leads"]',
                "who sees its people, sets their limits and answers what they ask",
                "nobody",
            ),
        ),
    ),
    Table(
        "pools.class",
        "GPUs under one policy. A device is in the first pool that wants it; a pool that names none has the rest.",
        Pool("class"),
        (
            Key("devices", '[{ kind = "t4*", host = "lab-*" }]', "`kind`, `host`, `uuid`, as patterns", "the rest"),
            Key("parking", '"off"', _PARKING),
            Key("isolation", '"mps"', _ISOLATION, _ITS_OWN.format("isolation")),
            Key("resume", '"best-effort"', _RESUME),
            Key("oversubscribe", "5", "how many times over a GPU may be promised to notebooks, with `best-effort`"),
            Key("placement", '"spread"', '`"binpack"` fills one GPU after the other, `"spread"` uses all'),
            Key("consolidation", "true", "whether training inside its fair share may be moved to make a claim fit"),
            Key("minimum_turn", '"5m"', "how long what somebody got is left alone, except by a `guaranteed` resume"),
            Key("backoff", '"30s"', "least time between two turns' beginnings of a job; doubles with each one lost"),
            Key("grace", '"2m"', "what a job gets to save its work, if it does not say"),
            Key("lend_at_least", '"5m"', "how long a loan is thought to last; no job with a larger `--start-cost`"),
            Key("idle_timeout", '"20m"', _TIMEOUT, _ITS_OWN.format("idle_timeout_s")),
        ),
    ),
    Table(
        'hosts."gpu-*"',
        "Limits of one machine, or of all whose name fits the pattern; a machine's own name comes first.",
        Host("gpu-1"),
        (
            Key("parking_budget", '"256GiB"', "memory of the machine for all that is parked", "half of it"),
            Key("copies", "1", "how many are parked or resumed at once"),
            Key("saves", "8", "how many jobs save their work to disk at once"),
        ),
    ),
    Table(
        "broker",
        "The broker itself.",
        Configuration(),
        (
            Key(
                "admins",
                '["ana", "@gpu-admins"]',
                "people, and with `@` groups: the hub's with a hub, else the machine's",
                "root",
            ),
            Key("holder_grace", '"1m"', "without a connection for so long a notebook server or job is missing"),
            Key("person_connections", "64", "how many connections one person may have open, admins aside"),
            Key("person_claims", "100", "how many shares one person may hold or wait for, admins aside"),
            Key("keep_audit", '"400d"', "for how long lines of the audit are kept, a week at least", "for ever"),
            Key("losses", '["job_stopped_after_grace"]', _LOSSES, "none"),
        ),
    ),
    Table(
        "news.chat",
        "Who is told by a signed webhook what happens to whose share, where a hub runs the broker: [news](news.md).",
        NewsHook("chat"),
        (
            Key("url", '"https://chat.example.org/hooks/gpu"', "where the receiver listens", "none: say it"),
            Key(
                "secret_file",
                '"/etc/gpushare/chat.secret"',
                "the file with the secret that the receiver knows too, readable for the broker alone",
                "none: say it",
            ),
            Key("events", '["your_turn", "loss"]', f"of {', '.join(f'`{each}`' for each in EVENTS)}", "all of them"),
        ),
    ),
    Table(
        "culling",
        "What a hub's service does about servers that nobody uses: [culling](culling.md). All but parking ends what "
        'people have in their kernels, and is off until a limit is set; `"never"` takes one away again for a pool or '
        "profile.",
        Limits(),
        (
            Key("park_after", '"20m"', "an idle GPU is parked after so long, at the latest", _OFF),
            Key("end_kernels_after", '"4h"', "kernels that hold a GPU idle for so long are ended", _OFF),
            Key("end_parked_after", '"2d"', "kernels that have been parked for so long are ended", _OFF),
            Key("stop_after", '"12h"', "servers that nobody has used for so long are stopped", _OFF),
            Key("stop_parked_after", '"7d"', "the same for servers whose share is parked", _OFF),
            Key("max_age", '"30d"', "servers are stopped when they have run for so long, used or not", _OFF),
            Key("warning", '"15m"', "people are warned so long before, and may keep what is idle"),
            Key("check_every", '"2m"', "how often the service looks at all servers", '`"5m"`'),
            Key(
                "rounds",
                "false",
                "whether the service stops servers itself; `false` leaves that to another culler",
                "`true`",
            ),
            Key(
                "pools",
                '{ class = { stop_after = "1h" } }',
                "other limits for a pool, also as `[culling.pools.class]`",
                "none",
            ),
            Key(
                "profiles",
                '{ "0.25" = { max_age = "9d" } }',
                "other limits for what people choose, a share or KubeSpawner's profile, stronger than those of a pool",
                "none",
            ),
        ),
    ),
)
_MINUTE_S: Final = 60


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRODUCTION, *("".join(_section(table)) for table in TABLES)])


def _section(table: Table) -> Iterator[str]:
    yield f"## `[{table.name}]`\n\n{table.meaning}\n\n"
    yield "| key | default | for example | means |\n| --- | --- | --- | --- |\n"
    for key in table.keys:
        yield f"| `{key.name}` | {key.default or _default(table, key)} | `{key.example}` | {key.meaning} |\n"


def _default(table: Table, key: Key) -> str:
    seconds = getattr(table.defaults, f"{key.name}_s", None)
    return f"`{_written(getattr(table.defaults, key.name) if seconds is None else seconds)}`"


def _written(value: object) -> str:
    """As the file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f'"{value / _MINUTE_S:g}m"' if value >= _MINUTE_S else f'"{value:g}s"'
    if isinstance(value, frozenset):
        return f'["{EVERYBODY}"]'
    text = str(value)
    return text if text.replace(".", "").isdigit() else f'"{text}"'


if __name__ == "__main__":
    sys.stdout.write(page())
