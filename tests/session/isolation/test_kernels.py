"""What a kernel starts with, whatever is missing: its share, or no GPU at all and a reason."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.attribution import Attributed
from jupyter_gpushare.devices.device import Driver, DriverState, Reading
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.caps import Caps
from jupyter_gpushare.session.isolation.kernels import KernelIsolation
from jupyter_gpushare.session.isolation.mig import Mig
from jupyter_gpushare.session.isolation.mode import Isolation, IsolationError
from jupyter_gpushare.session.isolation.none import NoIsolation
from jupyter_gpushare.session.isolation.switches import SWITCHES
from jupyter_gpushare.session.meter import Sample
from jupyter_gpushare.session.own_share import choose_share
from tests.session.fake_source import GIB, device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.isolation.mode import Mode, Slice


class Preventive(Isolation):
    """A mode that can hold two kernels, and whose limit a kernel spec must not loosen."""

    name = "mps"
    enforces_memory = True
    limits = ("LIMIT",)
    most_kernels = 2

    def environment(self, slices: Sequence[Slice], given: Mapping[str, str]) -> dict[str, str]:
        return {} if "LIMIT_0" in given else {"LIMIT_0": str(slices[0].memory.bytes)}


class NeverReady(Preventive):
    """Its daemon does not start."""

    async def prepare(self, slices: Sequence[Slice]) -> None:  # noqa: ARG002
        raise IsolationError(Message("DAEMON", "The daemon {name} does not start.", {"name": "d"}))


class Stage:
    """A server's kernels under *mode*, on one device, unless the test says otherwise."""

    def __init__(self, mode: Isolation, share: str = "0.5", *, vendor: str = "nvidia", count: int = 1) -> None:
        self.told: list[Message] = []
        self.server: dict[str, str] = {}
        self.under: dict[Mode, Mode] = {}
        self.driver = Driver(vendor, DriverState.READY)
        self.devices = tuple(device(index) for index in range(count))
        self.answers = True
        self.kernels = KernelIsolation(
            mode,
            choose_share(share, {}),
            sample=self._sample,
            environ=self.server,
            notify=self.told.append,
            log=logging.getLogger("test.isolation"),
            under_pool=lambda own: self.under.get(own, own),
            make={"caps": Caps()}.__getitem__,
        )

    async def start(self, kernel_id: str = "a", **given: str) -> dict[str, str]:
        """The environment that a kernel starts with, but for the switches."""
        environment = dict(given)
        await self.kernels.apply(kernel_id, environment)
        return {name: value for name, value in environment.items() if SWITCHES.get(name) != value}

    @property
    def codes(self) -> list[str]:
        return [message.code for message in self.told]

    async def _sample(self) -> Sample:
        if not self.answers:
            raise TimeoutError
        unknown = Reading.unavailable("")
        nothing = Attributed((), (), unknown, unknown, trusted=True)
        return Sample(0, 0, self.driver, self.devices, (), nothing)


async def test_a_kernel_sees_its_share_s_devices() -> None:
    """By UUID, as many as the share has."""
    assert await Stage(NoIsolation(), "2", count=3).start() == {"CUDA_VISIBLE_DEVICES": "GPU-0000,GPU-0001"}


async def test_what_somebody_chose_stays() -> None:
    """Neither visibility nor a framework's switch is taken from an admin or a user."""
    given = {"CUDA_VISIBLE_DEVICES": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "true"}
    assert await Stage(NoIsolation()).start(**given) == given


async def test_frameworks_are_told_to_take_no_more_than_they_use() -> None:
    """Preallocated memory would be moved at each park; in every mode, with or without a GPU."""
    stage = Stage(NoIsolation())
    environment: dict[str, str] = {}
    stage.answers = False
    await stage.kernels.apply("a", environment)
    assert environment == SWITCHES


async def test_a_workstation_where_nobody_divided_anything_keeps_its_devices() -> None:
    """Installing us on a machine with two GPUs must not hide one."""
    assert await Stage(NoIsolation(), "", count=2).start() == {}


