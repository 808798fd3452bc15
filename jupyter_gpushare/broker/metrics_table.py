"""Every figure that Prometheus can read of us: its name, what its labels are, and where it is.

Names and labels are an interface: dashboards and alerts stand on them. No label is ever the name of a person, of a
notebook or of a server, and none is text that somebody typed: what a label can be is bounded by the admin's file, by
the machine, and by our own constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["BROKER", "HUB", "NEWS", "Figure"]

_WAITS: Final = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400)
_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: without what Prometheus adds to it (``_total``, ``_bucket``, ``_sum``, ``_count``).
        kind: what sort of figure.
        text: what it says, with its unit.
        labels: by what it is told apart.
        values: what its labels can be, for people, where the text does not say it.
        buckets: of a histogram.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    values: str = ""
    buckets: tuple[float, ...] = ()

    @property
    def documented(self) -> str:
        """The name to ask Prometheus for."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def family(self) -> Metric:
        """An empty family of it, for what is made when somebody scrapes."""
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        return make(self.name, self.text, labels=self.labels)


INFO: Final = Figure(
    "gpushare_broker_info", "gauge", "1, with the version that runs and whom it serves.", ("version", "mode")
)
STARTED: Final = Figure(
    "gpushare_broker_started_timestamp_seconds", "gauge", "When the broker started, in seconds since the epoch."
)
LEASES: Final = Figure(
    "gpushare_leases",
    "gauge",
    "Leases, by project, kind and status.",
    ("project", "kind", "status"),
    "`kind` is `interactive` or `training`; `status` as in `jupyter gpushare leases`",
)
HELD_CLAIMS: Final = Figure(
    "gpushare_held_claims",
    "gauge",
    "Claims that the hub holds for servers that have not said hello.",
    ("state",),
    "`waiting`, `granted` on a wait page, `starting`",
)
WAITING: Final = Figure(
    "gpushare_waiting",
    "gauge",
    "Claims in line, by kind and why they wait.",
    ("kind", "reason"),
    "`reason` is one of [the reasons](reasons.md)",
)
LONGEST_WAIT: Final = Figure(
    "gpushare_longest_wait_seconds",
    "gauge",
    "For how long the first in time has waited; 0 if none does.",
    ("kind",),
)
GPUS: Final = Figure(
    "gpushare_gpus",
    "gauge",
    "GPUs, by device and use.",
    ("device", "kind", "use"),
    "`held` by their owners, `parked`: promised to parked notebooks, `lent` of that, `foreign`, `free` of any promise",
)
DEVICES: Final = Figure(
    "gpushare_devices", "gauge", "Devices, by condition.", ("condition",), "`ready`, `draining`, `gone`"
)
OVER_COMMITTED: Final = Figure(
    "gpushare_devices_over_committed", "gauge", "Devices with more held than there is. 0 when all is well."
)
TRESPASSED: Final = Figure(
    "gpushare_devices_trespassed",
    "gauge",
    "Lent devices on which a program of no lease holds memory. 0 when all is well.",
)
PROJECT_GPUS: Final = Figure(
    "gpushare_project_gpus",
    "gauge",
    "GPUs that a project has, by use.",
    ("project", "use"),
    "`sessions` running or parked, `training`, `lent`: on loan, outside quota",
)
PROJECT_QUOTA: Final = Figure(
    "gpushare_project_quota_gpus", "gauge", "A project's quota in GPUs; +Inf without a bound.", ("project",)
)
PROJECT_FAIR_SHARE: Final = Figure(
    "gpushare_project_fair_share_gpus", "gauge", "GPUs that are a project's fair share now.", ("project",)
)
PROJECT_DEMAND: Final = Figure(
    "gpushare_project_demand_gpus", "gauge", "GPUs that a project has and waits for.", ("project",)
)
PARKED_BYTES: Final = Figure(
    "gpushare_parked_bytes", "gauge", "Host memory booked for parked state, in bytes.", ("host",)
)
PARKING_BUDGET: Final = Figure(
    "gpushare_parking_budget_bytes", "gauge", "Host memory that parked state may take; +Inf without a bound.", ("host",)
)
HOLDERS: Final = Figure("gpushare_holders", "gauge", "Notebook servers and jobs that are connected.")
PARKING_STOPPED: Final = Figure("gpushare_parking_stopped", "gauge", "1 while all parking is stopped.")
LEDGER_FAILING: Final = Figure("gpushare_ledger_failing", "gauge", "1 while the ledger cannot be used.")
LEDGER_FAILING_S: Final = Figure(
    "gpushare_ledger_failing_seconds", "gauge", "For how long the ledger has been failing; 0 while it does not."
)
UNKEPT: Final = Figure("gpushare_unkept_audit_lines", "gauge", "Lines of the audit that are decided and not kept yet.")

