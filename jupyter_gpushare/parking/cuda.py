"""CUDA's own process checkpoint (CUDA Driver API, "CUDA Checkpointing"; driver 570 and newer).

Same user, no privilege: comparable to attaching a debugger. Every call may hang, and a thread's id would stand for its
whole process, so the process that is meant is looked at right before each.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError, ErrorCode, ProcessState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.devices.identity import Identity

__all__ = ["CudaCheckpoint"]

_OLDEST_CUDA: Final = 12080
_VERSION_FILE: Final = Path("/proc/driver/nvidia/version")
_VERSION: Final = re.compile(r"\b(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")
_STATUS: Final = re.compile(rb"^(State|Tgid):\s+(\S+)", re.MULTILINE)
_MOVING: Final = frozenset({"CU_PROCESS_STATE_CHECKPOINTING", "CU_PROCESS_STATE_RESTORING"})
_LOOK_AGAIN_S: Final = 0.02
_CODES: Final[dict[str, ErrorCode]] = {
    "CUDA_ERROR_INVALID_VALUE": "invalid_value",
    "CUDA_ERROR_OUT_OF_MEMORY": "out_of_memory",
    "CUDA_ERROR_NOT_INITIALIZED": "not_initialized",
    "CUDA_ERROR_OPERATING_SYSTEM": "operating_system",
    "CUDA_ERROR_ILLEGAL_STATE": "illegal_state",
    "CUDA_ERROR_NOT_READY": "not_ready",
    "CUDA_ERROR_NOT_SUPPORTED": "not_supported",
    "CUDA_ERROR_NOT_PERMITTED": "not_permitted",
}
_NEEDED: Final = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")


class CudaCheckpoint:
    """The driver of this host. Made once: initialising it can take seconds.

    Args:
        proc: where proc(5) is mounted.
        version_file: where the kernel module says its version.
    """

    def __init__(self, proc: Path = Path("/proc"), version_file: Path = _VERSION_FILE) -> None:
        self._proc = proc
        self._version = _module_version(version_file)
        self._cuda: Any = None
        self._cuda_version = 0
        self._missing = self._initialise()

    def driver(self) -> CheckpointDriver:
        """Which driver this is, and what is missing to use it."""
        major, rest = divmod(self._cuda_version, 1000)
        cuda = f"{major}.{rest // 10}" if self._cuda_version else ""
        return CheckpointDriver("nvidia", self._version, cuda, self._missing)

    def state(self, process: Identity) -> ProcessState:
        """What the process may do now. Blocks while its memory moves."""
        while True:
            name = self._on(process, "GetState")[0].name
            if name not in _MOVING:
                break
            time.sleep(_LOOK_AGAIN_S)
        try:
            return ProcessState(name.removeprefix("CU_PROCESS_STATE_").lower())
        except ValueError:
            raise CheckpointError("unknown", f"the driver says that process {process.pid} is {name}") from None

    def lock(self, process: Identity, timeout_ms: int) -> None:
        """RUNNING to LOCKED."""
        self._require_driver()
        arguments = self._cuda.CUcheckpointLockArgs()
        arguments.timeoutMs = timeout_ms
        self._on(process, "Lock", arguments)

    def checkpoint(self, process: Identity) -> None:
        """LOCKED to CHECKPOINTED."""
        self._on(process, "Checkpoint", None)

    def restore(self, process: Identity) -> None:
        """CHECKPOINTED to LOCKED."""
        self._on(process, "Restore", None)

    def unlock(self, process: Identity) -> None:
        """LOCKED to RUNNING."""
        self._on(process, "Unlock", None)

    def claim(self, device: str, size: int) -> None:
        """Take *size* bytes of *device* and free them."""
        self._require_driver()
        with self._context(self._device(device)):
            (pointer,) = self._done(self._cuda.cuMemAlloc(size), f"claim of {size} bytes")
            self._done(self._cuda.cuMemFree(pointer), "free of a claim")

    @contextmanager
    def _context(self, device: object) -> Iterator[None]:
        # Only for the moment: a context keeps 0.3 to 0.6 GB of the device, which the kernel that comes back may need.
        (context,) = self._done(self._cuda.cuDevicePrimaryCtxRetain(device), "context for a claim")
        try:
            self._done(self._cuda.cuCtxSetCurrent(context), "context for a claim")
            yield
        finally:
            self._cuda.cuCtxSetCurrent(None)
            self._done(self._cuda.cuDevicePrimaryCtxRelease(device), "release of a claim's context")

    def _device(self, uuid: str) -> object:
        # The driver and NVML write the same sixteen bytes, of a whole GPU as of a MIG instance.
        wanted = uuid.partition("-")[2].replace("-", "").lower()
        (count,) = self._done(self._cuda.cuDeviceGetCount(), "count of devices")
        for number in range(count):
            (device,) = self._done(self._cuda.cuDeviceGet(number), "device")
            (found,) = self._done(self._cuda.cuDeviceGetUuid(device), "device's UUID")
            if bytes(found.bytes).hex() == wanted:
                return device
        raise CheckpointError("invalid_value", f"device: {uuid} is none of the {count} that the driver shows")

    def _on(self, process: Identity, call: str, *arguments: object) -> tuple[Any, ...]:
        self._require_driver()
        self._require_whole(process)
        function = getattr(self._cuda, f"cuCheckpointProcess{call}")
        try:
            return self._done(function(process.pid, *arguments), f"{call} of process {process.pid}")
        except CheckpointError as error:
            if identify(process.pid) != process:
                raise CheckpointError("gone", f"process {process.pid} has ended") from error
            raise

    def _require_driver(self) -> None:
        if self._missing:
            raise CheckpointError("not_supported", self._missing)

    def _require_whole(self, process: Identity) -> None:
        if identify(process.pid) != process:
            raise CheckpointError("gone", f"process {process.pid} has ended")
        try:
            status = dict(_STATUS.findall((self._proc / str(process.pid) / "status").read_bytes()))
        except OSError as error:
            raise CheckpointError("gone", f"process {process.pid} has ended") from error
        if status.get(b"Tgid") != str(process.pid).encode():
            raise CheckpointError("invalid_value", f"{process.pid} is a thread, no process")
        if status.get(b"State") in {b"T", b"t"}:
            # The driver would wait for ever, whatever its own time limit says.
            raise CheckpointError("not_ready", f"process {process.pid} is stopped: kill -CONT {process.pid}")

    def _done(self, answer: tuple[Any, ...], what: str) -> tuple[Any, ...]:
        result, *values = answer
        if result.name != "CUDA_SUCCESS":
            raise CheckpointError(_CODES.get(result.name, "unknown"), f"{what}: {result.name}")
        return tuple(values)

    def _initialise(self) -> str:
        """Initialise the driver; what is missing, with what to do, or nothing."""
        try:
            from cuda.bindings import driver
        except ImportError as error:
            return f"the package cuda-bindings cannot be imported ({error}): pip install 'jupyter_gpushare[gpu]'"
        if lacking := [name for name in _NEEDED if not hasattr(driver, f"cuCheckpointProcess{name}")]:
            return f"the package cuda-bindings lacks cuCheckpointProcess{lacking[0]}: install 12.8 or newer"
        self._cuda = driver
        try:
            (self._cuda_version,) = self._done(driver.cuDriverGetVersion(), "version")
            if self._cuda_version < _OLDEST_CUDA:
                return f"the NVIDIA driver {self._version} cannot checkpoint processes: install 570 or newer"
            self._done(driver.cuInit(0), "initialisation")
        except CheckpointError as error:
            return f"the NVIDIA driver does not start ({error.text}): look at nvidia-smi"
        except (RuntimeError, OSError) as error:  # cuda-bindings raises these when it finds no library or function
            return _absence(error, self._version)
        return ""


def _absence(error: Exception, version: str) -> str:
    if "not found" in str(error).lower() and version and "librar" not in str(error).lower():
        return f"the NVIDIA driver {version} lacks a function ({error}): install driver 570 or newer"
    if version:
        return (
            f"libcuda.so.1 cannot be loaded although the NVIDIA kernel module {version} is there: "
            "install the driver's libraries; in a container, give it the GPU with the capability 'compute'"
        )
    return "there is no NVIDIA driver here: neither its library libcuda.so.1 nor its kernel module"


def _module_version(file: Path) -> str:
    """As in ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build``."""
    try:
        found = _VERSION.search(file.read_text(errors="replace"))
    except OSError:
        return ""
    return found[1] if found else ""
