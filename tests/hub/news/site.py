"""A broker with one session that runs, a receiver, and news from the one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from prometheus_client.parser import text_string_to_metric_families

from jupyter_gpushare.broker.admin_wire import ApplyRequest
from jupyter_gpushare.hub.news import NewsService
from jupyter_gpushare.hub.news.courier import Pauses
from jupyter_gpushare.rules.event import LossAnnounced
from jupyter_gpushare.rules.loss import Loss
from tests.broker.service.bench import Bench
from tests.hub.news.receiver import SECRET, Receiver

if TYPE_CHECKING:
    from pathlib import Path

    from msgspec import UnsetType

    from jupyter_gpushare.broker.client import Holding
    from jupyter_gpushare.rules.lease import Lease

_POLICY = '[projects.default]\nquota = "unlimited"\n[pools.default]\nidle_timeout = "10m"\n'


class NewsSite:
    """Everything that a story about news needs.

    Attributes:
        bench: the broker and its holders.
        receiver: who is told.
        session: the holding of a session that runs.
        kept: the leases whose owners keep their shares.
        asked: how often that was asked.
        parks_at: when a lease's own session will have it parked, where it says so.
        looked: how often that was asked.
    """

    def __init__(self, directory: Path) -> None:
        self.bench = Bench(directory)
        self.secret = directory / "secret"
        self.receivers: list[Receiver] = []
        self.news: NewsService | None = None
        self.kept: set[str] = set()
        self.asked = 0
        self.parks_at: dict[str, float | None] = {}
        self.looked = 0

    @property
    def receiver(self) -> Receiver:
        """The first one."""
        return self.receivers[0]

    async def start(self) -> None:
        """Start the broker and the news."""
        self.receivers.append(Receiver())
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        await self.bench.start()
        await self.configure(self.hook())
        await self.follow()
        self.session: Holding = await self.bench.running()

    async def follow(self) -> None:
        """Tell the news."""
        self.news = NewsService(
            self.bench.broker,
            is_kept=self._is_kept,
            parks_at=self._parks_at,
            pauses=Pauses(0.01, 0.05),
            look_every_s=0.05,
        )
        self.news.start()

    def _parks_at(self, lease: Lease) -> float | UnsetType | None:
        self.looked += 1
        return self.parks_at.get(lease.id, UNSET)

    def _is_kept(self, lease: Lease) -> bool:
        self.asked += 1
        return lease.id in self.kept

    async def restart(self) -> None:
        """The broker stops and starts again, on the same books."""
        await self.stop_following()
        await self.bench.stop()
        await self.bench.start()
        await self.follow()

    async def stop_following(self) -> None:
        """Tell no more."""
        if self.news is not None:
            await self.news.stop()
            self.news = None

    def hook(self, name: str = "chat", url: str = "", events: str = "") -> str:
        """A part of the admin's file."""
        more = f"events = {events}\n" if events else ""
        return f'[news.{name}]\nurl = "{url or self.receiver.url}"\nsecret_file = "{self.secret}"\n{more}'

    async def configure(self, *hooks: str) -> None:
        """Put these hooks in force."""
        await self.bench.client.request("POST", "apply", ApplyRequest("\n".join([_POLICY, *hooks])))

    async def lose(self, processes: str = "one.ipynb") -> None:
        """A loss is announced."""
        assert self.session.lease is not None
        loss = LossAnnounced(self.session.lease.id, Loss.OVERRUN_OF_ITS_OWN, processes)
        await self.bench.broker.reconciler.submit([loss])

    def figures(self, name: str) -> dict[tuple[str, ...], float]:
        """A figure's values by its labels in their alphabetical order, on the broker's page."""
        page = self.bench.broker.metrics.page()[1].decode()
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name
        }

    async def close(self) -> None:
        """End everything."""
        await self.stop_following()
        await self.bench.close()
        for receiver in self.receivers:
            await receiver.close()
