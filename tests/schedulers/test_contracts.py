"""What each scheduler demands of a pod, rule by rule, as its own project documents it."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.schedulers import HamiScheduler, KaiScheduler, NvidiaScheduler
from jupyter_gpushare.schedulers.scheduler import BookingError, Compute, HandBack, MemoryIsolation
from jupyter_gpushare.share import Share

from .clusters import CLUSTERS, PRODUCTS, bare_pod


def annotations_for(cluster: str, share: str) -> dict[str, str]:
    """The annotations of a pod with *share*."""
    return dict(CLUSTERS[cluster].render(Share.parse(share)).annotations)


def refusal(cluster: str, share: str) -> tuple[str, str]:
    """The code of the reason, and the nearest share."""
    refused = CLUSTERS[cluster].can_express(Share.parse(share))
    assert refused is not None
    return refused.reason.code, str(refused.nearest)


def pod_with(annotations: dict[str, str] | None = None, limits: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod that somebody else has written."""
    pod = bare_pod()
    pod["metadata"]["annotations"] = annotations or {}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits or {}}
    return pod


def test_kai_fraction() -> None:
    """KAI gets the fraction, the container it is for, and the number of devices when there are several."""
    assert annotations_for("kai", "2x0.25") == {
        "gpu-fraction": "0.25",
        "gpu-fraction-container-name": "notebook",
        "gpu-fraction-num-devices": "2",
    }


def test_kai_memory_has_no_unit() -> None:
    """KAI's memory is a bare number of MiB, and never stands beside a fraction."""
    annotations = annotations_for("kai", "16GiB")
    assert annotations["gpu-memory"] == "16384"
    assert "gpu-fraction" not in annotations


def test_kai_priority_is_explicit() -> None:
    """A bare pod would count as preemptible training, so a notebook's pod always names a priority."""
    changes = KaiScheduler().render(Share.parse("0.5"), project="team-a")
    assert changes.priority_class_name == "build"
    assert changes.labels == {"kai.scheduler/queue": "team-a"}
    assert changes.scheduler_name == "kai-scheduler"
    assert KaiScheduler().render(Share.parse("0.5"), priority="train").priority_class_name == "train"


def test_kai_burst_needs_fractions_mode() -> None:
    """Only NvFractions knows a limit above the request; elsewhere the burst is refused, the request kept."""
    assert refusal("kai", "0.25..0.8") == ("NO_BURST", "0.25")
    assert annotations_for("kai-fractions", "0.25..0.8") == {
        "gpu-fraction": "0.25",
        "gpu-fraction-container-name": "notebook",
        "kai.scheduler/container.notebook.gpu-memory.portion.limit": "0.8",
    }
    assert annotations_for("kai-fractions", "4GiB..12GiB") == {
        "gpu-memory": "4096",
        "gpu-fraction-container-name": "notebook",
        "nvidia.com/container.notebook.gpu-memory.limit": "12288Mi",
    }


def test_kai_limit_stays_below_one() -> None:
    """KAI refuses a limit of a whole GPU, so the nearest is just below it."""
    assert refusal("kai-fractions", "0.5..1") == ("LIMIT_TOO_HIGH", "0.5..0.99999")


def test_kai_reads_the_forms_that_others_write() -> None:
    """The short and the per-container forms, and a bound pod with the binder's own limit, are all understood."""
    kai = CLUSTERS["kai-fractions"]
    assert str(kai.read(pod_with({"gpu-fraction": "0.25", "gpu-fraction.limit": "0.8"}))) == "0.25..0.8"
    long_form = {
        "nvidia.com/container.c.gpu-memory.request": "4Gi",
        "nvidia.com/container.c.gpu-memory.limit": "12Gi",
    }
    assert str(kai.read(pod_with(long_form))) == "4GiB..12GiB"
    bound = {"gpu-fraction": "0.5", "nvidia.com/container.c.gpu-memory.limit": "20480Mi"}
    assert str(kai.read(pod_with(bound))) == "0.5"


