"""The texts that make the broker a service: systemd units, its account, and an example of ``gpushare.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from jupyter_gpushare.broker.places import machine_socket, machine_state
from jupyter_gpushare.broker.privileged.asking import SOCKET as ENDING_SOCKET

__all__ = ["EXAMPLE", "PROGRAM", "Service", "WrongWordError"]

#: Where the privileged program is copied to: a directory that only root can change.
PROGRAM: Final = Path("/usr/local/libexec/gpushare/end-process.py")
_UNITS: Final = Path("/etc/systemd/system")
_ACCOUNTS: Final = Path("/etc/sysusers.d/gpushare.conf")
_ACCOUNT: Final = re.compile(r"[a-z_][a-z0-9_-]{0,30}", re.ASCII)

EXAMPLE: Final = """\
# Who may use how much of this machine's GPUs.
# See what a change would do: jupyter gpushare apply --dry-run FILE
# Put it in force:            systemctl reload gpushare

[broker]
# Names of people, and of groups with an @ before them. Root always may.
admins = []
# What the broker may end by force when everything else has failed. Nothing, unless you say so; then run
# `jupyter gpushare install-service` again. A job of `jupyter gpushare run` that ignores its call back:
# losses = ["job_stopped_after_grace"]

[projects.default]
quota = "unlimited"
members = ["*"]

# [projects.team-a]
# quota = 2.5
# limit = 8
# members = ["ana", "bo"]
"""

_SOCKET: Final = Template("""\
[Unit]
Description=GPU shares: where notebooks and jobs reach the broker

[Socket]
ListenStream=$socket
# Everybody may connect: the system tells the broker who it is.
SocketMode=0666
DirectoryMode=0755
Backlog=1024

[Install]
WantedBy=sockets.target
""")

_SERVICE: Final = Template("""\
[Unit]
Description=GPU shares: the broker
Requires=gpushare.socket
After=gpushare.socket

[Service]
Type=exec
User=$account
Group=$account
${groups}ExecStart=$python -I -m jupyter_gpushare.app broker --multi-user $configuration --state=$state
ExecReload=kill -HUP $$MAINPID
Restart=on-failure
RestartSec=1
TimeoutStopSec=30
LimitNOFILE=65536
Environment=HOME=$state
StateDirectory=gpushare
StateDirectoryMode=0700
RuntimeDirectory=gpushare
RuntimeDirectoryMode=0755
# The socket lies in it, and is not the service's to take away.
RuntimeDirectoryPreserve=yes
UMask=0077

# It reads process lists and devices, and writes its books. Left out on purpose: PrivateUsers (every user would look the
# same), PrivateDevices, ProtectClock and DeviceAllow (they close the GPUs), ProtectProc and ProcSubset (they hide
# other users' processes), MemoryDenyWriteExecute (the driver's libraries need it).
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=$home
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
""")

_ENDING_SOCKET: Final = Template("""\
[Unit]
Description=GPU shares: where the broker asks for a job to be ended that ignores its call back

[Socket]
ListenSequentialPacket=$ending_socket
SocketUser=root
SocketGroup=$account
SocketMode=0660
Accept=yes
MaxConnections=8
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
""")

_ENDING_SERVICE: Final = Template("""\
[Unit]
Description=GPU shares: ends one job that ignores its call back
CollectMode=inactive-or-failed

[Service]
Type=exec
ExecStart=$interpreter -I -S $program --account=$account $configuration
StandardInput=socket
StandardOutput=journal
StandardError=journal
RuntimeMaxSec=60
TasksMax=4
MemoryMax=128M
UMask=0077
# Root that can do nothing but send signals, and change nothing.
User=root
CapabilityBoundingSet=CAP_KILL
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=$home
PrivateTmp=yes
PrivateDevices=yes
PrivateNetwork=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
""")

_USER: Final = Template('u $account - "Broker of GPU shares" $state\n')


class WrongWordError(ValueError):
    """Something cannot stand in a unit. Names it and says what to write."""


@dataclass(frozen=True, slots=True)
class Service:
    """What differs from machine to machine.

    Attributes:
        account: the broker's own account.
        configuration: the admin's file.
        python: the interpreter that has this package.
        interpreter: the one that the privileged program runs with; None leaves that program out.
        groups: what the account must be in to see devices and processes.
        needs_home: whether any of these files is in people's home directories.
    """

    account: str
    configuration: Path
    python: Path
    interpreter: Path | None = None
    groups: tuple[str, ...] = ()
    needs_home: bool = False

    def files(self) -> dict[Path, str]:
        """Every file but the admin's own and the privileged program, by its path.

        Raises:
            WrongWordError: the account or a path cannot be written in a unit.
        """
        if not _ACCOUNT.fullmatch(self.account) or self.account == "root":
            raise WrongWordError(f"--user {self.account!r}: write the name of an account of its own, such as gpushare")
        words = self._words()
        templates = {"gpushare.socket": _SOCKET, "gpushare.service": _SERVICE}
        if self.interpreter is not None:
            templates |= {"gpushare-ending.socket": _ENDING_SOCKET, "gpushare-ending@.service": _ENDING_SERVICE}
        units = {_UNITS / name: template.substitute(words) for name, template in templates.items()}
        return {_ACCOUNTS: _USER.substitute(words), **units}

    def units(self) -> list[str]:
        """The units that are turned on."""
        ending = [] if self.interpreter is None else ["gpushare-ending.socket"]
        return ["gpushare.socket", *ending, "gpushare.service"]

    def _words(self) -> dict[str, str]:
        return {
            "account": self.account,
            "configuration": _word(self.configuration, "--config", "--config="),
            "python": _word(self.python, "the interpreter"),
            "interpreter": _word(self.interpreter or self.python, "the interpreter"),
            "groups": f"SupplementaryGroups={' '.join(self.groups)}\n" if self.groups else "",
            "home": "read-only" if self.needs_home else "yes",
            "socket": str(machine_socket()),
            "state": str(machine_state()),
            "ending_socket": str(ENDING_SOCKET),
            "program": str(PROGRAM),
        }


def _word(path: Path, name: str, option: str = "") -> str:
    """*path*, after *option*, as a word of a command line in a unit (systemd.service(5), "Command lines")."""
    text = str(path)
    if not path.is_absolute() or not text.isprintable() or set(text) & set("\"'\\"):
        raise WrongWordError(f"{name} {text!r}: write an absolute path without quotes and backslashes")
    text = option + text.replace("%", "%%").replace("$", "$$")
    # systemd's quotes stand around whole words, the option included (systemd.syntax(7)).
    return f'"{text}"' if " " in text else text
