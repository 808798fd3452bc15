"""How everybody else reaches the broker: sessions, jobs, commands, the hub."""

from __future__ import annotations
