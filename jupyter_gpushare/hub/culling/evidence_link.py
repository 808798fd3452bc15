"""What is known of the servers' shares, asked of the service over REST: for a culler in a process of its own."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from jupyter_gpushare.broker.client import BROKER, TOKEN, BrokerAway, BrokerClient, BrokerError, Endpoint
from jupyter_gpushare.hub.culling.wire import EVIDENCE, LOSSES, MOST_STOPS, Evidence, LossesAnswer, LossesRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jupyter_gpushare.hub.culling.wire import Stop

__all__ = ["EvidenceLink", "NoServiceError"]

_LOG: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 30.0
_HUB_TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105  # a variable's name


class NoServiceError(LookupError):
    """Nothing says where the service is. Says what to set."""


@dataclass(slots=True)
class EvidenceLink:
    """One service, asked by one culler.

    Args:
        client: asks it.
        stop_after_s: after how long this culler stops a server where the admin's file does not say; None for never.
    """

    client: BrokerClient
    stop_after_s: float | None = None
    _is_away: bool = field(default=False, init=False)

    @classmethod
    def of(cls, environ: Mapping[str, str], stop_after_s: float | None = None) -> Self:
        """The service that *environ* names.

        Raises:
            NoServiceError: it names none.
            NotAnEndpointError: what it names is none.
        """
        address = environ.get(BROKER, "")
        if not address:
            raise NoServiceError(
                f"{BROKER} is not set: write the address of the hub's service gpushare, such as "
                "http://127.0.0.1:10203/services/gpushare"
            )
        token = environ.get(TOKEN, "") or environ.get(_HUB_TOKEN, "")
        return cls(BrokerClient(Endpoint.parse(address, token), deadline_s=_PATIENCE_S), stop_after_s)

    async def evidence(self) -> Evidence | None:
        """As `announcing.Source.evidence`; why there is none is logged once."""
        query = "" if self.stop_after_s is None else f"?stop_after={self.stop_after_s:.0f}"
        try:
            known = await self.client.request("GET", f"{EVIDENCE}{query}", type=Evidence)
        except (BrokerAway, BrokerError) as error:
            if not self._is_away:
                _LOG.warning("Nobody is culled while it is not known which servers are in use: %s", error)
            self._is_away = True
            return None
        self._is_away = False
        return known

    async def announce(self, stops: Sequence[Stop]) -> Mapping[Stop, str]:
        """As `announcing.Source.announce`: without an answer all of them go on."""
        go_on: dict[Stop, str] = {}
        for part in _in_parts(stops, MOST_STOPS):
            try:
                answer = await self.client.request("POST", LOSSES, LossesRequest(part), type=LossesAnswer)
            except (BrokerAway, BrokerError) as error:
                go_on |= dict.fromkeys(part, str(error))
            else:
                refused = {(each.person, each.server): each.reason for each in answer.go_on}
                go_on |= {
                    stop: refused[stop.person, stop.server] for stop in part if (stop.person, stop.server) in refused
                }
        return go_on


def _in_parts(stops: Sequence[Stop], most: int) -> Iterator[list[Stop]]:
    """*stops*, in parts of *most* at most."""
    for first in range(0, len(stops), most):
        yield list(stops[first : first + most])
