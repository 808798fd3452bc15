"""Notebook servers without notebooks, of whatever version runs this: they hold leases, and do what these ask for.

``python light_sessions.py SOCKET PREFIX COUNT``. Commands come line by line, ``park 0 10``, ``resume 0 10``, ``states``
and ``end``; each is answered with one line of JSON. What it uses of us every version since 0.1 has.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.wire import ClaimModel

_SMALL = 1 << 20
_DOES = {"granted": "running", "resuming": "running", "parking": "released", "yielding": "released"}


class LightSession:
    """One of them."""

    def __init__(self, client: BrokerClient, name: str) -> None:
        claim = ClaimModel(key=name, kind="interactive", project="default", share="0.25", name=name, is_parkable=True)
        self.name = name
        self.history: list[str] = []
        self.is_lost = ""
        self.holding = client.hold(claim, [], on_lease=self._act, is_resident=self._is_resident)

    def _is_resident(self) -> bool:
        lease = self.holding.lease
        return lease is not None and lease.status in ("running", "parking")

    def _act(self, lease) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # any version's
        self.history.append(lease.status)
        if lease.status in ("ended", "failed"):
            self.is_lost = f"{lease.status} {lease.reason.code if lease.reason else ''}"
        elif lease.status in _DOES:
            self.holding.did(_DOES[lease.status], lease.epoch)  # type: ignore[arg-type]  # one of the two

    @property
    def state(self) -> str:
        """Where it is; empty while it is not connected."""
        lease = self.holding.lease
        return lease.status if lease is not None and self.holding.connected else ""


def told(sessions: list[LightSession]) -> None:
    """How they are."""
    lost = {each.name: each.is_lost for each in sessions if each.is_lost}
    states = {each.name: each.state for each in sessions}
    sys.stdout.write(json.dumps({"states": states, "counts": Counter(states.values()), "lost": lost}) + "\n")
    sys.stdout.flush()


async def main(socket: str, prefix: str, count: int) -> None:
    """Hold, and do as one is told."""
    client = BrokerClient(Endpoint.at_socket(socket), 30.0, Pauses(0.05, 0.25, 10.0))
    sessions = [LightSession(client, f"{prefix}-{number}") for number in range(count)]
    told(sessions)
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        for each in sessions[int(line[1]) : int(line[2])] if len(line) > 1 else []:
            each.holding.want("parked" if line[0] == "park" else "running", _SMALL if line[0] == "park" else 0)
        if line[0] == "end":
            await asyncio.gather(*(each.holding.end() for each in sessions))
        told(sessions)
    await asyncio.gather(*(each.holding.close() for each in sessions))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
