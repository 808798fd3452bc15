"""AMD GPUs through AMD SMI, as the package ``amdsmi`` (7.x) binds it."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.devices.device import Device, DeviceUse, ProcessUse, Reading
from jupyter_gpushare.devices.driver_link import Opened
from jupyter_gpushare.devices.driver_source import DriverSource
from jupyter_gpushare.devices.guard import Failure, Guard
from jupyter_gpushare.devices.kind import kind_of
from jupyter_gpushare.devices.visibility import Physical, visible_to_rocm
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["AmdSource"]

_KFD: Final = Path("/dev/kfd")
_DEVICE_FILES: Final = re.compile(r"/dev/(?:kfd|dri/renderD[0-9]+)")
_FULL: Final = 100
_LARGEST_PID: Final = 1 << 22

# amdsmi_status_t in amdsmi.h.
_NOT_SUPPORTED: Final = 2
_TIMEOUT: Final = 8
_NO_PERMISSION: Final = 10
_NOT_FOUND: Final = 31
_NOT_INITIALISED: Final = 32
_DRIVER_NOT_LOADED: Final = 34
_UNKNOWN: Final = 0xFFFFFFFF
_GONE: Final = frozenset({_TIMEOUT, _NOT_FOUND, _NOT_INITIALISED, _DRIVER_NOT_LOADED, _UNKNOWN})

_REASONS: Final = {
    _NOT_SUPPORTED: "AMD's driver does not give this on this device.",
    _TIMEOUT: "The AMD driver did not answer in time.",
    _NO_PERMISSION: "This user may not open the AMD devices. Ask the administrator for the groups video and render.",
    _NOT_FOUND: "The AMD driver does not find the GPU any more.",
    _NOT_INITIALISED: "The AMD driver was closed under us.",
    _DRIVER_NOT_LOADED: "The AMD driver is not loaded. Load it (modprobe amdgpu) or restart the machine.",
    _UNKNOWN: "The AMD driver failed without saying why; the system's log may (dmesg, look for amdgpu).",
}
_NO_KFD: Final = (
    "No AMD compute driver is loaded: /dev/kfd is missing. In a container, pass --device=/dev/kfd --device=/dev/dri."
)
_NO_BINDING: Final = "The Python package amdsmi is missing; install it (pip install 'jupyter_gpushare[amd]')."
_NO_LIBRARY: Final = "AMD's management library (libamd_smi.so) is not installed; install the package amd-smi-lib."
_NO_PROCESS_UTILISATION: Final = "AMD's driver gives no utilisation per process."
_IMPOSSIBLE_UTILISATION: Final = "AMD's driver gave no usable utilisation."


@dataclass(frozen=True, slots=True)
class _Handle:
    """One device as the library knows it."""

    device: Device
    physical: Physical
    native: Any


class AmdSource(DriverSource[_Handle]):
    """Devices of the AMD driver.

    Args:
        library: an object with amdsmi's functions; amdsmi itself by default, and that only where ``/dev/kfd`` is.
        environ: whose ``ROCR_VISIBLE_DEVICES`` and ``HIP_VISIBLE_DEVICES`` restrict what is seen.
        clock: seconds that only go forward, for back-off.
        kfd: the file of AMD's compute driver.
    """

    def __init__(
        self,
        library: object | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        kfd: Path = _KFD,
    ) -> None:
        super().__init__("amd", _DEVICE_FILES, clock)
        self._library: Any = library
        self._environ = os.environ if environ is None else environ
        self._kfd = kfd

    def _load(self) -> Guard | Failure:
        if self._library is None:
            self._installed = self._kfd.exists()
            if not self._installed:
                return Failure(None, _NO_KFD)
            library = _import()
            if isinstance(library, Failure):
                return library
            self._library = library
        self._installed = True
        return Guard(self._library, _explain)

    def _start(self, guard: Guard) -> Failure | None:
        answer = guard("amdsmi_init")
        return answer if isinstance(answer, Failure) else None

    def _list(self, guard: Guard) -> Opened[_Handle] | Failure:
        natives = guard("amdsmi_get_processor_handles")
        if isinstance(natives, Failure):
            return natives
        found = [_handle(guard, native, index, self._vram) for index, native in enumerate(natives)]
        handles = [handle for handle in found if not isinstance(handle, Failure)]
        failures = [handle for handle in found if isinstance(handle, Failure)]
        if failures and not handles:
            return failures[0]
        return Opened(_version(guard, handles), tuple(visible_to_rocm(handles, self._environ)))

    def _shut(self, guard: Guard) -> None:
        guard("amdsmi_shut_down")

    def _read_device(self, guard: Guard, handle: _Handle) -> DeviceUse | Failure:
        memory = guard("amdsmi_get_gpu_memory_usage", handle.native, self._vram)
        if isinstance(memory, Failure) and memory.code in _GONE:
            return memory
        listed = guard("amdsmi_get_gpu_process_list", handle.native)
        failed = isinstance(listed, Failure)
        return DeviceUse(
            uuid=handle.device.uuid,
            memory=Reading.unavailable(memory.reason) if isinstance(memory, Failure) else Reading.exact(int(memory)),
            utilisation=_utilisation(guard, handle),
            processes=None if failed else tuple(_process_use(entry) for entry in listed if _is_process(entry)),
            processes_reason=listed.reason if failed else "",
        )

    @property
    def _vram(self) -> Any:
        return self._library.AmdSmiMemoryType.VRAM


def _import() -> Any:
    """The module amdsmi. Without its C library it prints to standard output and raises KeyError when imported."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module("amdsmi")
    except ImportError:
        return Failure(None, _NO_BINDING)
    except Exception:  # noqa: BLE001  # KeyError today; which one is an accident of the binding
        return Failure(None, _NO_LIBRARY)


