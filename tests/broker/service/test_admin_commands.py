"""`jupyter gpushare admin …` and `apply`, as an admin types them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from tests.broker.service.bench import SESSION, Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


async def typed(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    """What the command prints."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", *words]
    environ = bench.environ | {"GPUSHARE_BROKER": f"unix:{bench.settings.socket}", "COLUMNS": "160"}
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environ, timeout=60, check=False
    )


def test_an_admin_reads_the_audit_and_turns_the_switches(play: Play) -> None:
    """Each command does what the API does, prints tables for people and JSON for programs, and says no with a 1."""

    async def story(bench: Bench) -> None:
        session = await bench.running(msgspec.structs.replace(SESSION, share="1"))
        assert session.lease is not None
        reclaimed = await typed(bench, "admin", "reclaim", session.lease.id)
        assert "nothing of it is lost" in reclaimed.stdout
        assert session.lease.target == "parked"
        drained = await typed(bench, "admin", "drain", "--device", bench.device, "--json")
        assert json.loads(drained.stdout)["devices"][0]["condition"] == "draining"
        stopped = await typed(bench, "admin", "stop-parking")
        assert "--undo" in stopped.stdout
        assert bench.broker.books.is_parking_stopped
        audit = await typed(bench, "admin", "audit")
        assert "asked to park" in audit.stdout
        nobody = await typed(bench, "admin", "reclaim", "nobody")
        assert nobody.returncode == 1
        assert "no lease nobody" in nobody.stderr + nobody.stdout

    play(story)


def test_the_audits_newest_lines_are_shown(play: Play) -> None:
    """So many of the newest, the newest last; back from one line, and on from one."""

    async def numbers(bench: Bench, *words: str) -> list[int]:
        return [
            line["number"]
            for line in json.loads((await typed(bench, "admin", "audit", "--json", *words)).stdout)["entries"]
        ]

    async def story(bench: Bench) -> None:
        session = await bench.running(msgspec.structs.replace(SESSION, share="1"))
        assert session.lease is not None
        await typed(bench, "admin", "reclaim", session.lease.id)
        every = await numbers(bench)
        assert every == sorted(every)
        assert len(every) > 3
        assert await numbers(bench, "--limit", "2") == every[-2:]
        assert await numbers(bench, "--limit", "2", "--before", str(every[-1])) == every[-3:-1]
        assert await numbers(bench, "--limit", "2", "--after", str(every[0])) == every[1:3]

    play(story)


def test_a_configuration_is_shown_before_it_is_applied(play: Play) -> None:
    """A dry run lists changes and warnings; a wrong file is named line by line and changes nothing."""

    async def story(bench: Bench) -> None:
        path = bench.directory / "gpushare.toml"
        path.write_text('[projects.default]\nquota = "0.5"\n')
        dry = await typed(bench, "apply", "--dry-run", str(path))
        assert "quota" in dry.stdout
        assert bench.broker.books.projects["default"].quota.is_unlimited
        assert "It is in force." in (await typed(bench, "apply", str(path))).stdout
        assert str(bench.broker.books.projects["default"].quota) == "0.5"
        path.write_text('[projects.default]\nquota = "0.5"\n[culling]\nstop_after = "12h"\n')
        culled = await typed(bench, "apply", "--dry-run", str(path))
        assert "culling: stop_after never → 12h" in culled.stdout
        assert "what is only in their memory is lost" in culled.stdout
        assert bench.broker.configured.now.culling.stops_nothing
        assert "It is in force." in (await typed(bench, "apply", str(path))).stdout
        assert not bench.broker.configured.now.culling.stops_nothing
        assert "It changes nothing." in (await typed(bench, "apply", "--dry-run", str(path))).stdout
        path.write_text("[projects.default]\nquta = 1\n")
        wrong = await typed(bench, "apply", str(path))
        assert wrong.returncode == 1
        assert "quta" in wrong.stderr + wrong.stdout
        missing = await typed(bench, "apply", str(path) + "x")
        assert "cannot be read" in missing.stderr + missing.stdout

    play(story)
