"""One round of one culler, in a process of its own; prints what it took."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from benchmarks.hub.culling.world import TIMEOUT_S
from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.hub.culling.arbiter import make_arbiter
from jupyter_gpushare.hub.culling.evidence_link import EvidenceLink
from jupyter_gpushare.hub.culling.hub_servers import HubServers
from jupyter_gpushare.hub.culling.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["ARMS", "HOOKED", "PLAIN", "ROUNDS"]

PLAIN: Final = "idle culler 2.0"
HOOKED: Final = "idle culler 2.0 with our hook"
ROUNDS: Final = "our own rounds"
ARMS: Final = (PLAIN, HOOKED, ROUNDS)
_culler: Final[Any] = importlib.import_module("jupyterhub_idle_culler")  # has no types


def _link(url: str) -> EvidenceLink:
    return EvidenceLink(BrokerClient(Endpoint.parse(url, "a-token")), TIMEOUT_S)


async def _idle_culler(url: str, arbiter: Callable[..., object]) -> None:
    """As its program calls it by default, its log at the usual level."""
    log = logging.getLogger("culler")
    await _culler.cull_idle(f"{url}/hub/api", "a-token", TIMEOUT_S, log, cull_arbiter=arbiter)


async def _rounds(url: str) -> None:
    await Rounds(HubServers(f"{url}/hub/api", "a-token"), _link(url)).once()


def _round_of(arm: str, url: str) -> Awaitable[None]:
    if arm == PLAIN:
        return _idle_culler(url, _culler.default_cull_arbiter)
    if arm == HOOKED:
        return _idle_culler(url, make_arbiter(lambda _: _link(url)))
    return _rounds(url)


async def _measured(arm: str, url: str) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    await _round_of(arm, url)
    return {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


def main() -> None:
    """Take the round and print its times as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("arm", choices=ARMS)
    parser.add_argument("url")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    print(json.dumps(asyncio.run(_measured(options.arm, options.url))))


if __name__ == "__main__":
    main()
