"""`render` and `read` are inverse, and a refusal always offers something that can be had."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.schedulers.scheduler import BookingError, ShareNotExpressibleError
from jupyter_gpushare.share import Share

from .clusters import CLUSTERS, bare_pod

# Coarse amounts are what schedulers book; fine ones are what they round or refuse.
fractions = st.one_of(
    st.integers(1, 100).map(lambda n: Fraction(n * 10_000)),
    st.integers(1, 1_000_000).map(Fraction),
    st.sampled_from([Fraction(1_000_000 // parts) for parts in (1, 2, 3, 4)]),
)
memories = st.one_of(
    st.integers(1, 200_000).map(lambda n: Memory(n << 20)),
    st.integers(1, 1 << 38).map(Memory),
)


@st.composite
def shares(draw: st.DrawFn) -> Share:
    """Any share at all, of kinds that a cluster has and of one that it has not."""
    amounts: st.SearchStrategy[Any] = draw(st.sampled_from([fractions, memories]))
    request, other = draw(amounts), draw(amounts)
    limit = max(request, other) if draw(st.booleans()) else request
    kind = draw(st.sampled_from(["", "a100", "a10", "h100"]))
    return Share(request, limit, draw(st.integers(1, 8)), kind)


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(share=shares())
def test_reading_gives_what_was_rendered(cluster: str, share: Share) -> None:
    """What a pod has booked is exactly the share it was rendered for: never more, never less."""
    scheduler = CLUSTERS[cluster]
    if scheduler.can_express(share) is None:
        pod = scheduler.render(share, project="team-a").apply(bare_pod())
        assert scheduler.read(pod) == share


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(share=shares())
def test_nearest_share_can_be_had(cluster: str, share: Share) -> None:
    """The share that a refusal offers instead can itself be booked, and differs from the refused one."""
    refusal = CLUSTERS[cluster].can_express(share)
    if refusal is not None:
        assert refusal.nearest != share
        assert CLUSTERS[cluster].can_express(refusal.nearest) is None


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(share=shares())
def test_nearest_share_covers_the_request(cluster: str, share: Share) -> None:
    """Rounding is in the user's favour: no request shrinks, and no limit grows past one that had to be kept."""
    refusal = CLUSTERS[cluster].can_express(share)
    if refusal is None:
        return
    nearest = refusal.nearest
    assert nearest.count == share.count
    asked: tuple[Any, Any] = (share.request, share.limit)
    got: tuple[Any, Any] = (nearest.request, nearest.limit)
    if type(got[0]) is type(asked[0]):
        assert got[0] >= asked[0]
        assert got[1] <= max(asked[1], got[0])
    else:
        assert nearest.is_whole


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(share=shares())
def test_refused_shares_are_not_rendered(cluster: str, share: Share) -> None:
    """A share that cannot be booked never becomes a pod, and the error names it and the nearest one."""
    scheduler = CLUSTERS[cluster]
    refusal = scheduler.can_express(share)
    if refusal is None:
        return
    with pytest.raises(ShareNotExpressibleError) as caught:
        scheduler.render(share)
    assert str(share) in str(caught.value)
    assert str(refusal.nearest) in str(caught.value)
    assert "{" not in refusal.reason.text


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(whole=st.integers(1, 8), kind=st.sampled_from(["", "a100", "a10"]))
def test_whole_gpus_are_always_had(cluster: str, whole: int, kind: str) -> None:
    """Every scheduler books whole GPUs, and books them as whole ones: no per cent, no annotation of a fraction."""
    scheduler = CLUSTERS[cluster]
    share = Share(Fraction.ONE, Fraction.ONE, whole, kind)
    changes = scheduler.render(share)
    assert dict(changes.limits) == {"nvidia.com/gpu": whole}
    assert not any("gpu-fraction" in name or "gpu-memory" in name for name in changes.annotations)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_pod_without_gpu_has_no_share(cluster: str) -> None:
    """A pod that books no GPU is read as that, not as a share of some default size."""
    assert CLUSTERS[cluster].read(bare_pod()) is None


texts = st.one_of(st.text(max_size=12), st.integers(-5, 10**12).map(str), st.sampled_from(["0.5", "NaN", "1e3", "4Gi"]))
KEYS = [
    "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction.limit", "nvidia.com/use-gputype",
    "kai.scheduler/container.notebook.gpu-memory.portion.limit", "nvidia.com/container.notebook.gpu-memory.limit",
    "nvidia.com/container.notebook.gpu-memory.request",
]  # fmt: skip
RESOURCES = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"]
LABELS = ["nvidia.com/gpu.product", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"]


@pytest.mark.parametrize("cluster", CLUSTERS)
@given(
    annotations=st.dictionaries(st.sampled_from(KEYS), texts),
    limits=st.dictionaries(st.sampled_from(RESOURCES), texts),
    selector=st.dictionaries(st.sampled_from(LABELS), texts),
)
def test_strangers_pods_are_read_or_refused(
    cluster: str, annotations: dict[str, str], limits: dict[str, str], selector: dict[str, str]
) -> None:
    """Whatever somebody wrote into a pod is read as a share, as none, or refused with the field: never a crash."""
    pod = bare_pod()
    pod["metadata"]["annotations"] = annotations
    pod["spec"]["nodeSelector"] = selector
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    try:
        share = CLUSTERS[cluster].read(pod)
    except BookingError:
        return
    assert share is None or Share.parse(str(share)) == share
