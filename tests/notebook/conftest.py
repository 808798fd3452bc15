"""A server to talk to, a process without GPU frameworks, and waiting for what happens elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.notebook.fake_server import FakeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAMEWORKS = ("torch", "cupy", "jax", "jax._src.xla_bridge", "jupyter_gpushare.devices.simulated.cuda")


@pytest.fixture(autouse=True)
def _no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test imports the frameworks that it is about; other tests may have left some."""
    for name in FRAMEWORKS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("URL", "ID", "TOKEN"):
        monkeypatch.delenv(f"GPUSHARE_{'SERVER' if name == 'URL' else 'KERNEL'}_{name}", raising=False)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """The server that this process is a kernel of."""
    with FakeServer() as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


# No test here starts a Jupyter Server. The plugin's fixtures for one would run in every test, and close the
# event loop that Playwright occupies.


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """No event loop of the plugin's."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Nothing to clean up."""