def test_kai_refuses_contradictions() -> None:
    """A pod that books both a fraction and memory is an error with both names, not one of them by chance."""
    with pytest.raises(BookingError, match="gpu-fraction and gpu-memory"):
        CLUSTERS["kai"].read(pod_with({"gpu-fraction": "0.5", "gpu-memory": "4096"}))
    with pytest.raises(BookingError, match="limit"):
        CLUSTERS["kai"].read(pod_with({"gpu-fraction": "0.5", "gpu-fraction.limit": "0.4"}))


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"version": "latest"}, "version"),
        ({"version": "0.17", "sharing_mode": "NvFractions"}, "sharing_mode"),
        ({"kinds": {"a100": "X", "h100": "X"}}, "kinds"),
    ],
)
def test_kai_set_up_wrongly(arguments: dict[str, Any], wrong: str) -> None:
    """A set-up that cannot be is refused at once, by the name of the argument."""
    with pytest.raises(ValueError, match=f"^{wrong}:"):
        KaiScheduler(**arguments)


def test_hami_limits() -> None:
    """HAMi gets whole per cents or whole MiB beside the number of devices, and nothing but the number for whole GPUs."""
    hami = CLUSTERS["hami"]
    assert hami.render(Share.parse("2x0.5")).limits == {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50}
    assert hami.render(Share.parse("16GiB")).limits == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 16384}
    assert hami.render(Share.parse("2")).limits == {"nvidia.com/gpu": 2}


def test_hami_compute_only_on_demand() -> None:
    """Compute is throttled where the admin wants it, and otherwise said to be shared."""
    share = Share.parse("0.5")
    assert CLUSTERS["hami-cores"].render(share).limits["nvidia.com/gpucores"] == 50
    assert CLUSTERS["hami-cores"].isolation(share).compute is Compute.ENFORCED
    assert "nvidia.com/gpucores" not in CLUSTERS["hami"].render(share).limits
    assert CLUSTERS["hami"].isolation(share).compute is Compute.SHARED


def test_hami_scheduler_is_named() -> None:
    """HAMi leaves pods alone that name another scheduler, as JupyterHub's chart makes them do."""
    assert CLUSTERS["hami"].render(Share.parse("0.5")).scheduler_name == "hami-scheduler"


def test_hami_kinds_that_contain_each_other() -> None:
    """HAMi searches for the text of a kind, so an A10 must not be given an A100."""
    assert annotations_for("hami", "0.5@a10") == {
        "nvidia.com/use-gputype": "A10",
        "nvidia.com/nouse-gputype": "A100",
    }
    assert annotations_for("hami", "0.5@a100") == {"nvidia.com/use-gputype": "A100"}