async def test_a_kernel_spec_cannot_loosen_a_limit() -> None:
    """What a kernel spec says of limits goes, what the server's own environment says stays."""
    stage = Stage(Preventive())
    started = await stage.start(LIMIT_0="999", LIMIT_1="999")
    assert started == {"CUDA_VISIBLE_DEVICES": "GPU-0000", "LIMIT_0": str(39 * GIB // 2)}
    stage.server["LIMIT_0"] = "5"
    assert (await stage.start(LIMIT_0="5"))["LIMIT_0"] == "5"
    assert "LIMIT_1" not in await stage.start(LIMIT_0="5", LIMIT_1="6")


async def test_a_stricter_pool_holds_what_starts_and_leaves_what_runs() -> None:
    """A kernel keeps to the mode it was started under, and no guard watches a session while one has no limit to keep."""
    stage = Stage(NoIsolation())
    await stage.start("old")
    stage.under["none"] = "caps"
    assert stage.kernels.mode_of("old").name == "none"
    assert "GPUSHARE_MEMORY_CAPS" in await stage.start("new")
    assert stage.kernels.mode_of("new").name == "caps"
    assert stage.kernels.looser() == ["old"]
    assert not stage.kernels.guards
    stage.kernels.forget("old")
    assert stage.kernels.guards


async def test_no_more_kernels_have_a_gpu_than_the_share_is_divided_for() -> None:
    """The third starts without and says so; it has one once another has ended. A restart keeps its place."""
    stage = Stage(Preventive())
    for kernel_id in ("a", "b", "a"):
        assert (await stage.start(kernel_id))["CUDA_VISIBLE_DEVICES"]
    assert await stage.start("c") == {"CUDA_VISIBLE_DEVICES": ""}
    assert stage.codes == ["ISOLATION_NO_PLACE"]
    stage.kernels.forget("a")
    assert (await stage.start("c"))["CUDA_VISIBLE_DEVICES"]


async def test_a_preventive_mode_that_cannot_work_gives_no_gpu() -> None:
    """A kernel without limits would take what neighbours were promised; it starts, and people read why."""
    stage = Stage(NeverReady())
    assert await stage.start(CUDA_VISIBLE_DEVICES="0") == {"CUDA_VISIBLE_DEVICES": ""}
    assert stage.told[0].text == "Nothing is lost, but a kernel starts without a GPU: The daemon d does not start."
    assert await Stage(Mig()).start() == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize("state", [DriverState.LOST, None])
async def test_a_driver_that_does_not_answer_gives_no_gpu_where_limits_must_hold(state: DriverState | None) -> None:
    """The devices of the share are unknown then; without a preventive mode the kernel starts as ever."""
    for mode, expected in ((Preventive(), {"CUDA_VISIBLE_DEVICES": ""}), (NoIsolation(), {})):
        stage = Stage(mode)
        stage.answers = state is not None
        stage.driver = Driver("nvidia", state or DriverState.READY)
        assert await stage.start() == expected


async def test_a_machine_without_a_gpu_starts_kernels_as_ever() -> None:
    """There is nothing to be kept from anybody, and nobody is told of a problem."""
    stage = Stage(Preventive(), count=0, vendor="none")
    assert await stage.start() == {}
    assert not stage.told


async def test_a_share_that_does_not_fit_gives_no_gpu_where_limits_must_hold() -> None:
    """There is no limit to set for a share of more than the device has."""
    stage = Stage(Preventive(), "50GiB")
    assert await stage.start() == {"CUDA_VISIBLE_DEVICES": ""}
    assert stage.codes == ["SHARE_DOES_NOT_FIT"]


async def test_a_mode_of_nvidias_says_so_on_other_devices() -> None:
    """CUDA's variables hold nobody on an AMD device."""
    stage = Stage(Preventive(), vendor="amd")
    assert await stage.start() == {"CUDA_VISIBLE_DEVICES": ""}
    assert stage.codes == ["ISOLATION_OTHER_VENDOR"]
    assert await Stage(NoIsolation(), vendor="amd").start() == {}


def test_the_guard_watches_the_limit_of_the_share() -> None:
    """In bytes, by device."""
    assert Stage(NoIsolation(), "0.25..0.5").kernels.limits([device()]) == {"GPU-0000": 39 * GIB // 2}
