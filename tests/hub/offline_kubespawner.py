"""A real KubeSpawner without a cluster: it goes through its start up to the pod that it would create."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traitlets.config import Config

#: What it needs to start: a cluster that nobody ever talks to.
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {"token": "none"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}


def spawn_pod(
    c: Config, options: Mapping[str, Any], *, user: str = "ada.lovelace", groups: Sequence[Any] = ()
) -> dict[str, Any]:
    """The manifest of the pod that *user* gets for *options*."""
    return spawn_pods(c, [options], user=user, groups=groups)[0]


def spawn_pods(
    c: Config, options: Sequence[Mapping[str, Any]], *, user: str = "ada.lovelace", groups: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """The manifests of pods that one spawner, kept by the hub between starts, makes for *options* in turn."""

    async def spawn_all() -> list[dict[str, Any]]:
        spawner = _make_spawner(c, user, groups)
        try:
            return [await _spawn(spawner, each) for each in options]
        finally:
            await spawner.api.api_client.close()

    return asyncio.run(spawn_all())


def render_form(c: Config) -> str:
    """The spawn form as KubeSpawner renders it."""

    async def render() -> str:
        spawner = _make_spawner(c, "ada", ())
        try:
            form: str = await spawner.get_options_form()
            return form
        finally:
            await spawner.api.api_client.close()

    return asyncio.run(render())


def read_form(c: Config, fields: Mapping[str, Sequence[str]]) -> Any:
    """The options that the hub keeps of a form with *fields*."""

    async def read() -> Any:
        spawner = _make_spawner(c, "ada", ())
        try:
            options = spawner.run_options_from_form(fields)
            return await options if inspect.isawaitable(options) else options
        finally:
            await spawner.api.api_client.close()

    return asyncio.run(read())


def _make_spawner(c: Config, user: str, groups: Sequence[Any]) -> Any:
    from kubespawner import KubeSpawner

    owner = SimpleNamespace(
        name=user, escaped_name=user, id=1, url=f"/user/{user}", groups=list(groups), settings={"failure_count": 0}
    )
    chosen = c.JupyterHub.get("spawner_class")
    return (chosen if isinstance(chosen, type) else KubeSpawner)(config=c, _mock=True, user=owner)


async def _spawn(spawner: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The steps of JupyterHub's and KubeSpawner's start, in their order."""
    spawner.user_options = options
    outcome = spawner.run_pre_spawn_hook()
    if inspect.isawaitable(outcome):
        await outcome
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    changed = spawner.modify_pod_hook(spawner, pod)
    pod = await changed if inspect.isawaitable(changed) else changed
    manifest: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(pod)
    return manifest
