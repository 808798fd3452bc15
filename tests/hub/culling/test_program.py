"""``python -m jupyter_gpushare.hub.culling``: our own rounds as a service of the hub."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from tests.broker.service.bench import until

from .culling_town import HOUR, CullingTown
from .small_hub import TOKEN, SmallHub

OURS = ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN", "GPUSHARE_BROKER", "GPUSHARE_BROKER_TOKEN")


async def run(*options: str, **environ: str) -> tuple[int | None, str, str]:
    """Run it to its end: its exit status, and what it printed to either side."""
    program = await begin(*options, **environ)
    out, err = await program.communicate()
    return program.returncode, out.decode(), err.decode()


async def begin(*options: str, **environ: str) -> asyncio.subprocess.Process:
    """Run it."""
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jupyter_gpushare.hub.culling", *options, env={**kept, **environ}, **PIPES
    )


PIPES: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
HUB = {"JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api", "JUPYTERHUB_API_TOKEN": TOKEN}
SERVICE = {"GPUSHARE_BROKER": "http://127.0.0.1:9/services/gpushare"}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "JUPYTERHUB_API_URL is not set"),
        ({"JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api"}, "JUPYTERHUB_API_TOKEN is not set"),
        (HUB, "GPUSHARE_BROKER is not set: write the address"),
        ({**HUB, "GPUSHARE_BROKER": "nonsense"}, "GPUSHARE_BROKER: 'nonsense'"),
    ],
)
async def test_what_is_missing_is_named(environ: dict[str, str], words: str) -> None:
    """It says which variable to set, and exits with 1."""
    status, _, err = await run(**environ)
    assert status == 1
    assert words in err
    assert "Traceback" not in err


async def test_a_word_that_is_no_option() -> None:
    """It says so, and does nothing."""
    status, _, err = await run("twice", **HUB, **SERVICE)
    assert status == 1
    assert "'twice' is no option" in err


async def test_one_round_without_a_service_stops_nobody() -> None:
    """It says why, prints that nothing was seen, and is no failure: it is tried again with the next round."""
    status, out, err = await run("--once", **HUB, **SERVICE)
    assert (status, out.strip()) == (0, "")
    assert "Nobody is culled while it is not known which servers are in use" in err


def test_one_round_prints_what_it_saw(play: Any) -> None:
    """For an admin who wants to know what the limits would do now."""

    async def story(town: CullingTown) -> None:
        hub, now = SmallHub(), town.clock.now()
        hub.add("ana", active=now, started=now - HOUR)
        hub.add("zoe", active=now - 2 * HOUR, started=now - 3 * HOUR)
        with hub.serving():
            status, out, err = await run("--once", **given(town, hub))
        assert status == 0, err
        assert out.split() == ["1", "IDLE", "1", "NOT_YET", "stopped", "zoe/:", "IDLE"]
        assert hub.stopped == ["zoe/"]

    play(story)


def test_it_goes_on_until_it_is_ended(play: Any) -> None:
    """With a timeout of its own where the admin's file has none; ended as the hub ends its services."""

    async def story(town: CullingTown) -> None:
        town.policy = type(town.policy)(every_s=0.05)
        hub, now = SmallHub(), town.clock.now()
        hub.add("zoe", active=now - 2 * HOUR, started=now - 3 * HOUR)
        with hub.serving():
            program = await begin("--stop-after=3600", **given(town, hub))
            try:
                await until(lambda: len(hub.stopped) >= 2)
            finally:
                program.send_signal(signal.SIGINT)
                _, err = await program.communicate()
        assert "Traceback" not in err.decode()
        assert "Stopped the server '' of zoe: IDLE" in err.decode()

    play(story)


def given(town: CullingTown, hub: SmallHub) -> dict[str, str]:
    """What JupyterHub and an admin give it."""
    return {
        "JUPYTERHUB_API_URL": hub.url,
        "JUPYTERHUB_API_TOKEN": TOKEN,
        "GPUSHARE_BROKER": f"{town.url}/services/gpushare",
        "GPUSHARE_BROKER_TOKEN": "culler",
    }
