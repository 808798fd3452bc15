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
_HUB = "a hub on one lab server: each server runs as its person's Unix user"
_SAME_USER = "a hub whose servers run as the hub's own user (`simple`, as in the demo)"
_DOCKER_HUB = "a hub with Docker: a container for each server"
_PODS_HUB = "a hub on Kubernetes: pods with a device plugin"
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
        "the container's own process ids; with `--pid=host`, which exact figures need, they can be seen, and "
        "signalled where the user ids are the same: run containers as different users",
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
        _HUB,
        "take a share that is not offered, or another project's, with options that no form has",
        "each start is judged by its options and the books alone, whatever was sent and by whatever way; who is in "
        "which project the hub says, never the request",
        "`gpushare_hub_starts_total` counts what was not offered or refused",
    ),
    Threat(
        _HUB,
        "end, release, resume or ask for another person's share over the API",
        "a token speaks for its own person; only the hub's hooks and admins speak for others",
        "the audit names who did what",
    ),
    Threat(
        _HUB,
        "use what is in one's own server's environment for more than one's own share",
        "a lease's token works for that lease alone and ends with it; the server's own token may act for its person, "
        "and never administers, not even an admin's",
    ),
    Threat(
        _HUB,
        "be taken for a Unix user of the same name, such as root",
        "a hub's user is nobody's Unix user unless `unix_users` says that servers run under them; a process counts "
        "for a share only if it runs as that share's user",
    ),
    Threat(
        _HUB,
        "call oneself the hub or its service on this machine's port",
        "the secret in the state directory, which only the hub's user may enter (the hub does not start otherwise)",
        "the service listens on 127.0.0.1 alone, where every user of the machine may knock; refusals are counted",
    ),
    Threat(
        _HUB,
        "have somebody's browser press a button, from a page or notebook that they open",
        "forms, scripts and WebSockets carry a token of a page of ours, which cannot be framed or fetched by others, "
        "nor held by a page that opened it in a window (`Cross-Origin-Opener-Policy`). Browsers see to that over "
        "https. A *server* of somebody's is on the hub's own domain and may send what our pages send: a domain for "
        "each server (`c.JupyterHub.subdomain_host`) keeps those away, too",
        "the audit says who pressed it",
    ),
    Threat(
        _HUB,
        "see who else has a share, or what their notebooks are called",
        "pages and API show others as amounts, without person, server or notebook; a project's owners and admins see "
        "their people. On the machine itself `ps` and `nvidia-smi` show more",
    ),
    Threat(
        _HUB,
        "learn from news or figures what somebody works on",
        "neither has a notebook's, a server's or a file's name; figures have no person's either, and receivers of "
        "news are the admin's own",
    ),
    Threat(
        _HUB,
        "hold a share and not use it",
        "quota and `person_limit`; what is idle is parked and lent; `[culling]`, above all `max_age`, which no "
        "evidence of the server's own can put off",
        "the overview shows what computes beside what is held; a server whose owner feigns use is not idle",
    ),
    Threat(
        _HUB,
        "fill the line, the service or the hub with starts, pages and claims",
        "`person_claims` and `person_connections`, one open page's claim for each server, and JupyterHub's own limits "
        "on starts; who waits holds no place among those",
        "the metrics of claims and refusals",
    ),
    Threat(
        _HUB,
        "fill the host's memory by being parked",
        "memory for what is parked is booked beforehand within `parking_budget`; what does not fit is not parked",
        "the metrics show it for each host",
    ),
    Threat(
        _SAME_USER,
        "read the secret of the hub, or another person's files, tokens and kernels",
        "nothing: everybody's programs run as one user. For one's own machine, and for trying things out",
    ),
    Threat(
        _DOCKER_HUB,
        "reach the service from another container as somebody else",
        "every request needs a token, and each container has its own person's alone; the secret of the hub is in no "
        "container unless an admin mounts the state directory",
        "refusals are counted",
    ),
    Threat(
        _DOCKER_HUB,
        "have programs of another container counted as one's own",
        "a process counts only if the service sees it with the same id, start and user (in a container with process "
        "ids of its own: with the same pid namespace, too), and no other share has it",
        "what nobody's share has counts as *foreign*: containers into whose processes the service may not look always "
        "do",
    ),
    Threat(
        _PODS_HUB,
        "have more GPU in one's pod than the share that was picked",
        "GPUs that an earlier profile or hook put into the pod are taken out, and the share is put in, whatever the "
        "options said",
        "the pod itself says what it asked for",
    ),
    Threat(
        _PODS_HUB,
        "choose a share that is not offered, with options that no profile has",
        "the options are read against what is offered, and the start is refused",
    ),
    Threat(
        _PODS_HUB,
        "take more than the team's part of the cluster",
        "the cluster's scheduler and its quotas; this project renders the queue, and keeps no books there",
        "the scheduler's own records",
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
