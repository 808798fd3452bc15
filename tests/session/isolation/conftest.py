"""The modes alone: no server runs here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server."""
