"""The isolation modes on a real NVIDIA GPU: what is beyond the share fails when it is tried, or ends within seconds."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.attribution import Owner, attribute
from jupyter_gpushare.devices.process_tree import in_host_pid_namespace
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.isolation.caps import Caps
from jupyter_gpushare.session.isolation.hami_core import HamiCore, find_library
from jupyter_gpushare.session.isolation.mode import Slice
from jupyter_gpushare.session.isolation.mps import Mps
from jupyter_gpushare.session.isolation.mps_daemon import find_control
from jupyter_gpushare.session.isolation.switches import SWITCHES, visibility
from jupyter_gpushare.session.meter import Sample
from jupyter_gpushare.session.overrun import GRACE_S, Overrun
from tests.gpu.driven import DEADLINE_S, holding, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.nvml import NvmlSource
    from jupyter_gpushare.session.isolation.mode import Isolation

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]

GIB = 1 << 30
SHARE = 5 * GIB
#: What a context and the library's own bookkeeping may take of the share.
SLACK = 2 * GIB

#: Opens the device, and prints as JSON what it sees and which of the amounts (in bytes) it got.
BINDINGS = """
import json, sys
from cuda.bindings import driver as cuda

def call(answer):
    if answer[0] != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(answer[0]))
    return answer[1:] if len(answer) > 2 else answer[-1]

call(cuda.cuInit(0))
call(cuda.cuCtxSetCurrent(call(cuda.cuDevicePrimaryCtxRetain(call(cuda.cuDeviceGet(0))))))
free, total = call(cuda.cuMemGetInfo())
got = [cuda.cuMemAlloc(int(size))[0].name for size in sys.argv[1:]]
print(json.dumps({"total": total, "got": got}))
"""
#: Imports the part of ours first, as a kernel does; prints whether each amount was refused as out of memory.
TORCH = """
import json, sys
from jupyter_gpushare.notebook.caps import Caps
caps = Caps.install()
import torch
got = []
for size in map(int, sys.argv[1:]):
    try:
        kept = torch.empty(size, dtype=torch.uint8, device="cuda")
        got.append("held")
    except torch.cuda.OutOfMemoryError:
        got.append("refused")
print(json.dumps({"got": got, "problems": caps.problems}))
"""
CUPY = """
import json, sys
from jupyter_gpushare.notebook.caps import Caps
caps = Caps.install()
import cupy
got = []
for size in map(int, sys.argv[1:]):
    try:
        kept = cupy.empty(size, dtype=cupy.uint8)
        got.append("held")
    except cupy.cuda.memory.OutOfMemoryError:
        got.append("refused")
print(json.dumps({"got": got, "problems": caps.problems}))
"""
JAX = """
import json, sys
from jupyter_gpushare.notebook.caps import Caps
caps = Caps.install()
import jax
got = []
for size in map(int, sys.argv[1:]):
    try:
        kept = jax.block_until_ready(jax.numpy.zeros(size, dtype="uint8"))
        got.append("held")
    except Exception as error:
        got.append("refused" if "RESOURCE_EXHAUSTED" in str(error) else str(error))
