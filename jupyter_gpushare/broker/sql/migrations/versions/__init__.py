"""One module for each revision. A published one never changes.

A batch that alters ``audit`` in SQLite makes the table anew: its triggers must be made anew with it.
"""

from __future__ import annotations
