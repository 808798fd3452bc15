"""What a pod needs so that a scheduler books a share for it: a value, applied to plain pod manifests."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Pod", "PodChanges", "containers_of", "is_gpu_annotation", "is_gpu_resource"]

#: A pod manifest as the API server reads it: camelCase keys, plain values.
Pod = dict[str, Any]

# Every way we know of to book a GPU, whatever scheduler it is meant for. `nvidia.com/` alone would be too
# wide: network cards have resources under it too.
_GPU_RESOURCE: Final = re.compile(
    r"nvidia\.com/(?:gpu.*|mig-.*|priority)|amd\.com/gpu.*|gpu\.intel\.com/.*|volcano\.sh/vgpu-.*|aliyun\.com/gpu-.*"
)
_GPU_ANNOTATION: Final = re.compile(
    r"gpu-(?:fraction|memory)(?:[.-].*)?"
    r"|(?:nvidia\.com|kai\.scheduler)/container\..*\.gpu-memory\..*"
    r"|nvidia\.com/(?:no)?use-gputype"
)
# With these a container reaches past what was booked: other devices, or no cap on its own.
_BYPASSING_ENV: Final = frozenset(
    {"CUDA_DISABLE_CONTROL", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"},
)


def is_gpu_resource(name: str) -> bool:
    """Whether *name* is a resource that books a GPU or a part of one."""
    return _GPU_RESOURCE.fullmatch(name) is not None


def is_gpu_annotation(name: str) -> bool:
    """Whether *name* is an annotation that books a part of a GPU or chooses its kind."""
    return _GPU_ANNOTATION.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class PodChanges:
    """What to set in a pod. Everything else that books a GPU in it is removed: the share is all it gets.

    Attributes:
        container: the container that gets the GPU.
        limits: resource limits of that container. Extended resources need no requests: they default to these.
        annotations: of the pod.
        labels: of the pod.
        node_selector: merged into the pod's own.
        scheduler_name: the scheduler; the pod's own stays when empty.
        priority_class_name: the priority class; the pod's own stays when empty.
    """

    container: str
    limits: Mapping[str, int] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    priority_class_name: str = ""

    def apply(self, pod: Mapping[str, Any]) -> Pod:
        """Give *pod* with these changes; *pod* itself stays as it is.

        Raises:
            ValueError: the pod has no container of that name.
        """
        changed: Pod = copy.deepcopy(dict(pod))
        metadata = changed["metadata"] = changed.get("metadata") or {}
        spec = changed["spec"] = changed.get("spec") or {}
        _remove_bookings(changed)
        _merge(metadata, "annotations", self.annotations)
        _merge(metadata, "labels", self.labels)
        _merge(spec, "nodeSelector", self.node_selector)
        resources = self._find_container(changed).setdefault("resources", {})
        _merge(resources, "limits", {name: str(amount) for name, amount in self.limits.items()})
        if self.scheduler_name:
            spec["schedulerName"] = self.scheduler_name
        if self.priority_class_name:
            spec["priorityClassName"] = self.priority_class_name
            # Filled in by the API server from the former class; the two must not contradict each other.
            spec.pop("priority", None)
        return changed

    def _find_container(self, pod: Pod) -> dict[str, Any]:
        for container in containers_of(pod):
            if container.get("name") == self.container:
                return container
        names = ", ".join(str(container.get("name")) for container in containers_of(pod)) or "none"
        raise ValueError(f"container: the pod has none named {self.container!r}; it has: {names}")


def containers_of(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The containers of *pod*, those that only prepare it included."""
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or []
    yield from spec.get("initContainers") or []


def _remove_bookings(pod: Pod) -> None:
    _drop(pod["metadata"].get("annotations"), is_gpu_annotation)
    for container in containers_of(pod):
        resources = container["resources"] = container.get("resources") or {}
        _drop(resources.get("limits"), is_gpu_resource)
        _drop(resources.get("requests"), is_gpu_resource)
        if container.get("env"):
            container["env"] = [entry for entry in container["env"] if entry.get("name") not in _BYPASSING_ENV]


def _drop(values: dict[str, Any] | None, unwanted: Callable[[str], bool]) -> None:
    for name in [name for name in values or {} if unwanted(name)]:
        del values[name]  # type: ignore[union-attr]  # there are names only where there are values


def _merge(parent: dict[str, Any], key: str, values: Mapping[str, Any]) -> None:
    if values:
        parent[key] = {**(parent.get(key) or {}), **values}
