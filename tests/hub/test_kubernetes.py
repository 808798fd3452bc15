"""`setup_gpushare` on a real KubeSpawner: the pod books the share that was picked, and no other GPU."""

from __future__ import annotations

from typing import Any

import pytest
from kubespawner import KubeSpawner
from tornado.web import HTTPError
from traitlets import default
from traitlets.config import Config

from jupyter_gpushare.hub import setup_gpushare
from jupyter_gpushare.schedulers import HamiScheduler, KaiScheduler

from .offline_kubespawner import read_form, render_form, spawn_pod, spawn_pods

pytestmark = pytest.mark.usefixtures("kubeconfig")

ONE_ENVIRONMENT = {"display_name": "Minimal", "slug": "minimal", "kubespawner_override": {"image": "minimal"}}
TWO = [ONE_ENVIRONMENT, {"display_name": "Torch", "slug": "torch", "kubespawner_override": {"image": "torch"}}]


def limits_of(pod: dict[str, Any]) -> dict[str, str]:
    """What the server's container has booked."""
    limits: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


def environment_of(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of the server's container."""
    return {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}


def test_one_profile_for_each_share() -> None:
    """The spawn page offers each share with what it means on this cluster, and selects the default."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"], default="0.5", scheduler=HamiScheduler(enforce_compute=True))
    form = render_form(c)
    assert "<h3>¼ GPU</h3>" in form
    assert "So is the same part of the computing power." in form
    assert "not enforced" not in form
    assert form.count("checked") - form.count("'checked'") == 1
    assert limits_of(spawn_pod(c, {})) == {
        "nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50",
    }  # fmt: skip


def test_picked_share_is_booked_and_told() -> None:
    """What the scheduler books and what the sidebar will say are the same share."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"], scheduler=KaiScheduler(), project="team-a")
    pod = spawn_pod(c, {"profile": "0.5"})
    assert pod["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert environment_of(pod)["GPUSHARE_SHARE"] == "0.5"


@pytest.mark.parametrize("options", [{"profile": "0.75"}, {"share": "0.75"}, {"profile": "0.5", "share": "0.25"}])
def test_other_shares_get_no_pod(options: dict[str, str]) -> None:
    """Options that never saw the form are refused before a pod is made."""
    c = Config()
    setup_gpushare(c, shares=["0.25", "0.5"], scheduler=KaiScheduler())
    with pytest.raises(HTTPError, match="422"):
        spawn_pod(c, options)


def test_gpus_of_an_earlier_profile_are_gone() -> None:
    """KubeSpawner keeps limits from one start to the next; a pod never has more than the share picked last."""
    profiles = [{**ONE_ENVIRONMENT, "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": "8"}}}, TWO[1]]
    c = Config()
    c.KubeSpawner.profile_list = profiles
    setup_gpushare(c, shares=["0.25", "1"], scheduler=HamiScheduler())
    first, second = spawn_pods(c, [{"profile": "minimal", "share": "1"}, {"profile": "torch", "share": "0.25"}])
    assert limits_of(first) == {"nvidia.com/gpu": "1"}
    assert limits_of(second) == {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25"}
    assert environment_of(second)["GPUSHARE_SHARE"] == "0.25"


async def _later(_: Any) -> list[dict[str, Any]]:
    return TWO


@pytest.mark.parametrize("profiles", [TWO, {"a": TWO[0], "b": TWO[1]}, lambda _: TWO, _later])
def test_own_profiles_get_a_choice_of_shares(profiles: Any) -> None:
    """The admin's environments stay, in whatever form they were given, and each can have each share."""
    c = Config()
    c.KubeSpawner.profile_list = profiles
    setup_gpushare(c, shares=["0.25", "0.5"], default="0.5", scheduler=HamiScheduler())
    picked = spawn_pod(c, {"profile": "torch", "share": "0.25"})
    assert picked["spec"]["containers"][0]["image"] == "torch"
    assert limits_of(picked)["nvidia.com/gpumem-percentage"] == "25"
    assert limits_of(spawn_pod(c, {"profile": "minimal"}))["nvidia.com/gpumem-percentage"] == "50"
    assert "profile-option-torch--share" in render_form(c)
    assert "profile_options" not in TWO[0], "the admin's own list is not written into"


def test_own_option_of_that_name() -> None:
    """An option that is called like ours would be read as a share; the admin is told to rename it."""
    c = Config()
    c.KubeSpawner.profile_list = [{"display_name": "x", "profile_options": {"share": {"choices": {}}}}]
    with pytest.raises(ValueError, match=r"^profile_list: an option 'share'"):
        setup_gpushare(c, shares=["0.25"], scheduler=HamiScheduler())


@pytest.mark.parametrize("is_async", [False, True])
def test_pod_hook_set_before_still_runs(is_async: bool) -> None:  # noqa: FBT001  # a test's parameter
    """The admin's own changes to the pod stay, those that book GPUs excepted."""

    def plain(_: Any, pod: Any) -> Any:
        pod.metadata.labels["cost-centre"] = "7"
        pod.spec.containers[0].resources.limits["nvidia.com/gpu"] = "4"
        return pod

    async def coroutine(spawner: Any, pod: Any) -> Any:
        return plain(spawner, pod)

    c = Config()
    c.KubeSpawner.modify_pod_hook = coroutine if is_async else plain
    setup_gpushare(c, shares=["0.25"], scheduler=KaiScheduler())
    pod = spawn_pod(c, {})
    assert pod["metadata"]["labels"]["cost-centre"] == "7"
    assert "nvidia.com/gpu" not in limits_of(pod)
    assert pod["metadata"]["annotations"]["gpu-fraction"] == "0.25"


def test_pod_hook_of_a_spawners_class_still_runs() -> None:
    """A subclass of KubeSpawner that changes pods goes on doing so."""

    class Campus(KubeSpawner):  # type: ignore[misc]
        @default("modify_pod_hook")
        def _default_modify_pod_hook(self) -> Any:
            def label(_: Any, pod: Any) -> Any:
                pod.metadata.labels["cost-centre"] = "7"
                return pod

            return label

    c = Config()
    c.JupyterHub.spawner_class = Campus
    setup_gpushare(c, shares=["0.25"], scheduler=KaiScheduler())
    pod = spawn_pod(c, {})
    assert pod["metadata"]["labels"]["cost-centre"] == "7"
    assert pod["metadata"]["annotations"]["gpu-fraction"] == "0.25"


def test_pod_hook_set_afterwards() -> None:
    """A hook that replaced ours would start pods without a booking; no server starts, and the admin is told."""
    c = Config()
    setup_gpushare(c, shares=["0.25"], scheduler=KaiScheduler())
    c.KubeSpawner.modify_pod_hook = lambda _, pod: pod
    with pytest.raises(HTTPError, match="500") as caught:
        spawn_pod(c, {})
    assert "another modify_pod_hook" in caught.value.jupyterhub_message  # type: ignore[attr-defined]


def test_sidecars_and_init_containers() -> None:
    """Only the server's container gets the GPU, wherever the others had asked for one."""
    other = {"name": "other", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 1}}}
    c = Config()
    c.KubeSpawner.extra_containers = [dict(other)]
    c.KubeSpawner.init_containers = [{**other, "name": "init"}]
    setup_gpushare(c, shares=["1"], scheduler=KaiScheduler())
    spec = spawn_pod(c, {})["spec"]
    server, sidecar = spec["containers"]
    assert server["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert sidecar["resources"]["limits"] == {"cpu": 1}
    assert spec["initContainers"][0]["resources"]["limits"] == {"cpu": 1}


def test_environment_around_the_share_goes() -> None:
    """A variable that shows a container every GPU of the node does not get into the pod; others keep their source."""
    field = {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    c = Config()
    c.KubeSpawner.environment = {"NVIDIA_VISIBLE_DEVICES": "all", "NODE": {"name": "NODE", **field}}
    setup_gpushare(c, shares=["0.5"], scheduler=KaiScheduler())
    entries = {entry["name"]: entry for entry in spawn_pod(c, {})["spec"]["containers"][0]["env"]}
    assert "NVIDIA_VISIBLE_DEVICES" not in entries
    assert entries["NODE"] == {"name": "NODE", **field}


@pytest.mark.parametrize("user", ["ada.lovelace", "a.b.c@campus.example", "日本"])
def test_user_names_with_dots(user: str) -> None:
    """KAI before 0.17 could not mount for pods with a dot in their name, whatever the user is called."""
    c = Config()
    setup_gpushare(c, shares=["0.5"], scheduler=KaiScheduler())
    assert "." not in spawn_pod(c, {}, user=user)["metadata"]["name"]


async def _team(spawner: Any) -> str:
    return f"team-{spawner.user.name}"


@pytest.mark.parametrize("project", ["team-ada", lambda spawner: f"team-{spawner.user.name}", _team])
def test_project_may_depend_on_the_user(project: Any) -> None:
    """The queue comes from the configuration, or from a function of the spawner, which may be a coroutine."""
    c = Config()
    setup_gpushare(c, shares=["0.5"], scheduler=KaiScheduler(), project=project, priority="inference")
    pod = spawn_pod(c, {}, user="ada")
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "team-ada"
    assert pod["spec"]["priorityClassName"] == "inference"


def test_hub_without_a_scheduler_of_its_own(tmp_path: Any) -> None:
    """KubeSpawner on a machine that our own broker shares: the admin's profiles and the picker stand on one page."""
    c = Config()
    c.KubeSpawner.profile_list = TWO
    setup_gpushare(c, shares=["0.25", "0.5"], state=tmp_path / "state", config=None)
    form = render_form(c)
    assert 'name="share" id="gpushare-1" value="0.25"' in form
    assert "<h3>Torch</h3>" in form
    fields = {"profile": ["torch"], "share": ["0.5"], "share_custom": [""], "share_kind": [""]}
    assert read_form(c, fields) == {"profile": "torch", "share": "0.5"}
