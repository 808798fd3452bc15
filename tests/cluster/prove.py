"""Starts the control plane that scripts/build-cluster made, schedules pods on fake GPU nodes, stops it and says what happened.

`python -m tests.cluster.prove [kubernetes | kai]`: what was built decides what runs when nothing is named. No container,
no kubelet: nodes are objects, pods are bound and stay there.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from .control_plane import BIN, Cluster, free_port, make_certificate, say, wait

KAI_MODULE = "github.com/NVIDIA/KAI-scheduler"
KAI_PROGRAMS = ("scheduler", "binder", "podgrouper", "queuecontroller", "podgroupcontroller", "admission")
GIVEN_UUID = "run.ai/reserve_for_gpu_index"


def kai_folder() -> Path:
    """Where Go keeps the module."""
    shown = subprocess.run(
        [os.environ.get("GO", "go"), "list", "-m", "-f", "{{.Dir}}", KAI_MODULE],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(shown.stdout.strip())


def prove_server(cluster: Cluster) -> None:
    """A namespace, a node, and a pod that is only tried."""
    cluster.start_server()
    say(f"kube-apiserver ready: {cluster.get('/version')['gitVersion']}")
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    cluster.add_node("node-1", 8)
    shown = cluster.get("/api/v1/nodes/node-1")
    say(f"node-1: {shown['status']['allocatable']['nvidia.com/gpu']} GPUs, taints {shown['spec'].get('taints')}")
    groups = sorted(f"{g['name']}:{g['preferredVersion']['version']}" for g in cluster.get("/apis")["groups"])
    say(f"{len(groups)} API groups: {' '.join(groups)}")


def prove_kubernetes(cluster: Cluster) -> None:
    """A pod that fits is bound; one that does not says why."""
    cluster.start_kubernetes()
    say("controller manager made the default service account")
    tried = cluster.add_pod("tried", gpus=2, query="?dryRun=All")
    say(f"dry run: {tried['metadata']['uid']} {tried['spec']['containers'][0]['resources']}")
    began = time.monotonic()
    cluster.add_pod("two", gpus=2)
    say(f"two -> {cluster.bound('two')}, {time.monotonic() - began:.2f} s after it was asked for")
    cluster.add_pod("many", gpus=99)
    said = wait("the refusal", lambda: [each for each in cluster.events("many") if "FailedScheduling" in each])
    say(f"many: {said}")


def start_kai(cluster: Cluster) -> None:
    """What the chart would set up, by hand: CRDs, namespaces, priorities, queues, the programs and the webhook."""
    folder = kai_folder()
    for file in sorted((folder / "deployments/kai-scheduler/crds").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if document:
                cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
    for name in ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = {"metadata": {"name": "kai-resource-reservation"}}
    cluster.request("POST", "/api/v1/namespaces/kai-resource-reservation/serviceaccounts", account)
    # Admission gives every pod with a fraction this runtime class.
    cluster.request(
        "POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    )
    for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)):
        cluster.request(
            "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
        )
    queues = "/apis/scheduling.run.ai/v2/queues"
    wait("the queues' kind", lambda: cluster.get(queues))
    whole = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    for name, parent, quota in (("all", None, 8), ("team-a", "all", 4), ("team-b", "all", 4)):
        resources = {"cpu": whole, "memory": whole, "gpu": {**whole, "quota": quota}}
        spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
        cluster.request(
            "POST",
            queues,
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec},
        )

    def ports(*names: str) -> tuple[str, ...]:
        return tuple(f"--{name}=127.0.0.1:{free_port()}" for name in names)

    both = ("metrics-bind-address", "health-probe-bind-address")
    # It has no address of its own for its two servers: the plugins' one listens everywhere.
    cluster.start("kai-scheduler", *ports("listen-address"), f"--plugin-server-port={free_port()}")
    cluster.start("kai-binder", *ports(*both))
    cluster.start("kai-podgrouper", *ports(*both))
    cluster.start("kai-queuecontroller", *ports("metrics-listen-address"), "--enable-webhook=false")
    cluster.start("kai-podgroupcontroller", *ports(*both), "--enable-podgroup-webhook=false")
    # The webhook's server looks for its certificate below the folder for temporary files.
    temporary = cluster.folder / "admission"
    make = temporary / "k8s-webhook-server/serving-certs"
    bundle = base64.b64encode(make_certificate(make)).decode()
    port = free_port()
    cluster.start(
        "kai-admission", *ports(*both), f"--webhook-addr={port}", "--gpu-sharing-enabled=true", TMPDIR=str(temporary)
    )
    for kind, path, operations in (
        ("mutating", "mutate", ["CREATE"]),
        ("validating", "validate", ["CREATE", "UPDATE"]),
    ):
        hook = {
            "name": f"{kind}.kai.test",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/{path}--v1-pod", "caBundle": bundle},
            "rules": [
                {
                    "operations": operations,
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
        }
        cluster.request(
            "POST",
            f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations",
            {"metadata": {"name": "kai"}, "webhooks": [hook]},
        )
    wait("the webhook", lambda: cluster.alive() and can_connect(port))


def can_connect(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def play_device_plugin(cluster: Cluster) -> list[str]:
    """Give each reservation pod that is bound its GPU's name, as the program in it would; returns the pods."""
    path = "/api/v1/namespaces/kai-resource-reservation/pods"
    names = []
    for pod in cluster.get(path)["items"]:
        name = pod["metadata"]["name"]
        names.append(name)
        if pod["spec"].get("nodeName") and GIVEN_UUID not in pod["metadata"].get("annotations", {}):
            given = f"GPU-{pod['metadata']['uid']}"
            cluster.patch(f"{path}/{name}", {"metadata": {"annotations": {GIVEN_UUID: given}}})
            cluster.patch(f"{path}/{name}/status", {"status": {"phase": "Running"}})
    return names


