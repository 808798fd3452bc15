"""The pods that three shares become on three schedulers, whole, as files that people can read.

After a wanted change: GPUSHARE_REWRITE_GOLDEN=1 pytest tests/hub/test_golden_manifests.py, and read the diff.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from traitlets.config import Config

from jupyter_gpushare.hub import setup_gpushare
from jupyter_gpushare.schedulers import HamiScheduler, KaiScheduler, NvidiaScheduler
from jupyter_gpushare.share import Share

from .offline_kubespawner import spawn_pod

if TYPE_CHECKING:
    from jupyter_gpushare.schedulers import Scheduler

GOLDEN = Path(__file__).parents[1] / "schedulers" / "golden"
PRODUCTS = {"a100": "NVIDIA-A100-SXM4-40GB", "a10": "NVIDIA-A10"}
SCHEDULERS: dict[str, Scheduler] = {
    "kai": KaiScheduler(kinds=PRODUCTS),
    "hami": HamiScheduler(kinds={"a100": "A100", "a10": "A10"}),
    "nvidia": NvidiaScheduler(sharing="time-slicing", replicas=(2, 4), kinds=PRODUCTS),
    "kai-fractions": KaiScheduler(version="0.18", sharing_mode="NvFractions", kinds=PRODUCTS),
}
THREE_BY_THREE = [(cluster, share) for cluster in ("kai", "hami", "nvidia") for share in ("0.5", "0.25@a100", "2")]
ONLY_SOME = [("kai-fractions", "0.25..0.8"), ("kai-fractions", "8GiB..24GiB"), ("kai", "16GiB"), ("hami", "2x0.5@a10")]


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(("cluster", "share"), THREE_BY_THREE + ONLY_SOME)
def test_manifest(cluster: str, share: str) -> None:
    """What reaches the cluster changes only on purpose, and is read back as the share that was picked."""
    scheduler = SCHEDULERS[cluster]
    c = Config()
    setup_gpushare(c, shares=["1", share], scheduler=scheduler, project="team-a")
    pod = spawn_pod(c, {"profile": share})
    assert scheduler.read(pod) == Share.parse(share)
    compare(GOLDEN / f"{cluster}-{share}.yaml", as_text(pod))


def as_text(pod: dict[str, Any]) -> str:
    """The manifest without what differs from version to version of the hub and is none of ours."""
    annotations = pod["metadata"]["annotations"]
    for name in [name for name in annotations if name.endswith("-version")]:
        del annotations[name]
    for container in pod["spec"]["containers"]:
        container["env"] = [entry for entry in container["env"] if entry["name"].startswith("GPUSHARE")]
        container["image"] = "the-image"
    return yaml.safe_dump(pod, sort_keys=True)


def compare(path: Path, text: str) -> None:
    """Fail with a diff when *text* is not what stands in *path*."""
    if os.environ.get("GPUSHARE_REWRITE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    golden = path.read_text().splitlines()
    diff = list(difflib.unified_diff(golden, text.splitlines(), path.name, "rendered now", lineterm=""))
    if diff:
        pytest.fail("\n".join(diff), pytrace=False)


def test_no_forgotten_files() -> None:
    """Each golden file belongs to a case, so that none stays behind that nothing compares."""
    assert {path.stem for path in GOLDEN.iterdir()} == {f"{c}-{s}" for c, s in THREE_BY_THREE + ONLY_SOME}