def _explain(error: Exception) -> Failure:
    code = getattr(error, "err_code", None)
    if not isinstance(code, int):
        return Failure(None, f"AMD's Python binding failed: {type(error).__name__}: {error}"[:200])
    return Failure(code, _REASONS.get(code) or f"AMD's driver refused with error {code}.")


def _handle(guard: Guard, native: Any, index: int, vram: Any) -> _Handle | Failure:
    uuid = guard("amdsmi_get_gpu_device_uuid", native)
    if isinstance(uuid, Failure):
        return uuid
    total = guard("amdsmi_get_gpu_memory_total", native, vram)
    if isinstance(total, Failure) and total.code in _GONE:
        return total
    asic = guard("amdsmi_get_gpu_asic_info", native)
    name = "" if isinstance(asic, Failure) else str(asic.get("market_name", ""))
    # AMD SMI's total leaves out what the firmware keeps, so all of it is usable.
    memory = Memory(0 if isinstance(total, Failure) else int(total))
    device = Device(uuid, index, socket.gethostname(), kind_of(name), name, memory, memory)
    return _Handle(device, Physical(index, _hip_uuid(guard, native, uuid)), native)


def _hip_uuid(guard: Guard, native: Any, uuid: str) -> str:
    """The name that HIP_VISIBLE_DEVICES uses, which is not AMD SMI's own."""
    numbers = guard("amdsmi_get_gpu_enumeration_info", native)
    return uuid if isinstance(numbers, Failure) else str(numbers.get("hip_uuid") or uuid)


def _version(guard: Guard, handles: Sequence[_Handle]) -> str:
    if not handles:
        return ""
    info = guard("amdsmi_get_gpu_driver_info", handles[0].native)
    return "" if isinstance(info, Failure) else str(info.get("driver_version", ""))


def _utilisation(guard: Guard, handle: _Handle) -> Reading:
    activity = guard("amdsmi_get_gpu_activity", handle.native)
    if isinstance(activity, Failure):
        return Reading.unavailable(activity.reason)
    # "N/A" where the device does not say.
    busy = activity.get("gfx_activity")
    if isinstance(busy, int) and 0 <= busy <= _FULL:
        return Reading.exact(busy)
    return Reading.unavailable(_IMPOSSIBLE_UTILISATION)


def _is_process(entry: Mapping[str, Any]) -> bool:
    return 0 < int(entry["pid"]) <= _LARGEST_PID


def _process_use(entry: Mapping[str, Any]) -> ProcessUse:
    held = Reading.exact(int(entry["memory_usage"]["vram_mem"]))
    return ProcessUse(int(entry["pid"]), held, Reading.unavailable(_NO_PROCESS_UTILISATION))
