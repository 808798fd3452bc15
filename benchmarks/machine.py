"""What a figure depends on: the machine's size and the versions. Never its name."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

__all__ = ["facts"]

_PACKAGES: Final = (
    "jupyter_gpushare",
    "jupyterlab_nvdashboard",
    "jupyter_resource_usage",
    "jupyter_server",
    "jupyterlab",
    "ipykernel",
    "tornado",
    "nvidia-ml-py",
)


def facts() -> dict[str, str]:
    """Cores, processor, load and versions."""
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "load when it began": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