def prove_kai(cluster: Cluster) -> None:
    """A whole GPU and two halves: pod groups, bind requests, a reservation, and what the pods got."""
    start_kai(cluster)
    say("KAI started")
    labels = {"kai.scheduler/queue": "team-a"}
    began = time.monotonic()
    whole = {"gpus": 1, "scheduler": "kai-scheduler", "labels": labels}
    # The validating webhook answers once its server has its caches.
    wait("a first pod", lambda: try_pod(cluster, "whole", whole))
    say(f"whole -> {cluster.bound('whole')}, {time.monotonic() - began:.2f} s")
    for name in ("half-1", "half-2"):
        began = time.monotonic()
        cluster.add_pod(name, scheduler="kai-scheduler", labels=labels, annotations={"gpu-fraction": "0.5"})
        requests: set[str] = set()

        def there(name: str = name, requests: set[str] = requests) -> bool:
            cluster.alive()
            play_device_plugin(cluster)
            for each in cluster.get("/apis/scheduling.run.ai/v1alpha2/namespaces/default/bindrequests")["items"]:
                if each["spec"]["podName"] == name:
                    requests.add(json.dumps(each["spec"], sort_keys=True))
            return bool(cluster.pod(name)["spec"].get("nodeName"))

        wait(f"{name} to be bound", there)
        pod = cluster.pod(name)
        say(f"{name} -> {pod['spec']['nodeName']}, {time.monotonic() - began:.2f} s; bind requests {requests}")
        say(f"{name}: labels {pod['metadata']['labels']} annotations {pod['metadata']['annotations']}")
        say(f"{name}: {json.dumps({k: v for k, v in pod['spec']['containers'][0].items() if k in ('env', 'envFrom')})}")
    say(f"reservation pods: {play_device_plugin(cluster)}")
    for each in cluster.get("/api/v1/namespaces/default/configmaps")["items"]:
        if "shared-gpu" in each["metadata"]["name"]:
            say(f"ConfigMap {each['metadata']['name']}: {each.get('data')}")
    for each in cluster.get("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups")["items"]:
        say(f"PodGroup {each['metadata']['name']}: {each['spec']}")
    time.sleep(3)
    say(f"Queue team-a: {cluster.get('/apis/scheduling.run.ai/v2/queues/team-a')['status']}")
    for name in ("whole", "half-1"):
        say(f"{name}: {cluster.events(name)}")
    refused = cluster.http.post(
        "/api/v1/namespaces/default/pods?dryRun=All",
        json={
            "metadata": {"name": "refused", "labels": labels, "annotations": {"gpu-fraction": "1"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "none"}]},
        },
    )
    say(f"gpu-fraction 1: {refused.status_code} {refused.json().get('message')}")


