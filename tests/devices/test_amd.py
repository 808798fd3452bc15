"""AMD's driver, healthy and hostile, behind a binding with amdsmi's names."""

# ruff: noqa: ARG002  # the functions take what the binding that they stand for takes
from __future__ import annotations

import subprocess
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.amd import AmdSource
from jupyter_gpushare.devices.device import DriverState

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED = 2, 10, 34


class AmdSmiLibraryException(Exception):  # noqa: N818  # the binding's name
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.err_code = code


class FakeAmdSmi:
    """A small real AMD SMI in memory: *fails* maps a function's name to the code that it fails with."""

    class AmdSmiMemoryType(IntEnum):
        """As the binding's, as far as it is used."""

        VRAM = 0

    def __init__(self, gpus: int = 1, **fails: int) -> None:
        self.gpus = gpus
        self.fails = fails
        self.users = 0
        self.processes: list[dict[str, Any]] = []

    def amdsmi_init(self) -> None:
        self.enter("amdsmi_init")
        self.users += 1

    def amdsmi_shut_down(self) -> None:
        self.users -= 1

    def amdsmi_get_processor_handles(self) -> list[int]:
        self.enter("amdsmi_get_processor_handles")
        return list(range(self.gpus))

    def amdsmi_get_gpu_device_uuid(self, gpu: int) -> str:
        self.enter("amdsmi_get_gpu_device_uuid")
        return f"7dff74a0-0000-1000-80c9-{gpu:012d}"

    def amdsmi_get_gpu_enumeration_info(self, gpu: int) -> dict[str, Any]:
        self.enter("amdsmi_get_gpu_enumeration_info")
        return {"hip_id": gpu, "hip_uuid": f"GPU-{gpu:016d}"}

    def amdsmi_get_gpu_asic_info(self, gpu: int) -> dict[str, Any]:
        self.enter("amdsmi_get_gpu_asic_info")
        return {"market_name": "AMD Instinct MI300X"}

    def amdsmi_get_gpu_driver_info(self, gpu: int) -> dict[str, str]:
        self.enter("amdsmi_get_gpu_driver_info")
        return {"driver_name": "amdgpu", "driver_version": "6.12.12"}

    def amdsmi_get_gpu_memory_total(self, gpu: int, kind: AmdSmiMemoryType) -> int:
        self.enter("amdsmi_get_gpu_memory_total")
        assert kind is self.AmdSmiMemoryType.VRAM
        return 192 * GIB

    def amdsmi_get_gpu_memory_usage(self, gpu: int, kind: AmdSmiMemoryType) -> int:
        self.enter("amdsmi_get_gpu_memory_usage")
        return 3 * GIB

    def amdsmi_get_gpu_activity(self, gpu: int) -> dict[str, Any]:
        self.enter("amdsmi_get_gpu_activity")
        return {"gfx_activity": 42, "umc_activity": "N/A", "mm_activity": "N/A"}

    def amdsmi_get_gpu_process_list(self, gpu: int) -> list[dict[str, Any]]:
        self.enter("amdsmi_get_gpu_process_list")
        return self.processes

    def enter(self, name: str) -> None:
        if name in self.fails:
            raise AmdSmiLibraryException(self.fails[name])


def process(pid: int, held: int) -> dict[str, Any]:
    """One entry of the binding's process list."""
    return {"name": "python", "pid": pid, "mem": held, "memory_usage": {"vram_mem": held}, "engine_usage": {"gfx": 0}}


def source(library: object, **environ: str) -> AmdSource:
    """A source whose time stands still."""
    return AmdSource(library, environ=environ, clock=lambda: 0.0)


def test_a_healthy_device_is_read_whole() -> None:
    """Memory, utilisation and each process's memory come out; utilisation per process says why it is missing."""
    library = FakeAmdSmi()
    library.processes = [process(7, 2 * GIB), process(0, 1), process(0xFFFFFFFF, 1)]
    amd = source(library)
    (device,) = amd.devices()
    (use,) = amd.read()
    assert (device.kind, device.total.bytes, device.usable) == ("mi300x", 192 * GIB, device.total)
    assert (use.memory.value, use.utilisation.value) == (3 * GIB, 42)
    assert use.processes is not None
    assert [(p.pid, p.memory.value, p.utilisation.value) for p in use.processes] == [(7, 2 * GIB, None)]
    assert (amd.driver().vendor, amd.driver().version, amd.driver().state) == ("amd", "6.12.12", DriverState.READY)


