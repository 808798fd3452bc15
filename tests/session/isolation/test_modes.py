"""What each isolation mode puts into a kernel's environment, and when it says that it cannot work."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated.limits import memory_limit
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.session.isolation.caps import CAPS_VARIABLE, Caps
from jupyter_gpushare.session.isolation.choose import MODES, IsolationSettings, choose_isolation
from jupyter_gpushare.session.isolation.hami_core import HamiCore
from jupyter_gpushare.session.isolation.mig import Mig
from jupyter_gpushare.session.isolation.mps import Mps
from jupyter_gpushare.session.isolation.page import page
from jupyter_gpushare.session.isolation.threats import THREATS
from tests.session.fake_source import GIB, device
from tests.session.isolation.places import put_hami_into, put_mps_on_path, slices

if TYPE_CHECKING:
    from jupyter_gpushare.session.isolation.mode import Isolation


@pytest.mark.parametrize("kind", MODES)
def test_each_mode_is_chosen_by_its_name(kind: type[Isolation]) -> None:
    """An admin's word gives exactly that mode."""
    mode = choose_isolation(IsolationSettings(kind.name), directory=Path("/d"), environ={}, pid=os.getpid())
    assert type(mode) is kind


def test_the_documentation_shows_these_modes() -> None:
    """docs/isolation.md is made from the code: python -m jupyter_gpushare.session.isolation.page."""
    assert (Path(__file__).parents[3] / "docs" / "isolation.md").read_text() == page()


def test_each_installation_has_one_table_of_threats() -> None:
    """Whoever runs a hub finds what holds there in one place, and no attempt twice."""
    attempts = Counter((threat.installation, threat.attempt) for threat in THREATS)
    assert set(attempts.values()) == {1}
    headings = [line.removeprefix("### ").lower() for line in page().splitlines() if line.startswith("### ")]
    assert Counter(headings) == Counter({threat.installation.lower() for threat in THREATS})