def test_hami_refuses_contradictions() -> None:
    """Per cent and MiB at once, or more than a hundred per cent, are errors that name the resource."""
    both = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100, "nvidia.com/gpumem-percentage": 50}
    with pytest.raises(BookingError, match="gpumem and"):
        CLUSTERS["hami"].read(pod_with(limits=both))
    with pytest.raises(BookingError, match="gpumem-percentage"):
        CLUSTERS["hami"].read(pod_with(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": "101"}))


def test_nvidia_parts_choose_their_nodes() -> None:
    """A part is one replica on a node that is cut into exactly so many parts, since the plugin's parts vary by node."""
    changes = CLUSTERS["nvidia-slices"].render(Share.parse("0.25@a100"))
    assert changes.limits == {"nvidia.com/gpu.shared": 1}
    assert changes.node_selector == {
        "nvidia.com/gpu.product": PRODUCTS["a100"],
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }


def test_nvidia_whole_gpu_avoids_parts_of_that_name() -> None:
    """Where a part is called nvidia.com/gpu too, a whole GPU is only had from a node that shares none."""
    changes = CLUSTERS["nvidia-mps"].render(Share.parse("1"))
    assert changes.node_selector == {"nvidia.com/gpu.sharing-strategy": "none"}
    assert not CLUSTERS["nvidia-slices"].render(Share.parse("1")).node_selector


def test_nvidia_refuses_several_replicas() -> None:
    """Two replicas may be of one device, so a pod with two is not read as any share."""
    with pytest.raises(BookingError, match=r"nvidia\.com/gpu\.shared"):
        CLUSTERS["nvidia-slices"].read(pod_with(limits={"nvidia.com/gpu.shared": 2}))


@pytest.mark.parametrize("arguments", [{"sharing": "mps"}, {"replicas": (2,)}, {"sharing": "mps", "replicas": (1,)}])
def test_nvidia_set_up_wrongly(arguments: dict[str, Any]) -> None:
    """Sharing without a number of parts, or the reverse, is refused by the name of the argument."""
    with pytest.raises(ValueError, match=r"^replicas:"):
        NvidiaScheduler(**arguments)


@pytest.mark.parametrize(
    ("cluster", "share", "code", "nearest"),
    [
        ("kai", "0.333333", "TOO_FINE", "0.34"),
        ("kai", "0.5@h100", "UNKNOWN_KIND", "0.5"),
        ("kai", "1.5MiB", "TOO_FINE", "2MiB"),
        ("kai-fractions", "0.25..0.812345", "TOO_FINE", "0.25..0.81234"),
        ("hami", "0.25..0.5", "NO_BURST", "0.25"),
        ("hami", "0.995", "TOO_FINE", "1"),
        ("nvidia", "0.5", "NO_FRACTION", "1"),
        ("nvidia", "16GiB@a100", "NO_MEMORY_AMOUNT", "1@a100"),
        ("nvidia-slices", "0.3", "NO_SUCH_FRACTION", "0.5"),
        ("nvidia-slices", "0.7", "NO_SUCH_FRACTION", "1"),
        ("nvidia-slices", "2x0.5", "ONE_DEVICE_ONLY", "2"),
    ],
)
def test_refusals(cluster: str, share: str, code: str, nearest: str) -> None:
    """What cannot be booked is refused with the reason that is true, and the nearest share above it."""
    assert refusal(cluster, share) == (code, nearest)


@pytest.mark.parametrize(
    ("cluster", "share", "memory", "compute"),
    [
        ("kai", "0.5", MemoryIsolation.NONE, Compute.SHARED),
        ("kai-fractions", "0.5", MemoryIsolation.PREVENTIVE, Compute.SHARED),
        ("hami", "0.5", MemoryIsolation.PREVENTIVE, Compute.SHARED),
        ("hami-cores", "16GiB", MemoryIsolation.PREVENTIVE, Compute.SHARED),
        ("nvidia-slices", "0.5", MemoryIsolation.NONE, Compute.SHARED),
        ("nvidia-mps", "0.5", MemoryIsolation.PREVENTIVE, Compute.ENFORCED),
        ("nvidia", "1", MemoryIsolation.HARDWARE, Compute.ENFORCED),
    ],
)
def test_isolation_is_not_overstated(cluster: str, share: str, memory: MemoryIsolation, compute: Compute) -> None:
    """People are told how well they are kept apart; saying more than the scheduler does would cost them data."""
    isolation = CLUSTERS[cluster].isolation(Share.parse(share))
    assert (isolation.memory, isolation.compute) == (memory, compute)


def test_hand_back_is_what_the_scheduler_has() -> None:
    """Only what lies above a request can go back while the pod runs; everything else means stopping it."""
    assert CLUSTERS["kai-fractions"].hand_back(Share.parse("0.1..0.8")) is HandBack.SMALL_REQUEST
    for cluster in CLUSTERS.values():
        assert cluster.hand_back(Share.parse("0.5")) is HandBack.STOP


@pytest.mark.parametrize("field", ["project", "priority"])
def test_names_are_checked(field: str) -> None:
    """A project or priority that Kubernetes would refuse is refused here, by its name."""
    with pytest.raises(ValueError, match=f"^{field}:"):
        HamiScheduler().render(Share.parse("0.5"), **{field: "Team A!"})
