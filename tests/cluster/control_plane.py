"""The tests' own control plane: what `scripts/build-cluster` made, as processes on the loopback, asked over REST.

No container and no kubelet: nodes are objects, and a pod that is bound stays there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cluster", "free_port", "make_certificate", "say", "wait"]

T = TypeVar("T")
ROOT = Path(__file__).parent.parent.parent
BIN = ROOT / "build/cluster/bin"
TOKEN = "the-tests-own"
BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    sys.stdout.write(f"{time.monotonic() - BEGAN:7.2f} s  {text}\n")
    sys.stdout.flush()


def free_port() -> int:
    """Find a port of the loopback nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait(what: str, look: Callable[[], T], seconds: float = 120) -> T:
    """Wait until looking finds something, and return it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):  # whoever is asked does not listen yet
            if found := look():
                return found
        time.sleep(0.05)
    raise TimeoutError(what)


def make_certificate(folder: Path) -> bytes:
    """Write tls.crt and tls.key for 127.0.0.1, signed by itself, and return the certificate."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return certificate


class Cluster:
    """etcd and a kube-apiserver in a folder, and whatever else is started beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        self.certificate = make_certificate(folder / "certs")
        self.certs = folder / "certs"
        self.kubeconfig = folder / "kubeconfig"
        server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "c",
                            "cluster": {"server": server, "certificate-authority": str(self.certs / "tls.crt")},
                        }
                    ],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "c",
                }
            )
        )
        self.http = httpx.Client(
            base_url=server,
            verify=ssl.create_default_context(cafile=self.certs / "tls.crt"),
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=60,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, program: str, *arguments: str, **environment: str) -> None:
        """Start a program of the build, its output in a file of its name."""
        with (self.folder / f"{program}.log").open("wb") as log:
            self.processes[program] = subprocess.Popen(
                [str(BIN / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "KUBECONFIG": str(self.kubeconfig),
                    **environment,
                },
            )

    def start_server(self) -> None:
        """Start etcd and kube-apiserver and wait until it is ready."""
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        self.start(
            "kube-apiserver",
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder}/tokens.csv",
            f"--tls-cert-file={self.certs}/tls.crt",
            f"--tls-private-key-file={self.certs}/tls.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.certs}/tls.key",
            f"--service-account-signing-key-file={self.certs}/tls.key",
            "--allow-privileged=true",
        )
        wait("the API server", lambda: self.alive() and self.http.get("/readyz").status_code == 200)

    def alive(self) -> bool:
        """Complain when one of the programs ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(
                    f"{name} ended with {process.returncode}:\n{(self.folder / f'{name}.log').read_text()[-3000:]}"
                )
        return True

    def start_kubernetes(self) -> None:
        """Start the controllers, less the one that fails nodes without a heartbeat, and the scheduler."""
        common = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1")
        self.start(
            "kube-controller-manager",
            *common,
            f"--secure-port={free_port()}",
            "--controllers=*,-node-lifecycle-controller",
            f"--service-account-private-key-file={self.certs}/tls.key",
            f"--root-ca-file={self.certs}/tls.crt",
        )
        self.start("kube-scheduler", *common, f"--secure-port={free_port()}")
        wait("the default service account", lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"))

    def request(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """One request, its answer decoded; anything but success is raised with the server's words."""
        content = None if body is None else json.dumps(body)
        answer = self.http.request(method, path, content=content, headers={"Content-Type": kind})
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json()

    def get(self, path: str) -> Any:
        """What is there, or None."""
        answer = self.http.get(path)
        return answer.json() if answer.is_success else None

    def patch(self, path: str, body: Any) -> Any:
        """Merge into what is there."""
        return self.request("PATCH", path, body, kind="application/merge-patch+json")

    def add_node(self, name: str, gpus: int) -> None:
        """A node that is ready and has GPUs, without a kubelet."""
        labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": str(gpus)}
        self.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        amount = {
            "cpu": "64",
            "memory": "512Gi",
            "pods": "110",
            "ephemeral-storage": "1Ti",
            "nvidia.com/gpu": str(gpus),
        }
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Fake",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {"capacity": amount, "allocatable": amount, "conditions": [ready]}
        self.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})

    def add_pod(self, name: str, *, gpus: int = 0, query: str = "", scheduler: str = "", **metadata: Any) -> Any:
        """A pod with one container and so many whole GPUs."""
        container: dict[str, Any] = {"name": "main", "image": "none"}
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        spec: dict[str, Any] = {"containers": [container]}
        if scheduler:
            spec["schedulerName"] = scheduler
        return self.request(
            "POST", f"/api/v1/namespaces/default/pods{query}", {"metadata": {"name": name, **metadata}, "spec": spec}
        )

    def pod(self, name: str) -> Any:
        """That pod of the default namespace."""
        return self.request("GET", f"/api/v1/namespaces/default/pods/{name}")

    def bound(self, name: str) -> str:
        """The node of a pod, once it has one."""
        return str(wait(f"{name} to be bound", lambda: self.alive() and self.pod(name)["spec"].get("nodeName")))

    def events(self, name: str) -> list[str]:
        """What was said about a pod."""
        items = self.request("GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}")[
            "items"
        ]
        return [
            f"{each.get('source', {}).get('component') or each.get('reportingComponent')} {each['reason']}: {each.get('message', '')}"
            for each in items
        ]

    def memory(self) -> str:
        """What each process holds now."""
        found = []
        for name, process in self.processes.items():
            status = Path(f"/proc/{process.pid}/status").read_text()
            resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            found.append(f"{name} {int(resident.split()[1]) // 1024}")
        return "resident MiB: " + ", ".join(found)
