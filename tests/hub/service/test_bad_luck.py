"""A hub below a path, a ledger that is away, a broker that is taken over: pages go on, and say what is."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.rules.event import Wanted
from jupyter_gpushare.rules.lease import Target
from tests.broker.service.bench import until

from .bench import HUB_TOKEN, ServiceBench

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_gpushare.rules.change import Change

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


class Away(MemoryLedger):
    """A database that is gone while *is_away*."""

    is_away = False

    def commit(self, change: Change) -> None:
        """Keep it, if there is somewhere to."""
        self._check()
        super().commit(change)

    def audit(self, *arguments: Any, **more: Any) -> Any:
        """Read it, if there is something to read."""
        self._check()
        return super().audit(*arguments, **more)

    def usage(self, *arguments: Any, **more: Any) -> Any:
        """As above."""
        self._check()
        return super().usage(*arguments, **more)

    def _check(self) -> None:
        if self.is_away:
            raise LedgerError("the database does not answer; see whether it runs")


def test_a_database_that_is_gone_for_a_minute(bench: ServiceBench, play: Play) -> None:
    """Pages are there and say what is wrong, nothing is promised, and afterwards it all goes on."""
    ledger = Away(bench.books)
    bench.options["ledger"] = ledger
    bench.commit_s = 0.5

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        ana = bench.browser("ana")
        await ana.get("sessions")
        ledger.is_away = True
        bench.service.site.forget()
        token = bench.hub.token_of("root-admin", "tokens!user=root-admin")
        bench.service.broker.reconciler.tell(*touch(lease.id))
        await until(lambda: bench.service.broker.reconciler.trouble)
        for path in ("sessions", "overview", "project"):
            page = await ana.get(path)
            assert page.status == 200, page.text
            assert "does not answer" in page.text, path
        waiting = await ana.get(bench.wait_link())
        assert "not available now" in waiting.text
        said = await ana.post("actions/resume", follow=True, lease=lease.id)
        assert "promises nothing new" in said.text
        audit = await bench.fetch("GET", "audit.csv", {"Authorization": f"token {token}"})
        assert audit.status == 503
        ledger.is_away = False
        await until(lambda: bench.service.broker.reconciler.trouble is None)
        page = await ana.get("sessions")
        assert "does not answer" not in page.text

    play(story)


def touch(lease: str) -> list[Any]:
    """Something that has to be kept."""
    return [Wanted(lease, Target.PARKED)]


def test_a_hub_that_is_away_is_said_to_be(play: Play) -> None:
    """Whoever is not remembered sees a page with words; and no login that could not work."""

    async def story(bench: ServiceBench) -> None:
        ana = bench.browser("ana")
        await ana.get("sessions")
        later = bench.service.identity.monotonic() + 100
        bench.service.identity.monotonic = lambda: later
        await bench.hub.stop()
        page = await ana.get("sessions")
        assert page.status == 503
        assert "JupyterHub cannot be asked" in page.text
        bench.hub.start()
        assert (await ana.get("sessions")).status == 200

    play(story)


def test_a_hub_below_a_path() -> None:
    """Pages, forms, sockets and the interface are all below the hub's own path."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    bench = ServiceBench(directory, "/jupyter/services/gpushare/")

    async def story() -> None:
        try:
            await bench.start()
            lease = await bench.running("ana", "team-a")
            ana = bench.browser("ana")
            page = await ana.get("")
            assert page.url.endswith("/jupyter/services/gpushare/overview")
            assert 'href="/jupyter/hub/' in page.text
            page = await ana.post("actions/release", follow=True, lease=lease.id)
            assert page.url.endswith("/jupyter/services/gpushare/sessions")
            assert (await bench.ask("GET", "health")).status == 200
            token = bench.hub.token_of("ana", "custom:gpushare:read")
            assert (await bench.ask("GET", f"leases/{lease.id}", token)).status == 200
        finally:
            await bench.close()
            shutil.rmtree(directory)

    asyncio.run(story())


def test_who_logs_out_at_the_hub_is_logged_out_here(play: Play) -> None:
    """The hub's session is part of who one is: without it the hub is asked again, and knows the token no more."""

    async def story(bench: ServiceBench) -> None:
        ana = bench.browser("ana")
        ana.cookies["jupyterhub-session-id"] = "one"
        assert (await ana.get("sessions", follow=False)).status == 302
        assert (await ana.get("sessions")).status == 200
        bench.hub.tokens.clear()
        ana.cookies["jupyterhub-session-id"] = "two"
        assert (await ana.get("sessions", follow=False)).status == 302

    play(story)


def test_an_open_picker_is_told_how_things_stand(play: Play) -> None:
    """With the hub's signature and no sign-in; without it nothing."""

    async def story(bench: ServiceBench) -> None:
        link = PickerLink(person="ana", groups=[], shares=["0.5", "2"], made=bench.service.broker.clock.now())
        answer = await bench.fetch("GET", f"picker?{link.query(HUB_TOKEN)}", {})
        assert answer.status == 200
        assert [card["share"] for card in answer.json()["cards"]] == ["0.5", "2"]
        assert answer.headers["Access-Control-Allow-Origin"] == "*", "the hub's page may be of another origin"
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert (await bench.fetch("GET", f"picker?{link.query('x' * 40)}", {})).status == 403
        assert (await bench.fetch("GET", "picker", {})).status == 403
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await bench.fetch("POST", "picker", form, link.form(HUB_TOKEN))
        assert (answer.status, len(answer.json()["cards"])) == (200, 2), "the hub sends the same as a form"
        for body in (link.form("x" * 40), "", "for=%ff&sign=%ff"):
            assert (await bench.fetch("POST", "picker", form, body)).status in (400, 403)
        assert (await bench.fetch("POST", f"picker?{link.query(HUB_TOKEN)}", form, "")).status == 403

    play(story)


def test_a_service_that_is_stopped_goes_on_where_it_was(play: Play) -> None:
    """After a restart the same browser is signed in, and the claims of before are there."""

    async def story(bench: ServiceBench) -> None:
        ana = bench.browser("ana")
        await ana.get(bench.wait_link())
        before = set(bench.service.broker.books.leases)
        await bench.stop()
        await bench.start()
        assert set(bench.service.broker.books.leases) == before
        assert len(before) == 1
        assert (await ana.get("sessions", follow=False)).status == 200

    play(story)
