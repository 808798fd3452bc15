"""Alembic's part: how the tables came to be what they are, revision after revision."""

from __future__ import annotations
