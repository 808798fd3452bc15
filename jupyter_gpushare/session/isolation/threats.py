"""What a malicious user of one session can do to others, for each way of installing. For the documentation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["THREATS", "Threat"]


@dataclass(frozen=True, slots=True)
class Threat:
    """One attempt. *prevented* and *detected* say by what; empty where nothing does."""

    installation: str
    attempt: str
    prevented: str = ""
    detected: str = ""


_LAB = "one lab server: several Unix users on one host"
_DOCKER = "Docker: a container for each user, GPUs passed through"
_PODS = "pods with a device plugin"
_BOOKING = "booking (comes with the cluster part): notebook pods without a GPU request"

THREATS = (
    Threat(
        _LAB,
        "take memory or compute beyond the share by unsetting the environment in one's own program",
        "`mig`; nothing else, as limits in a process's environment are its owner's to drop",
        "the sidebar and the metrics show it; with `caps` the offender's own server ends it, unless its owner has "
        "stopped that server",
    ),
    Threat(
        _LAB,
        "use another GPU than one's own by setting CUDA_VISIBLE_DEVICES",
        "device file permissions or cgroups, which an admin sets up; not this project",
        "the process shows as *foreign* on the other device",
    ),
    Threat(_LAB, "read what a neighbour left in GPU memory", "the driver clears memory that goes to another process"),
    Threat(
        _LAB,
        "see whose programs use a GPU, and how much they hold",
        "this project shows others as a sum and a count only; `nvidia-smi` and /proc (without hidepid) show more",
    ),
    Threat(
        _LAB,
        "have the guard end a neighbour's program",
        "a guard ends programs of its own session only, and the system lets it signal no other user's",
    ),
    Threat(
        _LAB,
        "report less than one holds, so that others are believed to hold it",
        "the driver's own lists are what counts; a kernel's word is shown as such, and the guard never acts on it",
        "a sum that does not match the device's total shows as others' use",
    ),
    Threat(
        _LAB,
        "end all clients of an MPS daemon with a fatal fault",
        "a daemon for each device and each Unix user: only one's own sessions on that device end",
    ),
    Threat(
        _LAB,
        "keep everybody from resuming by holding a device token for ever",
        "",
        "whoever waits sees for what; an admin finds the holder of the lock file",
    ),
    Threat(
        _LAB,
        "end, stop or read another user's kernels through this server's API",
        "Jupyter's own token; a kernel's token reaches that kernel alone",
    ),
    Threat(
        _DOCKER,
        "take memory or compute beyond the share by unsetting the environment in one's own program",
        "`mig`; `hami-core` where the image preloads the library for every program (/etc/ld.so.preload, not writable)",
        "the device's total, which belongs to nobody where the container has its own process ids",
    ),
    Threat(
        _DOCKER,
        "use a GPU that the container was not given",
        "the container runtime: the device files are not there",
    ),
    Threat(
        _DOCKER,
        "see or signal processes of other containers",
        "the container's own process ids; with `--pid=host`, which exact figures need, they can be seen, and signalled "
        "where the user ids are the same: run containers as different users",
    ),
    Threat(
        _DOCKER,
        "reach another user's MPS daemon",
        "its pipe directory is not in the container; an admin who mounts it gives that user all of its clients",
    ),
    Threat(
        _PODS,
        "take more memory than the pod's limit",
        "what the plugin uses: MIG, or HAMi-core from /etc/ld.so.preload; time-slicing prevents nothing",
        "the node's exporter (DCGM) names the pod",
    ),
    Threat(
        _PODS,
        "double a limit by starting more programs under MPS",
        "only as many kernels as the share is divided for have a GPU; a kernel's own children escape this",
        "the session's memory in the sidebar is above its limit",
    ),
    Threat(
        _PODS,
        "loosen a limit with one's own kernel spec",
        "limits come from the server's environment or the share, never from a kernel spec",
    ),
    Threat(
        _PODS,
        "see other pods' use",
        "nothing is listed of them, so nothing is shown; the device's total can be read by everybody on it",
    ),
    Threat(
        _BOOKING,
        "open the GPU while its share is handed back and lent to a job",
        "",
        "the process shows on the device within seconds, as the trespasser's own or as foreign; the borrower is never "
        "touched for it",
    ),
    Threat(
        _BOOKING,
        "use GPUs of the node that no booking of one's own holds",
        "the devices of the pod's runtime class or a ConfigMap limit what is visible, not what can be opened",
        "the process shows as foreign, and that device takes no new lease",
    ),
    Threat(
        _BOOKING,
        "spoof another's booking",
        "only the hub's service account may create booking pods",
    ),
)