CLAIMS: Final = Figure(
    "gpushare_claims",
    "counter",
    "New claims of holders and of the hub, by outcome.",
    ("kind", "outcome", "reason"),
    "`granted` at once, `waited` and `refused` with the reason, `given_up` while it waited",
)
WAITS: Final = Figure(
    "gpushare_wait_seconds", "histogram", "Seconds from a claim to its grant.", ("kind",), buckets=_WAITS
)
RESUMES: Final = Figure(
    "gpushare_resume_wait_seconds",
    "histogram",
    "Seconds from wanting a parked share back to having room for it.",
    buckets=_WAITS,
)
GPU_HOURS: Final = Figure(
    "gpushare_gpu_hours",
    "counter",
    "GPU-hours since the broker started, up to the last minute.",
    ("project", "use"),
    "`held`, `handed_back` while parked, `lent`: used on loan, `computed` as holders say",
)
AUDIT_LINES: Final = Figure(
    "gpushare_audit_lines", "counter", "Lines of the audit, by what happened.", ("verb",), "as in the audit"
)
LOSSES: Final = Figure(
    "gpushare_announced_losses",
    "counter",
    "Endings of user state by us, announced to the audit, by kind.",
    ("loss",),
    "one of the kinds of loss; all of them are there from the start",
)
REQUESTS: Final = Figure(
    "gpushare_requests",
    "counter",
    "Requests that were answered, by route, verb and status.",
    ("route", "verb", "status"),
    "`route` as in the table of who may do what",
)
REFUSALS: Final = Figure(
    "gpushare_refusals",
    "counter",
    "Requests that were refused, by route and the code of the answer.",
    ("route", "code"),
    "`code` is a reason, or of an error's message",
)
DECISIONS: Final = Figure(
    "gpushare_decision_seconds", "histogram", "Seconds that the rules took for a step.", buckets=_FAST
)
COMMITS: Final = Figure(
    "gpushare_commit_seconds", "histogram", "Seconds that the ledger took for a commit.", buckets=_FAST
)

#: On the broker's own page, ``…/api/v1/metrics``.
BROKER: Final = (
    INFO,
    STARTED,
    LEASES,
    HELD_CLAIMS,
    WAITING,
    LONGEST_WAIT,
    WAITS,
    RESUMES,
    CLAIMS,
    GPUS,
    DEVICES,
    OVER_COMMITTED,
    TRESPASSED,
    PROJECT_GPUS,
    PROJECT_QUOTA,
    PROJECT_FAIR_SHARE,
    PROJECT_DEMAND,
    GPU_HOURS,
    PARKED_BYTES,
    PARKING_BUDGET,
    PARKING_STOPPED,
    LOSSES,
    AUDIT_LINES,
    UNKEPT,
    HOLDERS,
    LEDGER_FAILING,
    LEDGER_FAILING_S,
    DECISIONS,
    COMMITS,
    REQUESTS,
    REFUSALS,
)

NEWS_SENT: Final = Figure(
    "gpushare_news", "counter", "News that a receiver took, by hook and event.", ("hook", "event"), "as in `[news.…]`"
)
NEWS_FAILED: Final = Figure(
    "gpushare_news_failures",
    "counter",
    "Attempts to deliver news that failed, by hook and why.",
    ("hook", "why"),
    "`away`, `slow`, `redirected`, `refused`, `failing`",
)
NEWS_GIVEN_UP: Final = Figure(
    "gpushare_news_given_up",
    "counter",
    "News that no receiver ever took, by hook and why.",
    ("hook", "why"),
    "`too_old`, `refused`, `overflow`",
)
NEWS_WAITING: Final = Figure("gpushare_news_waiting", "gauge", "News that are not delivered yet, about.", ("hook",))
NEWS_FAILING: Final = Figure(
    "gpushare_news_failing", "gauge", "1 while a hook's secret or its receiver fails.", ("hook",)
)
CULLED: Final = Figure(
    "gpushare_culled_servers",
    "counter",
    "Servers that a culler stopped, by reason.",
    ("why",),
    "`IDLE`, `PARKED_TOO_LONG`, `TOO_OLD`",
)

#: On the same page where the broker is a hub's service.
NEWS: Final = (NEWS_SENT, NEWS_FAILED, NEWS_GIVEN_UP, NEWS_WAITING, NEWS_FAILING, CULLED)

STARTS: Final = Figure(
    "gpushare_hub_starts",
    "counter",
    "Starts of servers, by what became of them.",
    ("outcome",),
    "`granted`, `no_gpu`, `not_offered`, `refused`, `waits`, `wrong_set_up`, `not_ended`; while the broker was away "
    "`away_closed` and `away_open`",
)

#: On the hub's own page, ``/hub/metrics``, beside JupyterHub's.
HUB: Final = (STARTS,)
