"""A real Prometheus takes our configuration, our rules and every query of the dashboard."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.hub.monitoring.running_prometheus import MONITORING, RunningPrometheus, program, running_prometheus
from tests.hub.monitoring.site import TOKEN, lively_site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.matrix

DASHBOARD = MONITORING / "grafana-dashboard.json"
#: What Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$project": ".*"}
#: Of what only a hub with receivers and a culler has.
ELSEWHERE = ("gpushare_news", "gpushare_culled")
RULES = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


def queries() -> list[tuple[str, str]]:
    """The panel and the query, of every query on the dashboard."""
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


def filled_in(expression: str) -> str:
    """A query as Grafana sends it."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_the_rules_and_their_tests_hold() -> None:
    """Promtool finds no mistake in the rules, and each fires when it should and not else."""
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [program("promtool"), *command], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_is_right(tmp_path: Path) -> None:
    """Promtool takes what we tell people to scrape, with the token where they have it."""
    text = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/", f"{tmp_path}/"))
    (tmp_path / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    (tmp_path / "gpushare.token").write_text(TOKEN)
    command = [program("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """Whoever is woken by it finds a summary, what it means, and a sentence on what helps; and promtool has tried it."""
    assert {"summary", "description", "runbook"} <= rule["annotations"].keys()
    assert rule["annotations"]["runbook"].rstrip().endswith((".", ")"))
    assert f'"{rule["alert"]}"' in (MONITORING / "alerts_test.yml").read_text(encoding="utf-8")


def test_a_real_prometheus_reads_all_of_it(short: Path) -> None:
    """It gets in with a token that may read, scrapes broker and hub, and answers every query and every rule."""

    async def story() -> None:
        async with lively_site(short) as site:
            loop = asyncio.get_running_loop()

            def lose() -> None:
                asyncio.run_coroutine_threadsafe(site.lose(), loop).result(60)

            await asyncio.to_thread(look, short, site.ports, lose)

    asyncio.run(story())


def look(directory: Path, ports: dict[str, int], lose: Callable[[], None]) -> None:
    """Have it scrape, and ask it."""
    with running_prometheus(directory, ports, TOKEN) as prometheus:
        # Rates need a few scrapes of each.
        prometheus.until(
            lambda: len(prometheus.series("count_over_time(up[1m]) >= 4 and up == 1")) == len(ports), "scrapes"
        )
        check_queries(prometheus)
        check_rules(prometheus)
        lose()
        prometheus.until(
            lambda: prometheus.series('ALERTS{alertname="GpuShareLoss", alertstate="firing"}'), "the alert"
        )
        assert prometheus.get("/api/v1/label/project/values") == ["default", "team-a"]


def check_queries(prometheus: RunningPrometheus) -> None:
    """Every query of the dashboard is right, and finds something where something has happened."""
    empty = []
    for panel, expression in queries():
        found = prometheus.series(filled_in(expression))
        if not found and not any(name in expression for name in ELSEWHERE):
            empty.append((panel, expression))
    assert empty == []


def check_rules(prometheus: RunningPrometheus) -> None:
    """Every rule is evaluated, without a mistake, and nothing is down."""
    rules = prometheus.until(lambda: evaluated(prometheus), "rules")
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in RULES}
    firing = {rule["name"] for rule in rules if rule["state"] != "inactive"}
    assert "GpuShareBrokerDown" not in firing


def evaluated(prometheus: RunningPrometheus) -> list[dict[str, Any]]:
    """All rules, once each was evaluated."""
    groups = prometheus.get("/api/v1/rules")["groups"]
    rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
    return rules if rules and all(rule["health"] == "ok" for rule in rules) else []


def test_a_token_that_may_not_read_gets_nothing(short: Path) -> None:
    """Figures of a hub's people are not for everybody: without the right token the target is down, and the alert rings."""

    async def story() -> None:
        async with lively_site(short) as site:
            await asyncio.to_thread(look_without, short, site.ports)

    asyncio.run(story())


def look_without(directory: Path, ports: dict[str, int]) -> None:
    """Have it scrape with a wrong token."""
    with running_prometheus(directory, ports, "a-wrong-token-0123456789abcdef") as prometheus:
        down = 'up{job="gpushare"} == 0'
        prometheus.until(lambda: prometheus.series(down), "a scrape")
        pending = 'ALERTS{alertname="GpuShareBrokerDown"}'
        prometheus.until(lambda: prometheus.series(pending), "the alert")
        targets = prometheus.get("/api/v1/targets")["activeTargets"]
        errors = {each["labels"]["job"]: each["lastError"] for each in targets}
        assert "401" in errors["gpushare"]
        assert not [each for each in prometheus.get("/api/v1/label/__name__/values") if each == "gpushare_gpus"]
