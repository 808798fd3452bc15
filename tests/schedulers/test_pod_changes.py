"""Applying changes to a pod: the share is all the GPU it gets, and all else stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from jupyter_gpushare.share import Share

from .clusters import CLUSTERS, bare_pod


def greedy_pod() -> dict[str, Any]:
    """A pod that somebody's profile, hook or image has already given GPUs in every way there is."""
    pod = bare_pod()
    pod["metadata"]["annotations"] = {
        "gpu-fraction": "0.9", "gpu-memory.limit": "9Gi", "nvidia.com/use-gputype": "H100",
        "nvidia.com/container.sidecar.gpu-memory.request": "40Gi",
        "kai.scheduler/container.sidecar.gpu-memory.portion.limit": "0.9", "team": "a",
    }  # fmt: skip
    for container in [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]:
        container["resources"] = {
            "limits": {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "1", "cpu": "2", "nvidia.com/hostdev": "1"},
            "requests": {"amd.com/gpu": "1", "memory": "1Gi"},
        }
        container["env"] = [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
            {"name": "HOME", "value": "/home/jovyan"},
        ]
    return pod


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_other_bookings_go(cluster: str) -> None:
    """Whatever GPUs a pod had before, in any container, only the share is left; a stale one would be free GPUs."""
    scheduler = CLUSTERS[cluster]
    share = Share.parse("1@a100")
    pod = scheduler.render(share).apply(greedy_pod())
    assert scheduler.read(pod) == share
    clean = scheduler.render(share).apply(bare_pod())
    assert pod["metadata"]["annotations"] == {**clean["metadata"].get("annotations", {}), "team": "a"}
    sidecar = pod["spec"]["containers"][1]
    assert sidecar["resources"] == {"limits": {"cpu": "2", "nvidia.com/hostdev": "1"}, "requests": {"memory": "1Gi"}}


def test_ways_around_the_share_go() -> None:
    """Variables that show other devices, or switch off a cap, do not survive; others do."""
    pod = CLUSTERS["hami"].render(Share.parse("0.5")).apply(greedy_pod())
    for container in pod["spec"]["containers"]:
        assert [entry["name"] for entry in container["env"]] == ["HOME"]


def test_given_pod_is_untouched() -> None:
    """Applying gives a new pod, so that a template can be used again for the next user."""
    pod = greedy_pod()
    before = copy.deepcopy(pod)
    CLUSTERS["kai"].render(Share.parse("0.5")).apply(pod)
    assert pod == before


def test_applying_twice_changes_nothing_more() -> None:
    """A hook that runs twice books once."""
    changes = CLUSTERS["kai"].render(Share.parse("0.5"), project="team-a")
    once = changes.apply(greedy_pod())
    assert changes.apply(once) == once


def test_admins_scheduler_stays_where_none_is_asked_for() -> None:
    """The device plugin works under any scheduler, so the pod keeps the one that the admin chose."""
    pod = bare_pod()
    pod["spec"]["schedulerName"] = "chart-user-scheduler"
    assert CLUSTERS["nvidia"].render(Share.parse("1")).apply(pod)["spec"]["schedulerName"] == "chart-user-scheduler"
    assert CLUSTERS["hami"].render(Share.parse("1")).apply(pod)["spec"]["schedulerName"] == "hami-scheduler"


def test_priority_number_of_another_class_goes() -> None:
    """A number left over from the former class would make the API server refuse the pod."""
    pod = bare_pod()
    pod["spec"].update(priority=10, priorityClassName="hub-default")
    spec = CLUSTERS["kai"].render(Share.parse("1")).apply(pod)["spec"]
    assert spec["priorityClassName"] == "build"
    assert "priority" not in spec


def test_missing_container_is_named() -> None:
    """A share for a container that is not there is an error that says which there are."""
    changes = CLUSTERS["kai"].render(Share.parse("1"), container="main")
    with pytest.raises(ValueError, match="'main'; it has: notebook, sidecar, init"):
        changes.apply(bare_pod())
