"""CUDA's checkpoint where there is no GPU: what is missing is said exactly. The rest is in tests/gpu."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.identity import Identity, identify, myself
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.cuda import CudaCheckpoint
from tests.parking.stage import Kernels, state_letter, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\nGCC version: 12.3.0\n"
)
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.158  Fri May 1 2025\n"
UUID = bytes(range(16))


def word(name: str) -> SimpleNamespace:
    """A member of the driver's enumerations, of which only the name counts."""
    return SimpleNamespace(name=name)


DONE = word("CUDA_SUCCESS")
RUNNING = word("CU_PROCESS_STATE_RUNNING")


class TinyDriver:
    """As much of cuda.bindings.driver as calls and claims need; any process is known to it."""

    CUcheckpointLockArgs = SimpleNamespace

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.states = [RUNNING]
        self.start: SimpleNamespace | Exception = DONE
        self.answer = DONE
        self.version = 13000
        self.contexts = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        self.calls.append((name, *arguments))
        self.contexts += {"cuDevicePrimaryCtxRetain": 1, "cuDevicePrimaryCtxRelease": -1}.get(name, 0)
        if name == "cuDriverGetVersion" and isinstance(self.start, Exception):
            raise self.start
        if name == "cuCheckpointProcessGetState":
            return self.answer, self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if name == "cuDeviceGetUuid":
            return DONE, SimpleNamespace(bytes=UUID if arguments[0] == 1 else bytes(16))
        fixed = {
            "cuDriverGetVersion": (DONE, self.version),
            "cuInit": (self.start,),
            "cuDeviceGetCount": (DONE, 2),
            "cuDeviceGet": (DONE, *arguments),
            "cuDevicePrimaryCtxRetain": (DONE, "context"),
            "cuDevicePrimaryCtxRelease": (DONE,),
            "cuCtxSetCurrent": (DONE,),
            "cuMemFree": (DONE,),
        }
        return fixed.get(name, (self.answer, "pointer"))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> TinyDriver:
    """A driver that starts, whether or not cuda-bindings is installed."""
    tiny = TinyDriver()
    bindings = ModuleType("cuda.bindings")
    bindings.__dict__["driver"] = tiny
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return tiny


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    """Programs that end with the test."""
    kernels = Kernels()
    yield kernels
    kernels.close()


def version_file(directory: Path, text: str) -> Path:
    """What the kernel module says."""
    file = directory / "version"
    file.write_text(text)
    return file


def test_this_machines_driver_is_missing_or_there() -> None:
    """The real bindings, whatever machine this is: a driver that cannot be used says why, and one that can says nothing."""
    driver = CudaCheckpoint().driver()
    assert driver.missing or driver.cuda


def test_without_any_driver_that_is_said(tmp_path: Path, tiny: TinyDriver) -> None:
    """A machine without a GPU names both things that are not there, and no call does anything."""
    tiny.start = RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.')
    checkpoint = CudaCheckpoint(version_file=tmp_path / "missing")
    assert checkpoint.driver().missing == (
        "there is no NVIDIA driver here: neither its library libcuda.so.1 nor its kernel module"
    )
    with pytest.raises(CheckpointError) as refused:
        checkpoint.state(myself())
    assert refused.value.code == "not_supported"


def test_without_the_bindings_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional, and the sentence names it."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert "pip install 'jupyter_gpushare[gpu]'" in CudaCheckpoint().driver().missing


@pytest.mark.parametrize(("text", "version"), [(OPEN_MODULE, "580.95.05"), (CLOSED_MODULE, "570.158"), ("?", "")])
def test_the_kernel_modules_version(tmp_path: Path, tiny: TinyDriver, text: str, version: str) -> None:
    """Both kinds of kernel module say their version, and nonsense is no version."""
    driver = CudaCheckpoint(version_file=version_file(tmp_path, text)).driver()
    assert (driver.version, driver.cuda, driver.missing) == (version, "13.0", "")


def test_a_library_that_is_missing_beside_its_module_is_told_apart(tmp_path: Path, tiny: TinyDriver) -> None:
    """In a container without the driver's libraries, the remedy is another one than installing a driver."""
    tiny.start = RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.')
    missing = CudaCheckpoint(version_file=version_file(tmp_path, OPEN_MODULE)).driver().missing
    assert "libcuda.so.1 cannot be loaded" in missing
    assert "580.95.05" in missing


