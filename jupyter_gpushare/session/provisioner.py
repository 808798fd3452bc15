"""Starts kernels as Jupyter always does, and tells each one where its share is.

Registered in the entry point group ``jupyter_client.kernel_provisioners`` and made the default one unless an
admin chose another; a kernel spec that names its own provisioner keeps it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

__all__ = ["PROVISIONER_NAME", "GpuShareProvisioner", "api_url"]

PROVISIONER_NAME = "gpushare-provisioner"
_KERNEL_PART = "--ext=jupyter_gpushare"


class GpuShareProvisioner(LocalProvisioner):
    """A local provisioner that gives each kernel the server's address and a token for itself alone."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the launch; a server without our extension gets exactly what the local provisioner does."""
        prepared = await super().pre_launch(**kwargs)
        extension = self._extension()
        if extension is None or self.kernel_id is None:
            return prepared
        command = prepared["cmd"]
        loads_part = _is_ipykernel(command) and _has_our_part(command[0], prepared["env"].get("PATH"))
        if loads_part and _KERNEL_PART not in command:
            prepared["cmd"] = [*command, _KERNEL_PART]
        session = extension.session
        prepared["env"] |= session.admit_kernel(self.kernel_id, loads_part=loads_part)
        await session.isolation.apply(self.kernel_id, prepared["env"])
        return prepared

    async def terminate(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002  # jupyter_client's
        """End the process as the local provisioner does, after what the isolation mode wants done first."""
        await self._prepare_kill()
        await super().terminate(restart=restart)

    async def kill(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002  # jupyter_client's
        """Kill the process as the local provisioner does, after what the isolation mode wants done first."""
        await self._prepare_kill()
        await super().kill(restart=restart)

    async def _prepare_kill(self) -> None:
        extension = self._extension()
        if extension is not None and self.pid is not None:
            await extension.session.isolation.before_kill(self.pid)

    def _extension(self) -> Any:
        # kernel manager -> multi kernel manager -> server; any of them may be missing outside a Jupyter Server.
        app = getattr(getattr(self.parent, "parent", None), "parent", None)
        web_app = getattr(app, "web_app", None)
        extension = web_app.settings.get("jupyter_gpushare") if web_app is not None else None
        return extension if extension is not None and extension.session is not None else None


def api_url(server: Any) -> str:
    """The address of our REST API for processes on the same machine, without a trailing slash.

    A server on a Unix socket is written ``http+unix://<quoted path>/…``.
    """
    path = f"{server.base_url}gpushare/api/v1"
    if server.sock:
        return f"http+unix://{quote(server.sock, safe='')}{path}"
    scheme = "https" if server.certfile else "http"
    return f"{scheme}://{_local_host(server.ip)}:{server.port}{path}"


def _local_host(ip: str) -> str:
    """An address that reaches a server bound to *ip* from its own machine."""
    if ip in ("", "*", "0.0.0.0"):  # noqa: S104  # compared with, not bound to
        return "127.0.0.1"
    if ":" in ip:
        return "[::1]" if ip == "::" else f"[{ip}]"
    return ip


def _has_our_part(executable: str, path: str | None) -> bool:
    """Whether the kernel's Python has our package: a kernel of another environment may not."""
    found = shutil.which(executable, path=path)
    if found is None:
        return False
    if Path(found).absolute() == Path(sys.executable).absolute():
        return True
    # Not resolved: the python of a virtual environment is a link out of it.
    prefix = Path(found).absolute().parent.parent
    return any(prefix.glob("lib*/python3*/site-packages/jupyter_gpushare*"))


def _is_ipykernel(command: list[str]) -> bool:
    """Whether the command starts ipykernel, the only kernel that can load our part."""
    modules = {"ipykernel", "ipykernel_launcher"}
    return any(part in modules or PurePath(part).stem in modules for part in command)