print(json.dumps({"got": got, "problems": caps.problems}))
"""


@pytest.fixture(name="slices")
def _slices(source: NvmlSource) -> list[Slice]:
    """A share of 5 GiB on the first whole device."""
    whole = [device for device in source.devices() if not device.is_mig]
    if not whole:
        pytest.skip("only MIG instances here: the hardware divides them")
    return [Slice(whole[0], Memory(SHARE), Fraction.parse("0.5"))]


def environment_of(mode: Isolation, slices: Sequence[Slice]) -> dict[str, str]:
    """What a kernel of the session starts with."""
    return os.environ | SWITCHES | visibility(slices, {}) | mode.environment(slices, {})


def run(program: str, environ: Mapping[str, str], *sizes: int) -> Any:
    """What a program of its own printed. A hang is a failure."""
    command = [sys.executable, "-c", program, *map(str, sizes)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_under_mps_too_much_fails_when_it_is_tried(slices: list[Slice], figures: dict[str, Any]) -> None:
    """The client sees its share as the whole device, gets what fits and is refused the rest."""
    if find_control() is None:
        pytest.skip("nvidia-cuda-mps-control is not installed")
    # A short path, as the daemon's sockets go below it.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        mode = Mps(kernels=1, directory=Path(folder))
        asyncio.run(mode.prepare(slices))
        try:
            found = run(BINDINGS, environment_of(mode, slices), SHARE - SLACK, 5 * GIB)
        finally:
            asyncio.run(mode.close())
    figures["mps"] = found
    assert found["total"] <= SHARE
    assert found["got"] == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]


def test_under_hami_core_too_much_fails_when_it_is_tried(
    slices: list[Slice], figures: dict[str, Any], tmp_path: Path
) -> None:
    """The same with HAMi-core's library before CUDA's."""
    library = find_library(os.environ.get("GPUSHARE_HAMI_LIBRARY", ""))
    if library is None:
        pytest.skip("HAMi-core's libvgpu.so is not here; GPUSHARE_HAMI_LIBRARY may name it")
    mode = HamiCore(library=str(library), directory=tmp_path, session="test")
    found = run(BINDINGS, environment_of(mode, slices), SHARE - SLACK, 5 * GIB)
    figures["hami_core"] = found
    assert found["total"] <= SHARE
    assert found["got"] == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]


@pytest.mark.parametrize(("framework", "program"), [("torch", TORCH), ("cupy", CUPY), ("jax", JAX)])
def test_capped_frameworks_refuse_too_much(
    slices: list[Slice], figures: dict[str, Any], framework: str, program: str
) -> None:
    """Each framework that is installed takes its cap and says out of memory beyond it."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    found = run(program, environment_of(Caps(), slices), SHARE - SLACK, 10 * GIB)
    figures[f"caps_{framework}"] = found
    assert found == {"got": ["held", "refused"], "problems": []}


def test_the_guard_ends_the_offender_alone(source: NvmlSource, slices: list[Slice], figures: dict[str, Any]) -> None:
    """What calls CUDA itself is ended within seconds; the neighbour beside it holds its memory all the while."""
    losses: list[Loss] = []
    with holding("bindings") as offender, holding("bindings") as neighbour:
        owner = Owner("kernel", "offender")
        owner_of = {offender.pid: owner}.get
        guard = Overrun(
            lambda _devices: {slices[0].device.uuid: SHARE},
            owner_of=owner_of,
            kernel_pid=lambda _kernel: offender.pid,
            label=lambda _owner: "offender.ipynb",
            announce=lambda loss, _kernels, _why: losses.append(loss),
            notify=lambda _kernel, _message: None,
            log=logging.getLogger("test.guard"),
        )
        neighbour.do(f"hold {2 * GIB}")
        offender.do(f"hold {8 * GIB}")
        took = until(_looking(source, guard, owner_of, lambda: offender.process.poll() is not None), "the end")
        figures["guard"] = {"ended_s": took}
        assert offender.process.returncode == -signal.SIGKILL
        assert losses == [Loss.OVERRUN_OF_ITS_OWN]
        assert took >= GRACE_S
        neighbour.do("work 0.1")


def _looking(
    source: NvmlSource, guard: Overrun, owner_of: Callable[[int], Owner | None], done: Callable[[], bool]
) -> Callable[[], bool]:
    """Shows the guard a sample each time that *done* is asked for."""

    def look() -> bool:
        uses = source.read()
        attributed = attribute(uses, owner_of, has_open=source.has_open, roots=(), host_pids=in_host_pid_namespace())
        if not attributed.owners and not done():
            pytest.xfail("the driver's lists are of another namespace: the guard has nobody to act on, and does not")
        taken = time.monotonic()
        guard.look(Sample(time.time(), taken, source.driver(), tuple(source.devices()), tuple(uses), attributed))
        return done()

    return look
