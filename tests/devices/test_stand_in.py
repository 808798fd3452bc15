"""The stand-in driver of the benchmarks, loaded by the real binding in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.stand_in import build as stand_in

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the stand-in, built once."""
    return stand_in.build(tmp_path_factory.mktemp("stand-in"))


def run(code: str, environment: dict[str, str]) -> Any:
    """What *code* puts into ``answer``, in a process that sees the stand-in."""
    program = f"import json\n{textwrap.dedent(code)}\nprint(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_real_binding_reads_devices_and_processes_through_our_source(library: Path, tmp_path: Path) -> None:
    """NvmlSource works on the real pynvml: devices, memory, and the use of each process."""
    processes = tmp_path / "processes"
    processes.write_text("0 4242 1024 30\n0 4243 2048 0\n1 4242 512 10\n")
    code = """
        from jupyter_gpushare.devices.nvml import NvmlSource
        source = NvmlSource(environ={})
        uses = source.read()
        answer = {
            "state": source.driver().state,
            "kinds": [d.kind for d in source.devices()],
            "usable": source.devices()[0].usable.bytes,
            "memory": [u.memory.value for u in uses][:2],
            "processes": [[p.pid, p.memory.value, p.utilisation.value] for p in uses[0].processes],
            "idle": uses[3].processes,
        }
    """
    assert run(code, stand_in.environment(library, devices=4, processes=processes)) == {
        "state": "ready",
        "kinds": ["a100"] * 4,
        "usable": 40 * GIB - (512 << 20),
        "memory": [3 * GIB, 512 << 20],
        "processes": [[4242, GIB, 30], [4243, 2 * GIB, 0]],
        "idle": [],
    }


def test_mig_instances_of_the_stand_in_are_devices(library: Path) -> None:
    """The real binding's MIG calls are used rightly: instances take the place of the divided GPU."""
    code = """
        from jupyter_gpushare.devices.nvml import NvmlSource
        source = NvmlSource(environ={})
        answer = [[d.kind, d.is_mig] for d in source.devices()], source.read()[0].utilisation.value
    """
    devices, utilisation = run(code, stand_in.environment(library, devices=2, instances=2))
    assert devices == [["a100-1g.5gb", True], ["a100-1g.5gb", True], ["a100", False]]
    assert utilisation is None


def test_calls_are_counted_from_outside(library: Path, tmp_path: Path) -> None:
    """The benchmark's proof that an unwatched server makes no call: the library itself counts, not our code."""
    counter = tmp_path / "calls"
    environment = stand_in.environment(library, devices=8, counter=counter)
    choose = """
        from jupyter_gpushare.devices.discovery import open_source
        source = open_source({})
        answer = source.calls
    """
    assert run(choose, environment) == 0
    assert stand_in.calls(counter) == 0
    assert run(f"{choose}\n        source.read()", environment) == 0
    assert stand_in.calls(counter) > 8 * 3


def test_the_dashboard_that_we_compare_with_finds_everything_that_it_asks_for(library: Path) -> None:
    """jupyterlab-nvdashboard's calls are answered, so that the comparison is of real work."""
    code = """
        import pynvml
        pynvml.nvmlInit()
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        for gpu in gpus:
            pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu, pynvml.nvmlDeviceGetMemoryInfo(gpu).total
            pynvml.nvmlDeviceGetPcieThroughput(gpu, pynvml.NVML_PCIE_UTIL_TX_BYTES)
            pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu), pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)
        try:
            pynvml.nvmlDeviceGetNvLinkVersion(gpus[0], 0)
        except pynvml.NVMLError_NotSupported:
            answer = len(gpus)
    """
    assert run(code, stand_in.environment(library)) == 8


def test_a_slow_driver_takes_its_time(library: Path) -> None:
    """The delay of the benchmark's slow driver is really there: reading eight devices takes many delays."""
    code = """
        import time
        from jupyter_gpushare.devices.nvml import NvmlSource
        source = NvmlSource(environ={})
        source.driver()
        began = time.monotonic()
        source.read()
        answer = time.monotonic() - began
    """
    assert run(code, stand_in.environment(library, delay_ms=5)) >= 8 * 3 * 0.005


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a C compiler the benchmark says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(stand_in.NoCompilerError, match="apt-get install gcc"):
        stand_in.build(tmp_path / "out")
