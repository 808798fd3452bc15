"""Offering shares with KubeSpawner: profiles to choose from, and pods as the cluster's scheduler wants them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub.chaining import awaited, former_of
from jupyter_gpushare.hub.denial import deny
from jupyter_gpushare.hub.markup import safe
from jupyter_gpushare.hub.meaning import explain, headline
from jupyter_gpushare.hub.offers import SHARE_OPTION, NotOfferedError
from jupyter_gpushare.schedulers.pod_changes import containers_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.hub.offers import Offers
    from jupyter_gpushare.schedulers import Scheduler
    from jupyter_gpushare.schedulers.pod_changes import PodChanges

__all__ = ["add_share_option", "make_profiles", "wrap_modify_pod"]

#: The container in which KubeSpawner runs the server.
_CONTAINER: Final = "notebook"

Profile = dict[str, Any]


def make_profiles(offers: Offers, scheduler: Scheduler) -> list[Profile]:
    """One profile for each share, for a hub that has none of its own."""
    return [
        {
            "slug": str(share),
            "display_name": safe(headline(share)),
            "description": safe(explain(share, scheduler)),
            "default": share == offers.default,
        }
        for share in offers.shares
    ]


def add_share_option(offers: Offers, former: Any) -> Any:
    """The admin's own profiles, *former*, each with a choice of shares. A list, a dict or a callable stays one."""
    if callable(former):

        async def profile_list(spawner: Any) -> Any:
            return _with_option(offers, await awaited(former(spawner)))

        return profile_list
    return _with_option(offers, former)


def wrap_modify_pod(
    offers: Offers, scheduler: Scheduler, project: Any, priority: str, former: Any
) -> Callable[[Any, Any], Awaitable[Any]]:
    """A hook that lets *former* change the pod, then has *scheduler* book the user's share and nothing else."""

    async def modify_pod(spawner: Any, pod: Any) -> Any:
        if (before := former_of(former, spawner, "modify_pod_hook")) is not None:
            pod = await awaited(before(spawner, pod))
        try:
            share = offers.choose_some(spawner.user_options)
        except NotOfferedError as error:
            raise deny(error.message, spawner) from None
        team = await awaited(project(spawner)) if callable(project) else project
        changes = scheduler.render(share, project=team, priority=priority, container=_CONTAINER)
        _apply(changes, pod, spawner.api.api_client.sanitize_for_serialization(pod))
        return pod

    return modify_pod


def _with_option(offers: Offers, profiles: Any) -> Any:
    changed = copy.deepcopy(profiles)
    for profile in changed.values() if isinstance(changed, dict) else changed:
        options = profile.setdefault("profile_options", {})
        if SHARE_OPTION in options:
            raise ValueError(f"profile_list: an option {SHARE_OPTION!r} is there already; give yours another name")
        options[SHARE_OPTION] = {"display_name": "GPU share", "choices": _choices(offers)}
    return changed


def _choices(offers: Offers) -> dict[str, Any]:
    return {
        str(share): {"display_name": safe(headline(share)), "default": share == offers.default}
        for share in offers.shares
    }


def _apply(changes: PodChanges, pod: Any, manifest: dict[str, Any]) -> None:
    """Bring the Kubernetes client's object *pod* to what *changes* make of its *manifest*."""
    after = changes.apply(manifest)
    pod.metadata.annotations = after["metadata"].get("annotations")
    pod.metadata.labels = after["metadata"].get("labels")
    spec = after["spec"]
    pod.spec.node_selector = spec.get("nodeSelector")
    pod.spec.scheduler_name = spec.get("schedulerName")
    pod.spec.priority_class_name = spec.get("priorityClassName")
    pod.spec.priority = spec.get("priority")
    models = [*pod.spec.containers, *(pod.spec.init_containers or [])]
    for model, plain in zip(models, containers_of(after), strict=True):
        _apply_container(model, plain)


def _apply_container(model: Any, plain: dict[str, Any]) -> None:
    # As plain values, which the client sends as they are: an admin's own containers hold such too.
    model.resources = plain.get("resources")
    model.env = plain.get("env")
