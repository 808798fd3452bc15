"""The clusters that the scheduler tests run against, each as an admin would set it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.schedulers import HamiScheduler, KaiScheduler, NvidiaScheduler

if TYPE_CHECKING:
    from jupyter_gpushare.schedulers import Scheduler

PRODUCTS = {"a100": "NVIDIA-A100-SXM4-40GB", "a10": "NVIDIA-A10"}
TYPES = {"a100": "A100", "a10": "A10"}

CLUSTERS: dict[str, Scheduler] = {
    "kai": KaiScheduler(kinds=PRODUCTS),
    "kai-fractions": KaiScheduler(version="0.18", sharing_mode="NvFractions", kinds=PRODUCTS),
    "hami": HamiScheduler(kinds=TYPES),
    "hami-cores": HamiScheduler(enforce_compute=True, kinds=TYPES),
    "nvidia": NvidiaScheduler(kinds=PRODUCTS),
    "nvidia-slices": NvidiaScheduler(sharing="time-slicing", replicas=(2, 4), kinds=PRODUCTS),
    "nvidia-mps": NvidiaScheduler(sharing="mps", replicas=(2, 3, 4), renamed=False, kinds=PRODUCTS),
}


def bare_pod() -> dict[str, Any]:
    """A pod that books no GPU, with a sidecar."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "nb"},
        "spec": {"containers": [{"name": "notebook"}, {"name": "sidecar"}], "initContainers": [{"name": "init"}]},
    }
