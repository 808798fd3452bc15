"""No isolation: people keep to their share by agreement, and what they hold is shown."""

from __future__ import annotations

from jupyter_gpushare.session.isolation.mode import Isolation

__all__ = ["NoIsolation"]


class NoIsolation(Isolation):
    """Nothing is enforced."""

    name = "none"
    memory = "not held to the share; shown to everybody"
    compute = "shared: the driver gives each process equal time"
    notes = "For people who trust each other."
