"""A hub that people reach without https is told so at its start, and no other hub is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from traitlets.config import Config

from jupyter_gpushare.hub import setup_gpushare

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = {"ssl_cert": "/etc/hub.crt", "ssl_key": "/etc/hub.key"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({}, "http://:8000"),
        ({"bind_url": "http://:8000"}, "http://:8000"),
        ({"bind_url": "http://0.0.0.0:80/hubs/"}, "http://0.0.0.0:80/hubs/"),
        ({"bind_url": "http://[::]:8000"}, "http://[::]:8000"),
        ({"ip": "192.0.2.1", "port": 80}, "http://192.0.2.1:80"),
        ({"bind_url": "http://127.0.0.1:8000", "public_url": "http://hub.test/"}, "http://hub.test/"),
        ({"subdomain_host": "http://hub.test"}, "http://hub.test"),
        ({"bind_url": "http://127.0.0.1:8000"}, ""),
        ({"bind_url": "http://localhost:8000"}, ""),
        ({"bind_url": "http://[::1]:8000"}, ""),
        ({"bind_url": "https://:8000"}, ""),
        ({"bind_url": "http://:8000", "public_url": "https://hub.test/"}, ""),
        ({"subdomain_host": "hub.test"}, ""),
        (CERTIFICATE, ""),
        (CERTIFICATE | {"bind_url": "http://:443"}, ""),
    ],
)
def test_an_address_without_https_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: dict[str, object], shown: str
) -> None:
    """Once, with the address and what to set; what only this machine reaches is no matter."""
    c = Config({"JupyterHub": said})
    with caplog.at_level(logging.WARNING):
        setup_gpushare(c, config=None, state=tmp_path / "state")
    lines = [each.getMessage() for each in caplog.records if "without https" in each.getMessage()]
    assert len(lines) == bool(shown)
    assert not shown or (f"at {shown}," in lines[0] and "c.JupyterHub.public_url" in lines[0])
