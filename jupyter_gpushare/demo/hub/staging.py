"""What stands on the demo hub's stage: its people, the policy of their teams, and where it all lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.demo.broker import DemoBroker
from jupyter_gpushare.demo.hub.plan import HubPlan, Person
from jupyter_gpushare.demo.processes import MARK
from jupyter_gpushare.demo.workspace import IDLE_S

if TYPE_CHECKING:
    from jupyter_gpushare.demo.hub.running import DemoHub
    from jupyter_gpushare.demo.hub.visitor import Visitor
    from jupyter_gpushare.demo.workspace import Workspace

__all__ = ["ADMIN", "ANA", "BO", "broker_of", "environment_of_job", "people", "plan_of", "two_teams"]

ANA: Final = "ana"
BO: Final = "bo"
ADMIN: Final = "cy"
_SHARES: Final = ("0.25", "0.5", "0.5..1", "1")
_KEPT: Final = ("PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "GPUSHARE_SIMULATED_MACHINE", MARK)
_POLICY: Final = """\
[broker]
admins = ["{admin}"]

[projects.team-a]
quota = {quota}
members = ["@team-a"]
owners = ["{ana}"]

[projects.team-b]
quota = {quota}
members = ["@team-b"]
owners = ["{bo}"]

[pools.default]
minimum_turn = "0s"
backoff = "1s"
grace = "30s"

[hosts."*"]
parking_budget = "128GiB"
"""


def people() -> tuple[Person, ...]:
    """Somebody of each of two teams, and an admin, with new passwords."""
    return Person(ANA, ("team-a",)), Person(BO, ("team-b",)), Person(ADMIN, is_admin=True)


def two_teams(quota: str) -> str:
    """A ``gpushare.toml`` that gives each team as much. A job that had to leave does not stand back for minutes."""
    return _POLICY.format(admin=ADMIN, ana=ANA, bo=BO, quota=quota)


def plan_of(  # noqa: D417  # the others are those of `HubPlan.make`
    workspace: Workspace,
    environment: dict[str, str],
    policy: str,
    *,
    idle_timeout_s: float | None = IDLE_S,
    who: tuple[Person, ...] | None = None,
    environment_more: dict[str, str] | None = None,
    setup: dict[str, Any] | None = None,
    **more: Any,
) -> HubPlan:
    """The plan of a hub in *workspace*.

    Args:
        workspace: where it lives.
        environment: what the demo's processes run in; some of it is for people's servers and for the service.
        policy: the text of ``gpushare.toml``.
        idle_timeout_s: when an idle notebook is parked; None for never by itself.
        who: its people; two and an admin by default.
        environment_more: what their servers have besides.
        setup: what `setup_gpushare` is told besides the usual.
    """
    file = workspace.root / "gpushare.toml"
    file.write_text(policy, encoding="utf-8")
    directory = workspace.root / "hub"
    directory.mkdir(exist_ok=True)
    kept: dict[str, str] = {name: environment[name] for name in _KEPT if name in environment}
    kept["JUPYTER_CONFIG_PATH"] = str(workspace.configure_hub(idle_timeout_s=idle_timeout_s))
    return HubPlan.make(
        directory,
        file,
        who or people(),
        environment=kept | (environment_more or {}),
        setup={"shares": list(_SHARES), "default": "0.5"} | (setup or {}),
        **more,
    )


async def broker_of(hub: DemoHub, visitor: Visitor) -> DemoBroker:
    """The hub's broker, asked in *visitor*'s name."""
    endpoint = Endpoint.parse(hub.url, visitor.token)
    return DemoBroker(hub.child, BrokerClient(endpoint), hub.deadline_s)


def environment_of_job(environment: dict[str, str], hub: DemoHub, visitor: Visitor) -> dict[str, str]:
    """What a job of *visitor*'s runs in: the hub's broker, and a token of theirs."""
    left = {name: value for name, value in environment.items() if name not in ("GPUSHARE_SHARE", "GPUSHARE_PROJECT")}
    return left | {"GPUSHARE_BROKER": hub.url, "GPUSHARE_BROKER_TOKEN": visitor.token}
