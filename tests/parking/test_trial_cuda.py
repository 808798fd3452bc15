"""The trial program's memory on a real device, as far as it can be tried on a driver of memory alone."""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import Any

import pytest

from jupyter_gpushare.parking.trial_cuda import CudaMemory

SIZE = (2 << 20) + 100


class CUresult(Enum):
    """CUDA's answers, two of them."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2


class MemoryDriver:
    """CUDA's calls on a device that is a piece of this process's memory; the call named *fails* is refused."""

    CUresult = CUresult

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.device = (ctypes.c_char * SIZE)()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.call(name, *arguments)

    def call(self, name: str, *arguments: int) -> tuple[Any, ...]:
        """One call, answered as the binding does."""
        if name == self.fails:
            return (CUresult.CUDA_ERROR_OUT_OF_MEMORY,)
        if name in {"cuMemcpyHtoD", "cuMemcpyDtoH"}:
            ctypes.memmove(*arguments)
        return (CUresult.CUDA_SUCCESS, ctypes.addressof(self.device))


def test_one_changed_byte_shows() -> None:
    """The checksum is of all contents: it is the same when read twice, and another when any byte was changed."""
    driver = MemoryDriver()
    memory = CudaMemory(SIZE, driver)
    before = memory.checksum()
    assert memory.checksum() == before
    for offset in (0, 1 << 20, SIZE - 1):
        driver.device[offset] = bytes([driver.device[offset][0] ^ 1])
        assert memory.checksum() != before
        driver.device[offset] = bytes([driver.device[offset][0] ^ 1])
    assert memory.checksum() == before


def test_a_piece_in_a_wrong_place_shows() -> None:
    """No two pieces are alike, so that memory which comes back in another order is noticed."""
    driver = MemoryDriver()
    memory = CudaMemory(SIZE, driver)
    before = memory.checksum()
    first, second = driver.device.raw[: 1 << 20], driver.device.raw[1 << 20 : 2 << 20]
    ctypes.memmove(driver.device, second + first, 2 << 20)
    assert memory.checksum() != before


def test_two_programs_hold_different_contents() -> None:
    """One program's memory is never taken for another's, as left-over contents of the device could be."""
    assert CudaMemory(SIZE, MemoryDriver()).checksum() != CudaMemory(SIZE, MemoryDriver()).checksum()


@pytest.mark.parametrize("call", ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuMemAlloc", "cuMemcpyHtoD"])
def test_a_refused_call_is_named(call: str) -> None:
    """What CUDA refuses, and with which of its codes, is in the message that the doctor shows."""
    with pytest.raises(RuntimeError, match=f"{call}: CUDA_ERROR_OUT_OF_MEMORY"):
        CudaMemory(SIZE, MemoryDriver(fails=call))


def test_a_refused_synchronisation_is_named() -> None:
    """A synchronisation that fails is no silent success."""
    memory = CudaMemory(SIZE, driver := MemoryDriver())
    memory.synchronise()
    driver.fails = "cuCtxSynchronize"
    with pytest.raises(RuntimeError, match="cuCtxSynchronize"):
        memory.synchronise()


def test_the_binding_has_every_call() -> None:
    """The calls that are made exist in the installed cuda-bindings, which needs no driver to tell."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed (the extra 'gpu')")
    for name in ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc"):
        assert hasattr(driver, name)
    for name in ("cuMemcpyHtoD", "cuMemcpyDtoH", "cuCtxSynchronize"):
        assert hasattr(driver, name)
