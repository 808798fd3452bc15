"""NVML's return codes in people's words, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jupyter_gpushare.devices.guard import Failure

__all__ = ["GONE", "NOT_FOUND", "NOT_SUPPORTED", "NO_LIBRARY", "NO_PERMISSION", "explain"]

# nvmlReturn_t in nvml.h; the numbers are part of the library's ABI.
UNINITIALIZED: Final = 1
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
NO_LIBRARY: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
VERSION_MISMATCH: Final = 18
GPU_NOT_FOUND: Final = 28
UNKNOWN: Final = 999

#: A device, or the whole driver, that answers with one of these to its simplest question is not there any more.
GONE: Final = frozenset(
    {
        UNINITIALIZED,
        DRIVER_NOT_LOADED,
        TIMEOUT,
        GPU_IS_LOST,
        RESET_REQUIRED,
        VERSION_MISMATCH,
        GPU_NOT_FOUND,
        UNKNOWN,
    }
)

_REASONS: Final = {
    UNINITIALIZED: "The NVIDIA driver was closed under us.",
    NOT_SUPPORTED: "NVIDIA's driver does not give this on this device.",
    NO_PERMISSION: (
        "This user may not open the NVIDIA devices. Ask the administrator for access to /dev/nvidia*, "
        "for example through the group that owns them."
    ),
    DRIVER_NOT_LOADED: (
        "The NVIDIA driver is installed but not loaded. Load it (modprobe nvidia) or restart the machine; "
        "in a container, start it with GPU access (docker run --gpus all)."
    ),
    TIMEOUT: "The NVIDIA driver did not answer in time.",
    FUNCTION_NOT_FOUND: "The installed NVIDIA driver is too old for this; update it.",
    GPU_IS_LOST: "The GPU has fallen off the bus. It needs a reset or a restart of the machine by the administrator.",
    RESET_REQUIRED: "The GPU must be reset by the administrator (nvidia-smi --gpu-reset).",
    VERSION_MISMATCH: (
        "The NVIDIA driver was updated while the old one is still loaded. Restart the machine, "
        "or in a container restart the container."
    ),
    GPU_NOT_FOUND: "The NVIDIA driver does not find the GPU any more.",
    UNKNOWN: "The NVIDIA driver failed without saying why; the system's log may (dmesg, look for NVRM and Xid).",
}
_LIBRARY_MISSING: Final = (
    "NVIDIA's management library (libnvidia-ml.so.1) is not installed. Install the NVIDIA driver; "
    "in a container, start it with GPU access (docker run --gpus all)."
)
_LIBRARY_NOT_IN_CONTAINER: Final = (
    "The NVIDIA driver is loaded, but its management library (libnvidia-ml.so.1) is not here. In a container, "
    "set NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a host, install the driver's user-space part."
)
_LOADED_DRIVER: Final = Path("/proc/driver/nvidia/version")


def explain(error: Exception) -> Failure:
    """What *error*, raised by the binding, means for people. NVML's exceptions carry their code as ``value``."""
    code = getattr(error, "value", None)
    if not isinstance(code, int):
        return Failure(None, f"NVIDIA's Python binding failed: {type(error).__name__}: {error}"[:200])
    if code == NO_LIBRARY:
        return Failure(code, _LIBRARY_NOT_IN_CONTAINER if _LOADED_DRIVER.exists() else _LIBRARY_MISSING)
    return Failure(code, _REASONS.get(code) or f"NVIDIA's driver refused with error {code}.")
