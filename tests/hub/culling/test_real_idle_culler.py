"""jupyterhub-idle-culler itself, with our hook: as a library over a small hub, and as the program that admins run."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.hub.culling.arbiter import make_arbiter
from jupyter_gpushare.hub.culling.hub_servers import HubServers
from jupyter_gpushare.hub.culling.rounds import Rounds
from tests.broker.service.bench import until

from .known import HOUR
from .small_hub import TOKEN, SmallHub
from .test_cullers import SHOULD_STOP, town

if TYPE_CHECKING:
    from pathlib import Path

    from .culling_town import CullingTown

# `make test-matrix` installs it.
pytestmark = pytest.mark.matrix


async def test_it_stops_whom_our_own_rounds_stop() -> None:
    """On the same hub and the same evidence the two cullers make the same decisions."""
    hub, known = town()
    with hub.serving():
        log = logging.getLogger("tests.culler")
        idle_culler = import_module("jupyterhub_idle_culler")
        await idle_culler.cull_idle(hub.url, TOKEN, int(HOUR), log, cull_arbiter=make_arbiter(lambda _: known))
        by_culler, hub.stopped = set(hub.stopped), []
        await Rounds(HubServers(hub.url, TOKEN), known).once()
    assert by_culler == set(hub.stopped) == SHOULD_STOP


def test_the_program_with_our_hook_in_its_configuration(play: Any, tmp_path: Path) -> None:
    """As the documentation says: two lines of configuration, an address, a token; a session that is used goes on."""
    (tmp_path / "idle_culler_config.py").write_text(
        "from jupyter_gpushare.hub.culling import gpu_cull_arbiter\n\nc.IdleCuller.cull_arbiter_hook = gpu_cull_arbiter\n"
    )

    async def story(town: CullingTown) -> None:
        ana, bo = await town.serve(), await town.serve("hub:bo/", "bo")
        for claim in (ana, bo):
            await town.outlook(claim.token, idle_s=9 * HOUR)
        town.clock.ahead_s = 700
        await town.outlook(ana.token, idle_s=9 * HOUR)
        await town.outlook(bo.token)  # a cell runs
        hub, now = SmallHub(), town.clock.now()
        for person in ("ana", "bo", "zoe"):
            hub.add(person, active=now - 9 * HOUR, started=now - 20 * HOUR)
        environ = os.environ | {
            "JUPYTERHUB_API_TOKEN": TOKEN,
            "GPUSHARE_BROKER": f"{town.url}/services/gpushare",
            "GPUSHARE_BROKER_TOKEN": "culler",
        }
        with hub.serving():
            command = [sys.executable, "-m", "jupyterhub_idle_culler", f"--url={hub.url}", "--timeout=3600"]
            culler = await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, env=environ, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                await until(lambda: len(hub.stopped) >= 2)
            finally:
                culler.send_signal(signal.SIGTERM)
                await culler.wait()
        assert sorted(hub.stopped) == ["ana/", "zoe/"]

    play(story)
