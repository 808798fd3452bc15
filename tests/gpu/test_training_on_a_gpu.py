"""``run`` with its training on a device: called back on each path, its losses are those of an undisturbed run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.training.conftest import ROOT, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gpu.rig import Rig

pytestmark = pytest.mark.timeout(900)

PATHS: dict[str, Literal["parking", "yielding"]] = {"safe_point": "parking", "sigterm": "yielding"}
TIMES = {"real": 20, "simulated": 3}
STEPS_BETWEEN = 8


@pytest.mark.parametrize("path", PATHS)
def test_losses_are_those_of_an_undisturbed_run(
    rig: Rig, path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    """Every step depends on every word that the step before left on the device, so nothing may be lost or changed."""
    for name, value in rig.environ().items():
        monkeypatch.setenv(name, value)
    times = TIMES[rig.kind]
    steps = (times + 1) * STEPS_BETWEEN

    def argv(losses: str) -> list[str]:
        files = [str(tmp_path / losses), str(tmp_path / f"{losses}-saved")]
        return [sys.executable, "-m", "tests.gpu.trainer", rig.own, str(rig.unit), str(steps), *files, path]

    async def story() -> list[float]:
        away: list[float] = []
        async with running(rig.folder, argv("losses"), device=rig.device.uuid, grace_s=60.0) as stage:
            broker = stage.broker
            broker.grant()
            for number in range(times):
                await stage.until(lambda seen=number: len(read(tmp_path / "losses")) > seen * STEPS_BETWEEN, "steps")
                if path == "safe_point":
                    await stage.until(lambda: bool(broker.is_parkable), "its safe points")
                began = time.monotonic()
                broker.call_back(PATHS[path], grace_s=60.0)
                await stage.until(lambda: broker.lease.status in ("parked", "queued"), "the release")
                away.append(time.monotonic() - began)
                assert rig.used() < rig.at_first + rig.unit // 2
                broker.resume() if path == "safe_point" else broker.grant()
                await stage.until(lambda: broker.lease.status == "running", "the way back")
            assert await stage.code == 0, stage.told
            assert stage.supervisor.restarts == (0 if path == "safe_point" else times)
        return away

    away = asyncio.run(story())
    subprocess.run(argv("undisturbed"), check=True, cwd=ROOT)
    assert read(tmp_path / "losses") == read(tmp_path / "undisturbed")
    assert len(set(read(tmp_path / "losses").values())) == steps
    record(f"training_{path}", {"times": times, "bytes": rig.unit, "release_s": sorted(away)[times // 2]})


def read(file: Path) -> dict[int, str]:
    """What the program wrote, by step."""
    return dict(json.loads(line) for line in file.read_text().splitlines()) if file.exists() else {}
