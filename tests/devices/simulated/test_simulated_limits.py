"""Memory limits as isolation modes enforce them: an allocation beyond its share fails when it is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated.limits import memory_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Program

MIB = 1 << 20
GIB = 1 << 30
MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"}
HAMI = {"GPUSHARE_SIMULATED_HAMI": "1"}


@pytest.mark.parametrize(
    ("environ", "limit"),
    [
        ({}, None),
        (MPS, None),
        (MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G"}, 8 * GIB),
        (MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=8G"}, None),
        (MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=8G, 0=512M"}, 512 * MIB),
        (MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "GPU-one=300M"}, 300 * MIB),
        ({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G"}, None),
        (HAMI | {"CUDA_DEVICE_MEMORY_LIMIT": "5g"}, 5 * GIB),
        (HAMI | {"CUDA_DEVICE_MEMORY_LIMIT": "5120m", "CUDA_DEVICE_MEMORY_LIMIT_0": "1g"}, GIB),
        (HAMI | {"CUDA_DEVICE_MEMORY_LIMIT_1": "1g"}, None),
        (HAMI | {"CUDA_DEVICE_MEMORY_LIMIT": "0"}, None),
        ({"CUDA_DEVICE_MEMORY_LIMIT": "5g"}, None),
        ({"LD_PRELOAD": "/lib/x.so:/usr/lib/libvgpu.so", "CUDA_DEVICE_MEMORY_LIMIT": "5g"}, 5 * GIB),
        (MPS | HAMI | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8G", "CUDA_DEVICE_MEMORY_LIMIT": "5g"}, 5 * GIB),
    ],
)
def test_a_limit_is_read_as_its_mode_reads_it(environ: dict[str, str], limit: int | None) -> None:
    """By index, by UUID, by default; and only where the mode is switched on."""
    assert memory_limit(environ, 0, "GPU-one") == limit


@pytest.mark.parametrize(
    "environ", [MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=much"}, HAMI | {"CUDA_DEVICE_MEMORY_LIMIT": "-1g"}]
)
def test_a_limit_that_is_no_amount_is_named(program: Callable[..., Program], environ: dict[str, str]) -> None:
    """A program with a broken limit gets no device, and the variable's name."""
    reply = program(**environ).run("cuda.allocate(1)")
    assert reply.startswith("raised CudaError: CUDA_")
    assert "write for example 8G" in reply


@pytest.mark.parametrize(
    "environ",
    [
        MPS | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"},
        HAMI | {"CUDA_DEVICE_MEMORY_LIMIT_0": "1024m"},
    ],
)
def test_more_than_the_share_fails_when_it_is_tried(program: Callable[..., Program], environ: dict[str, str]) -> None:
    """The device has room, the neighbour is not touched, and the program sees its own part as the whole."""
    one, neighbour = program(**environ), program()
    neighbour.run("a = cuda.allocate('1GiB')")
    assert one.run("answer = cuda.mem_get_info()") == str((768 * MIB, GIB))
    assert one.run("a = cuda.allocate('700MiB'); answer = cuda.mem_get_info()[0]") == str(68 * MIB)
    reply = one.run("b = cuda.allocate('100MiB')")
    assert reply.startswith("raised OutOfMemoryError")
    assert "68 MiB of 1.00 GiB free" in reply
    assert one.run("b = cuda.allocate('60MiB'); answer = b.size") == str(60 * MIB)
    assert one.run("c = cuda.allocate('1GiB', device=1); answer = c.size") == str(GIB)
    neighbour.run("b = cuda.allocate('600MiB')")


def test_a_limit_below_a_context_refuses_the_context(program: Callable[..., Program]) -> None:
    """What does not even hold the context is said at the first use."""
    reply = program(**HAMI, CUDA_DEVICE_MEMORY_LIMIT="100m").run("cuda.allocate(1)")
    assert reply.startswith("raised OutOfMemoryError")
    assert "a context takes 256 MiB" in reply


def test_a_limit_larger_than_the_device_is_none(program: Callable[..., Program]) -> None:
    """The device itself is the bound then, and shows as it is."""
    assert program(**HAMI, CUDA_DEVICE_MEMORY_LIMIT="90g").run("answer = cuda.mem_get_info()[1]") == str(4 * GIB)