def test_a_slice_is_the_limit_of_the_share() -> None:
    """What may be held is the burst ceiling, of one device's usable memory."""
    (one,) = slices("0.25..0.5")
    assert (one.memory.bytes, one.percent) == (39 * GIB // 2, 50)
    (in_gib,) = slices("5GiB")
    assert (in_gib.memory.bytes, in_gib.percent) == (5 * GIB, 12)


def test_a_share_that_does_not_fit_has_no_slice() -> None:
    """A kernel is not given a limit of more than the device has."""
    assert slices("50GiB") == []


def test_caps_name_limit_and_total_of_each_device() -> None:
    """In the order in which the kernel sees its devices."""
    environment = Caps().environment(slices("2x5GiB", device(0), device(1)), {})
    assert environment == {CAPS_VARIABLE: ",".join([f"{5 * GIB}/{40 * GIB}"] * 2)}


def test_caps_name_the_smallest_where_the_order_is_unknown() -> None:
    """An admin's own order of devices does not give one of them another's cap."""
    environment = Caps().environment(slices("2x5GiB", device(0), device(1)), {"CUDA_VISIBLE_DEVICES": "1,0"})
    assert environment == {CAPS_VARIABLE: f"{5 * GIB}/{40 * GIB}"}


class TestHamiCore:
    """HAMi-core, with a library in its place."""

    @pytest.fixture(name="mode")
    def _mode(self, tmp_path: Path) -> HamiCore:
        return HamiCore(library=str(put_hami_into(tmp_path)), directory=tmp_path, session="7-8")

    def test_it_limits_memory_and_compute(self, mode: HamiCore, tmp_path: Path) -> None:
        """The limits are what the library reads, and they are the session's: one file for all of its kernels."""
        environment = mode.environment(slices("5GiB"), {})
        assert memory_limit(environment, 0, "GPU-0000") == 5 * GIB
        assert memory_limit(environment, 1, "GPU-0001") == 5 * GIB
        assert environment["CUDA_DEVICE_SM_LIMIT"] == "12"
        assert environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == str(tmp_path / "hami-7-8.cache")

    def test_it_goes_before_what_is_preloaded_already(self, mode: HamiCore, tmp_path: Path) -> None:
        """Neither is lost, and a library that is there already is not there twice."""
        own = str(tmp_path / "libvgpu.so")
        assert mode.environment(slices(), {"LD_PRELOAD": "/x.so /y.so"})["LD_PRELOAD"] == f"{own}:/x.so:/y.so"
        assert mode.environment(slices(), {"LD_PRELOAD": "/hami/libvgpu.so"})["LD_PRELOAD"] == "/hami/libvgpu.so"

    def test_limits_of_the_device_plugin_stay(self, mode: HamiCore) -> None:
        """In HAMi's own pods the pod's limits hold, with the pod's file."""
        environment = mode.environment(slices(), {"CUDA_DEVICE_MEMORY_LIMIT_0": "3000m"})
        assert set(environment) == {"LD_PRELOAD"}

    def test_without_its_library_it_says_where_it_looked(self, tmp_path: Path) -> None:
        """The problem names the file, the place and the setting."""
        missing = HamiCore(library=str(tmp_path / "none.so"), directory=tmp_path, session="1").problem(slices())
        assert missing is not None
        assert missing.code == "ISOLATION_HAMI_MISSING"
        assert str(tmp_path / "none.so") in missing.text
        assert "c.GpuShare.hami_library" in missing.text

    def test_it_is_parked_only_where_an_admin_has_measured_it(self, mode: HamiCore, tmp_path: Path) -> None:
        """Not parkable until measured: nothing is lent against it before."""
        assert isinstance(mode.not_parkable, NotParkable)
        assert HamiCore(library="", directory=tmp_path, session="1", parkable=True).not_parkable is None

    async def test_its_file_goes_with_the_server(self, mode: HamiCore, tmp_path: Path) -> None:
        """A limit holds for as long as its file is there, so the next server must not find it."""
        file = tmp_path / "hami-7-8.cache"
        file.touch()
        await mode.close()
        assert not file.exists()


def test_mig_needs_one_whole_instance() -> None:
    """No whole GPU, no two instances, no part of one; each with its reason."""
    instance = device(is_mig=True)
    assert Mig().problem(slices("1", instance)) is None
    problems = [slices("1"), slices("0.5", instance), slices("2", instance, device(1, is_mig=True))]
    codes = [problem.code for each in problems if (problem := Mig().problem(each)) is not None]
    assert codes == ["ISOLATION_NO_MIG", "ISOLATION_PART_OF_MIG", "ISOLATION_ONE_DEVICE"]


class TestMps:
    """MPS, with a stand-in for NVIDIA's program."""

    @pytest.fixture(autouse=True)
    def _program(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        put_mps_on_path(monkeypatch, tmp_path / "bin")

    async def test_each_kernel_has_an_equal_part(self, tmp_path: Path) -> None:
        """Limits are per process, so two kernels together cannot hold more than the share."""
        mode = Mps(kernels=2, directory=tmp_path / "mps")
        await mode.prepare(slices("10GiB"))
        environment = mode.environment(slices("10GiB"), {})
        await mode.close()
        assert memory_limit(environment, 0, "GPU-0000") == 5 * GIB
        assert environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "12"

    async def test_an_admins_daemon_and_limits_stay(self, tmp_path: Path) -> None:
        """What the server's environment says holds; a daemon that an admin runs is not started or ended by us."""
        pipes = tmp_path / "admin"
        daemon = Mps(kernels=1, directory=tmp_path)
        await daemon.prepare(slices())
        pipes = Path(daemon.environment(slices(), {})["CUDA_MPS_PIPE_DIRECTORY"])
        mode = Mps(kernels=1, directory=tmp_path / "own", pipes=str(pipes))
        await mode.prepare(slices())
        given = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}
        assert set(mode.environment(slices(), given)) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}
        await mode.close()
        assert "quit" not in (pipes / "commands").read_text()
        assert not (tmp_path / "own").exists()
        await daemon.close()

    def test_it_says_what_is_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """No control program, a MIG instance, two devices."""
        mode = Mps(kernels=2, directory=tmp_path)
        assert mode.problem(slices()) is None
        codes = [mode.problem(slices("0.5", device(is_mig=True))), mode.problem(slices("2x0.5", device(0), device(1)))]
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        codes.append(mode.problem(slices()))
        found = [problem.code for problem in codes if problem is not None]
        assert found == ["ISOLATION_MPS_ON_MIG", "ISOLATION_ONE_DEVICE", "ISOLATION_MPS_MISSING"]