def test_an_old_driver_is_said_to_be_old(tmp_path: Path, tiny: TinyDriver) -> None:
    """A driver before 570 lacks the calls, and the sentence says what to install."""
    tiny.version = 12040
    missing = CudaCheckpoint(version_file=version_file(tmp_path, CLOSED_MODULE)).driver().missing
    assert "570.158 cannot checkpoint processes: install 570 or newer" in missing
    assert ("cuInit", 0) not in tiny.calls


def test_a_driver_that_does_not_start_is_quoted(tmp_path: Path, tiny: TinyDriver) -> None:
    """The driver's own word, such as CUDA_ERROR_NO_DEVICE, reaches people."""
    tiny.start = word("CUDA_ERROR_NO_DEVICE")
    assert "CUDA_ERROR_NO_DEVICE" in CudaCheckpoint().driver().missing


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("INVALID_VALUE", "invalid_value"),
        ("OUT_OF_MEMORY", "out_of_memory"),
        ("NOT_INITIALIZED", "not_initialized"),
        ("OPERATING_SYSTEM", "operating_system"),
        ("ILLEGAL_STATE", "illegal_state"),
        ("NOT_READY", "not_ready"),
        ("NOT_SUPPORTED", "not_supported"),
        ("NOT_PERMITTED", "not_permitted"),
        ("LAUNCH_FAILED", "unknown"),
    ],
)
def test_the_drivers_errors_have_codes(tiny: TinyDriver, name: str, code: str) -> None:
    """Each error of the reference is told from the others; a new one is unknown and quoted."""
    checkpoint = CudaCheckpoint()
    tiny.answer = word(f"CUDA_ERROR_{name}")
    with pytest.raises(CheckpointError, match=name) as error:
        checkpoint.restore(myself())
    assert error.value.code == code


def test_the_calls_and_their_states(tiny: TinyDriver) -> None:
    """Each call goes to the driver with the process's id; a lock with its time limit; a move in flight is waited for."""
    checkpoint, me = CudaCheckpoint(), myself()
    checkpoint.lock(me, 1500)
    assert tiny.calls[-1] == ("cuCheckpointProcessLock", me.pid, SimpleNamespace(timeoutMs=1500))
    for move in ("Checkpoint", "Restore", "Unlock"):
        getattr(checkpoint, move.lower())(me)
        assert tiny.calls[-1] == (f"cuCheckpointProcess{move}", me.pid, None)
    tiny.states = [word("CU_PROCESS_STATE_CHECKPOINTING"), word("CU_PROCESS_STATE_CHECKPOINTED")]
    assert checkpoint.state(me) is ProcessState.CHECKPOINTED
    tiny.states = [word("CU_PROCESS_STATE_FAILED")]
    assert checkpoint.state(me) is ProcessState.FAILED


def test_only_the_process_that_is_meant_is_touched(tiny: TinyDriver, kernels: Kernels) -> None:
    """Another process with the same id, a thread, and a stopped process never reach the driver."""
    checkpoint, me, process = CudaCheckpoint(), myself(), kernels.start()
    before = len(tiny.calls)

    def refused(victim: Identity) -> str:
        with pytest.raises(CheckpointError) as error:
            checkpoint.lock(victim, 10)
        return error.value.code

    assert refused(me._replace(start=me.start - 1)) == "gone"
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert thread.native_id is not None
    whose = identify(thread.native_id)
    assert whose is not None
    assert refused(whose) == "invalid_value"
    done.set()
    thread.join()
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: state_letter(process) == "T")
    assert refused(process) == "not_ready"
    assert len(tiny.calls) == before


def test_a_claim_takes_frees_and_leaves_no_context(tiny: TinyDriver) -> None:
    """Room is proven on the device that is meant; its context never stays, not even when there is no room."""
    checkpoint = CudaCheckpoint()
    uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    checkpoint.claim(uuid, 1000)
    assert ("cuDevicePrimaryCtxRetain", 1) in tiny.calls
    assert ("cuMemAlloc", 1000) in tiny.calls
    assert ("cuMemFree", "pointer") in tiny.calls
    assert tiny.contexts == 0
    tiny.answer = word("CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(CheckpointError) as full:
        checkpoint.claim(uuid, 1000)
    assert full.value.code == "out_of_memory"
    assert tiny.contexts == 0
    with pytest.raises(CheckpointError, match="GPU-ff"):
        checkpoint.claim("GPU-ff", 1000)
