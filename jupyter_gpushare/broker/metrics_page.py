"""The page docs/metrics.md, made from what is shown: ``python -m jupyter_gpushare.broker.metrics_page``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker import metrics_table as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_gpushare.broker.metrics_table import Figure

__all__ = ["page"]

_INTRODUCTION: Final = """\
# Metrics

For Prometheus. No label is ever the name of a person, of a notebook or of a server; projects, devices and hosts are
named. The names of figures are an interface: what is here is not renamed without a word in the changelog.

A dashboard for Grafana and alert rules, each with what to do, are in
[hub_config/monitoring](../hub_config/monitoring/README.md), which also says how Prometheus gets in.

This page is generated from `jupyter_gpushare/broker/metrics_table.py` by
`python -m jupyter_gpushare.broker.metrics_page`; a test compares the two, and another one compares the table with what
a broker and a hub really show.
"""
_BROKERS_OWN: Final = """\
At `/services/gpushare/api/v1/metrics`: on the socket of a machine's own broker for everybody there; below a hub's
address for its admins, and for services with the scope `custom:gpushare:read`. Projects are named, and a hub's people
see the names of their own alone."""
_SECTIONS: Final = (
    (
        "The broker",
        _BROKERS_OWN,
        table.BROKER,
    ),
    ("The hub's service", "On the same page, where the broker is a hub's service.", table.NEWS),
    ("The hub itself", "At `/hub/metrics`, beside JupyterHub's own.", table.HUB),
)
_SERVERS: Final = """\
## Notebook servers

Each has a page of its own at `/user/<name>/<server>/metrics`, about its own share, kernels and devices. Few scrape
those: what matters of them for all is in the broker's figures.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRODUCTION, *("\n".join(_section(*section)) for section in _SECTIONS), _SERVERS])


def _section(title: str, where: str, figures: Sequence[Figure]) -> Iterator[str]:
    yield from (f"## {title}", "", where, "", "| name | sort | labels | what it says |", "|---|---|---|---|")
    for figure in figures:
        labels = ", ".join(f"`{label}`" for label in figure.labels) or "none"
        text = f"{figure.text} ({figure.values})" if figure.values else figure.text
        yield f"| `{figure.documented}` | {figure.kind} | {labels} | {_tidy(text)} |"
    yield ""


def _tidy(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