def play_kubelet(cluster: Cluster) -> None:
    """Pods that are bound run, pods that are to go are gone."""
    path = "/api/v1/namespaces/default/pods"
    for pod in cluster.get(path)["items"]:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            cluster.http.request("DELETE", f"{path}/{name}", params={"gracePeriodSeconds": 0})
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            cluster.patch(f"{path}/{name}/status", {"status": {"phase": "Running"}})


def prove_reclaim(cluster: Cluster) -> None:
    """A project above its quota gives back what the other is owed: KAI evicts, waits, and binds."""
    more = [f"a-{number}" for number in range(4)]
    for name in more:
        cluster.add_pod(name, gpus=1, scheduler="kai-scheduler", labels={"kai.scheduler/queue": "team-a"})

    def run(names: list[str]) -> bool:
        cluster.alive()
        play_kubelet(cluster)
        pods = [cluster.get(f"/api/v1/namespaces/default/pods/{name}") for name in names]
        return all(pod and pod["status"]["phase"] == "Running" for pod in pods)

    wait("team-a to fill the node", lambda: run(more))
    say("team-a has 6 GPUs of a quota of 4, the node is full")
    owed = ["b-0", "b-1"]
    began = time.monotonic()
    for name in owed:
        cluster.add_pod(name, gpus=1, scheduler="kai-scheduler", labels={"kai.scheduler/queue": "team-b"})
    wait("team-b to get its own", lambda: run(owed))
    left = [each["metadata"]["name"] for each in cluster.get("/api/v1/namespaces/default/pods")["items"]]
    say(f"team-b runs 2, {time.monotonic() - began:.2f} s; of all pods there are left {left}")
    # An eviction is told about the pod group, not about the pod.
    for each in cluster.get("/api/v1/namespaces/default/events?fieldSelector=reason=Evict")["items"]:
        say(f"{each['involvedObject']['name']}: {each['message']} {each['metadata'].get('annotations')}")


def try_pod(cluster: Cluster, name: str, arguments: dict[str, Any]) -> bool:
    """Whether the pod could be made by now."""
    try:
        cluster.add_pod(name, **arguments)
    except RuntimeError as error:
        if "failed calling webhook" not in str(error):
            raise
        return False
    return True


def main() -> None:
    """Run what was asked for."""
    asked = sys.argv[1:] or ["kubernetes", "kai"]
    folder = Path(tempfile.mkdtemp(prefix="gpushare-cluster-"))
    try:
        with Cluster(folder) as cluster:
            prove_server(cluster)
            if (BIN / "kube-scheduler").exists() and (BIN / "kube-controller-manager").exists():
                prove_kubernetes(cluster)
                if "kai" in asked and all((BIN / f"kai-{each}").exists() for each in KAI_PROGRAMS):
                    prove_kai(cluster)
                    prove_reclaim(cluster)
            say(cluster.memory())
    except BaseException:
        say(f"the programs' output is kept: {folder}")
        raise
    shutil.rmtree(folder)
    say("stopped")


if __name__ == "__main__":
    main()