@pytest.mark.parametrize(
    "call", ["amdsmi_get_gpu_memory_usage", "amdsmi_get_gpu_activity", "amdsmi_get_gpu_process_list"]
)
def test_one_failing_call_takes_away_one_reading_only(call: str) -> None:
    """Whatever one call refuses, the rest of the device is still shown."""
    (use,) = source(FakeAmdSmi(**{call: NOT_SUPPORTED})).read()
    assert (use.memory.value is None) == (call == "amdsmi_get_gpu_memory_usage")
    assert (use.utilisation.value is None) == (call == "amdsmi_get_gpu_activity")
    assert (use.processes is None) == bool(use.processes_reason) == (call == "amdsmi_get_gpu_process_list")


def test_names_and_versions_that_fail_do_not_hide_a_device() -> None:
    """A device whose name cannot be read is still a device."""
    refused = ["amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_driver_info", "amdsmi_get_gpu_enumeration_info"]
    amd = source(FakeAmdSmi(**dict.fromkeys(refused, NOT_SUPPORTED)))
    assert [device.kind for device in amd.devices()] == ["gpu"]


@pytest.mark.parametrize(
    ("code", "words"), [(DRIVER_NOT_LOADED, "modprobe amdgpu"), (NO_PERMISSION, "video and render"), (99, "error 99")]
)
def test_an_absent_driver_says_what_to_do(code: int, words: str) -> None:
    """A person without a working driver learns the next step."""
    amd = source(FakeAmdSmi(amdsmi_init=code))
    assert amd.driver().state is DriverState.ABSENT
    assert words in amd.driver().reason
    assert amd.read() == ()


def test_a_driver_lost_in_mid_run_is_lost() -> None:
    """A driver that stops answering reads as not available with the reason, and its devices stay in sight."""
    library = FakeAmdSmi(2)
    amd = source(library)
    amd.read()
    library.fails["amdsmi_get_gpu_memory_usage"] = DRIVER_NOT_LOADED
    assert [use.memory.value for use in amd.read()] == [None, None]
    assert amd.driver().state is DriverState.LOST
    assert len(amd.devices()) == 2
    assert library.users == 0


def test_a_nonsense_answer_is_a_failure_of_one_device_only() -> None:
    """An entry without the fields that the binding promises does not take the server down."""
    library = FakeAmdSmi()
    library.processes = [{"pid": 7}]
    (use,) = source(library).read()
    assert use.processes is None
    assert "makes no sense" in use.processes_reason


def test_a_device_that_may_not_be_asked_leaves_no_user_behind() -> None:
    """If no device answers, the library is let go again and the reason is shown."""
    library = FakeAmdSmi(amdsmi_get_gpu_device_uuid=NO_PERMISSION)
    amd = source(library)
    assert "video and render" in amd.driver().reason
    assert library.users == 0


def test_the_environment_restricts_what_is_seen() -> None:
    """HIP's own names of devices choose what the session shows."""
    amd = source(FakeAmdSmi(3), HIP_VISIBLE_DEVICES="GPU-0000000000000001,0")
    assert [device.index for device in amd.devices()] == [0, 1]


def test_without_the_compute_driver_the_binding_is_not_even_imported(tmp_path: Path) -> None:
    """On a machine without AMD hardware nothing is imported, and the reason names what is missing."""
    amd = AmdSource(environ={}, kfd=tmp_path / "kfd")
    assert "/dev/kfd" in amd.driver().reason
    assert not amd.installed
    assert amd.calls == 0


BINDINGS = {
    "raise ImportError": "pip install",
    "print('Unable to find libamd_smi.so'); raise KeyError('libamd_smi.so')": "amd-smi-lib",
}


@pytest.mark.parametrize("body", BINDINGS)
def test_a_binding_without_its_library_is_explained_and_prints_nothing(tmp_path: Path, body: str) -> None:
    """The real binding prints and raises KeyError without its C library: people get the reason, their output nothing."""
    (tmp_path / "amdsmi.py").write_text(body)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from pathlib import Path;"
        "from jupyter_gpushare.devices.amd import AmdSource;"
        "print(AmdSource(environ={}, kfd=Path('/dev/null')).driver().reason)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert BINDINGS[body] in done.stdout
    assert "Unable" not in done.stdout
