"""What Prometheus is shown is what the documentation says, and names nobody."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from jupyter_gpushare.broker import metrics_table as table
from jupyter_gpushare.broker.cull_policy import CullPolicy
from jupyter_gpushare.broker.metrics import Metrics
from jupyter_gpushare.broker.metrics_page import page
from jupyter_gpushare.hub.culling.announcing import LOSS_OF, InService
from jupyter_gpushare.hub.culling.verdict import Why
from jupyter_gpushare.hub.culling.wire import Stop
from jupyter_gpushare.hub.culling.witnesses import Witnesses
from jupyter_gpushare.hub.news.figures import NewsFigures
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.hub.monitoring.site import PRIVATE, lively_site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client.core import Metric

    from jupyter_gpushare.broker.metrics_table import Figure

ROOT = Path(__file__).parents[3]


def families(text: str) -> dict[str, Metric]:
    """Ours of those on a page, by name; the client library adds when each counter was made."""
    found = {each.name: each for each in text_string_to_metric_families(text)}
    return {name: each for name, each in found.items() if name.startswith("gpushare_") and "_created" not in name}


def values(family: Metric, label: str) -> dict[str, float]:
    """The values of a figure by one of its labels."""
    return {sample.labels[label]: sample.value for sample in family.samples if not sample.name.endswith("_created")}


def check(shown: dict[str, Metric], documented: Sequence[Figure]) -> None:
    """Every figure is there, is of its sort, and has its labels and no other."""
    for figure in documented:
        family = shown[figure.name]
        assert family.type == figure.kind, figure
        assert family.documentation == figure.text, figure
        assert family.samples, figure
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(figure.labels), sample


async def no_audit(_: object) -> None:
    """A server without a share is in no audit."""


def test_the_documentation_shows_the_figures() -> None:
    """docs/metrics.md is made from the code: python -m jupyter_gpushare.broker.metrics_page."""
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()


def test_a_broker_shows_what_is_documented_and_nothing_else(short: Path) -> None:
    """A dashboard can stand on the table; and nobody's name, and nothing that somebody typed, is on the page."""

    async def story() -> None:
        async with lively_site(short) as site:
            text = await site.page()
            shown = families(text)
            check(shown, table.BROKER)
            assert shown.keys() == {figure.name for figure in table.BROKER}
            assert not [name for name in PRIVATE if name in text]

    asyncio.run(story())


def test_a_hub_shows_what_is_documented(short: Path) -> None:
    """What became of starts is counted in the hub's process, which has a page of its own."""

    async def story() -> None:
        async with lively_site(short) as site:
            shown = families(await site.page("jupyterhub"))
            check(shown, table.HUB)
            outcomes = values(shown["gpushare_hub_starts"], "outcome")
            assert all(f"`{name}`" in table.STARTS.values for name in outcomes)

    asyncio.run(story())


def test_the_service_shows_what_is_documented() -> None:
    """News and culled servers are on the broker's page too, where a hub runs it."""
    metrics = Metrics()
    news = NewsFigures(metrics.registry)
    witnesses = Witnesses(lambda: EMPTY, lambda _books, _lease: "", lambda: 0.0, CullPolicy)
    culler = InService(witnesses, no_audit, metrics.registry)
    asyncio.run(culler.announce([Stop("zoe", "", Why.IDLE)]))
    news.sent("chat", "loss")
    news.failed("chat", "away")
    news.given_up("chat", "too_old")
    news.waiting("chat", 1)
    news.failing("chat", is_failing=True)
    shown = families(metrics.page()[1].decode())
    check(shown, table.NEWS)
    assert {why.value for why in LOSS_OF} == set(re.findall("`([A-Z_]+)`", table.CULLED.values))


def test_figures_say_what_happened(short: Path) -> None:
    """Who has what, who waits and why, what was refused and lost: the numbers are those of the story."""

    async def story() -> None:
        async with lively_site(short) as site:
            shown = families(await site.page())
            used = {
                (sample.labels["project"], sample.labels["use"]): sample.value
                for sample in shown["gpushare_project_gpus"].samples
            }
            assert used["default", "sessions"] == 1
            assert used["default", "lent"] == 1
            assert used["default", "training"] == 0
            quotas = values(shown["gpushare_project_quota_gpus"], "project")
            assert quotas == {"default": float("inf"), "team-a": 1}
            assert sum(sample.value for sample in shown["gpushare_waiting"].samples) == 1
            claims = {
                (sample.labels["kind"], sample.labels["outcome"]): sample.value
                for sample in shown["gpushare_claims"].samples
                if sample.name.endswith("_total")
            }
            assert claims == {
                ("interactive", "granted"): 1,
                ("interactive", "refused"): 1,
                ("training", "granted"): 1,
                ("training", "waited"): 1,
            }
            losses = values(shown["gpushare_announced_losses"], "loss")
            assert losses == {loss.value: float(loss is Loss.OVERRUN_OF_ITS_OWN) for loss in Loss}
            hours = values(shown["gpushare_gpu_hours"], "use")
            assert hours == {"held": 1.5, "handed_back": 0.5, "lent": 0.25, "computed": 0.125}
            assert values(shown["gpushare_parking_budget_bytes"], "host").popitem()[1] == 8 << 30
            refused = values(shown["gpushare_refusals"], "code")
            assert refused == {"EXCEEDS_PROJECT_QUOTA": 1}

    asyncio.run(story())


def test_a_waiting_claim_that_is_given_up_is_counted(short: Path) -> None:
    """Whoever stops waiting shows: a line in which nobody has patience is not an empty one."""

    async def story() -> None:
        async with lively_site(short) as site:
            leases = site.bench.broker.books.leases.values()
            waiting = next(lease for lease in leases if lease.name == "waits")
            await site.bench.client.request("DELETE", f"leases/{waiting.id}")
            shown = families(await site.page())
            outcomes = {
                sample.labels["outcome"]: sample.value
                for sample in shown["gpushare_claims"].samples
                if sample.name.endswith("_total") and sample.labels["kind"] == "training"
            }
            assert outcomes["given_up"] == 1
            assert not shown["gpushare_waiting"].samples

    asyncio.run(story())
