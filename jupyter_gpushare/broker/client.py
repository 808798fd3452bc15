"""How everybody else reaches the broker: sessions, jobs, commands, the hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.broker.client_endpoint import BROKER, HUB_SERVICE, TOKEN, Endpoint
from jupyter_gpushare.broker.client_errors import BrokerAway, BrokerError, NotAnEndpointError, refusal_of
from jupyter_gpushare.broker.client_holding import OVER, Holding, Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.broker.wire import ClaimModel, LeaseModel, ProcessModel

__all__ = [
    "BROKER",
    "HUB_SERVICE",
    "OVER",
    "TOKEN",
    "BrokerAway",
    "BrokerClient",
    "BrokerError",
    "Endpoint",
    "Holding",
    "NotAnEndpointError",
    "Pauses",
]

_LARGEST_ANSWER = 64 << 20
_ERROR = 400
_NO_ANSWER = 599
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class BrokerClient:
    """Asks one broker. Holds no connection itself, so there is nothing to close.

    Args:
        endpoint: where it is.
        deadline_s: how long a whole request may take.
        pauses: of the holdings' connections.
    """

    endpoint: Endpoint
    deadline_s: float = 10.0
    pauses: Pauses = field(default_factory=Pauses)

    async def request(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        type: type[_Answer] = dict,  # type: ignore[assignment]  # noqa: A002  # as msgspec names it
    ) -> _Answer:
        """Ask for *path*, such as ``projects`` or ``leases?project=team-a``; the answer as *type*.

        Raises:
            BrokerError: refused, with the reason; or an answer that makes no sense here.
            BrokerAway: nobody answers.
        """
        said = await self.fetch(method, path, body)
        try:
            return msgspec.json.decode(said or b"null", type=type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = f"The broker's answer makes no sense here ({error}). Do both use the same jupyter_gpushare?"
            raise BrokerError("NOT_UNDERSTOOD", text) from None

    async def fetch(self, method: str, path: str, body: msgspec.Struct | None = None) -> bytes:
        """As `request`, the answer as it came: for what is no JSON, such as ``metrics``."""
        endpoint = self.endpoint
        request = HTTPRequest(
            f"{endpoint.url}/{path.lstrip('/')}",
            method=method,
            headers={"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {},
            body=None if body is None else msgspec.json.encode(body),
            allow_nonstandard_methods=True,
            connect_timeout=self.deadline_s,
            request_timeout=self.deadline_s,
            follow_redirects=False,  # what is shown to the broker is shown to nobody else
        )
        if body is not None:
            request.headers["Content-Type"] = "application/json"
        client = SimpleAsyncHTTPClient(force_instance=True, resolver=endpoint.resolver(), max_body_size=_LARGEST_ANSWER)
        try:
            response = await client.fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise self._away(error) from None
        finally:
            client.close()
        if response.code >= _NO_ANSWER:
            raise self._away(response.error)
        if response.code >= _ERROR:
            raise refusal_of(response.code, response.reason, response.body)
        return response.body

    def hold(
        self,
        claim: ClaimModel,
        processes: Sequence[ProcessModel],
        *,
        on_lease: Callable[[LeaseModel], None] | None = None,
        on_change: Callable[[], None] | None = None,
        on_refused: Callable[[BrokerError], None] | None = None,
        is_resident: Callable[[], bool] | None = None,
    ) -> Holding:
        """Claim and hold a lease, from now until it is closed or over, through every reconnect.

        Args:
            claim: what is asked for.
            processes: whose memory it is.
            on_lease: called with the lease whenever the broker tells it.
            on_change: called when the connection came or went.
            on_refused: called with a refusal of what was wanted last, but for a share, where the asker hears it.
            is_resident: whether GPU memory of it is on a device now; as its lease says where nobody tells.
        """
        return Holding(
            self.endpoint,
            claim,
            processes,
            on_lease=on_lease,
            on_change=on_change,
            on_refused=on_refused,
            is_resident=is_resident,
            pauses=self.pauses,
        )

    def _away(self, error: BaseException | None) -> BrokerAway:
        return BrokerAway(f"the broker at {self.endpoint.label} does not answer: {error}")
