"""Holders in real pid namespaces, as containers have them, on a device whose driver knows the numbers outside."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.devices.device import ProcessUse, Reading
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.broker.service.bench import GIB, SESSION, Bench, until
from tests.devices.containers import Container, require_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from jupyter_gpushare.devices.device import DeviceUse

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]
    Start = Callable[..., Container]

#: A server with one kernel. It tells who they are in their own eyes, then holds a share if it is given a broker, and
#: names its server alone.
SERVER = """
import asyncio, json, subprocess, sys
from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.wire import ClaimModel, ProcessModel
from jupyter_gpushare.devices.identity import identify, myself
from jupyter_gpushare.devices.pid_namespace import own_pid_namespace

me = myself()
kernel = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(json.dumps([own_pid_namespace(), *me, *identify(kernel.pid)]), flush=True)

async def hold():
    claim = ClaimModel(key="box", kind="interactive", project="default", share="0.5", name="box")
    holding = BrokerClient(Endpoint.at_socket(sys.argv[1])).hold(claim, [ProcessModel(me.pid, me.start)])
    lease = await holding.granted()
    print(json.dumps(lease.id), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await holding.close()

asyncio.run(hold()) if len(sys.argv) > 1 else sys.stdin.read()
"""


class HostDriver(SimulatedSource):
    """Devices on which the processes *listed* hold a GiB each, by the host's numbers."""

    listed: Sequence[int] = ()

    def read(self) -> Sequence[DeviceUse]:
        """What is used now."""
        held, idle = Reading.exact(GIB), Reading.exact(0)
        first, *others = super().read()
        there = tuple(ProcessUse(pid, held, idle) for pid in self.listed)
        return msgspec.structs.replace(first, processes=(*(first.processes or ()), *there)), *others


class SlowDriver(SimulatedSource):
    """Devices of which every look takes longer than all else."""

    def read(self) -> Sequence[DeviceUse]:
        """What is used now."""
        time.sleep(0.3)
        return super().read()


@pytest.fixture(name="driver")
def _driver(bench: Bench) -> HostDriver:
    """What the broker sees of the devices."""
    driver = HostDriver(bench.machine.path, bench.environ)
    bench.options["source"] = driver
    return driver


@pytest.fixture(name="start")
def _start() -> Iterator[Start]:
    """Starts real containers."""
    require_namespaces()
    started: list[Container] = []

    def start(*arguments: str) -> Container:
        started.append(Container(SERVER, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.close()


async def later(says: Callable[[], Any]) -> Any:
    """What a container says next, while the broker goes on."""
    return await asyncio.wait_for(asyncio.to_thread(says), 60)


def told(said: Sequence[int]) -> tuple[int, list[wire.ProcessModel]]:
    """The namespace, and the processes, that a container's server says."""
    space, pid, began, kernel, kernel_began = said
    return space, [wire.ProcessModel(pid, began), wire.ProcessModel(kernel, kernel_began)]


def test_a_container_that_holds_a_share_has_what_its_kernels_hold(play: Play, driver: HostDriver, start: Start) -> None:
    """A server in a real namespace is its lease's by its own word, and its kernel's memory is not foreign."""

    async def story(bench: Bench) -> None:
        box = start(str(bench.settings.socket))
        assert (await later(box.says))[1] == 1
        lease = await later(box.says)
        driver.listed = box.pids()[-1:]
        seen = await bench.broker.evidence.look()
        assert {each.pid for each in seen.processes[lease]} == set(driver.listed)
        assert seen.held[lease] == {bench.device: GIB}
        assert not seen.foreign[bench.device]

    play(story)


def test_whose_a_container_is_is_kept_before_anything_is_promised(bench: Bench, play: Play, start: Start) -> None:
    """A broker killed right after its grant must not take what comes there then for a stranger's."""
    bench.options["source"] = SlowDriver(bench.machine.path, bench.environ)

    async def story(bench: Bench) -> None:
        box = start(str(bench.settings.socket))
        await later(box.says)
        lease = await later(box.says)
        assert set(Roster(bench.settings.runtime / "roster.json").roots()) == {identify(box.pids()[0])}
        assert bench.broker.desk.roster.has(lease)

    play(story)


def test_without_the_inode_its_memory_is_foreign_as_it_was(play: Play, driver: HostDriver, start: Start) -> None:
    """An older holder names numbers alone: whoever has them here is somebody else, and nothing is guessed."""

    async def story(bench: Bench) -> None:
        box = start()
        space, processes = told(box.says())
        driver.listed = box.pids()[-1:]
        older, newer = await bench.raw(), await bench.raw()
        await older.say(wire.HelloMessage(msgspec.structs.replace(SESSION, key="older"), processes))
        assert isinstance(await older.hear(), wire.WelcomeMessage)
        seen = await bench.broker.evidence.look()
        assert not seen.held
        assert seen.foreign[bench.device] == GIB
        await newer.say(wire.HelloMessage(SESSION, processes, pid_namespace=space))
        welcome = await newer.hear()
        seen = await bench.broker.evidence.look()
        assert list(seen.held) == [welcome.lease.id]
        assert not seen.foreign[bench.device]

    play(story)


def test_a_kernel_that_is_named_later_is_found_without_another_word(
    play: Play, driver: HostDriver, start: Start
) -> None:
    """The inode is told once, in the hello; what is named later counts from the next look on."""

    async def story(bench: Bench) -> None:
        box = start()
        space, (_, kernel) = told(box.says())
        driver.listed = box.pids()[-1:]
        raw = await bench.raw()
        await raw.say(wire.HelloMessage(SESSION, [], pid_namespace=space))
        welcome = await raw.hear()
        assert (await bench.broker.evidence.look()).foreign[bench.device] == GIB
        await raw.say(wire.ProcessesMessage([kernel]))
        last = await until(lambda: bench.broker.evidence.last and bench.broker.evidence.last.held)
        assert last == {welcome.lease.id: {bench.device: GIB}}

    play(story)


@pytest.mark.parametrize("claims", ["its user is another", "its namespace is another", "its start is another"])
def test_a_neighbours_container_is_nobody_elses(
    bench: Bench, play: Play, driver: HostDriver, start: Start, claims: str
) -> None:
    """Another user who knows everything has nothing of it, and the same user only what it knows everything of."""
    bench.settings = replace(bench.settings, mode="multi_user")

    async def story(bench: Bench) -> None:
        box, other = start(), start()
        (space, processes), (elsewhere, _) = told(box.says()), told(other.says())
        driver.listed = box.pids()
        if claims == "its user is another":
            bench.uid = 4711
        elif claims == "its namespace is another":
            space = elsewhere
        else:
            processes = [wire.ProcessModel(each.pid, each.started + 1) for each in processes]
        raw = await bench.raw()
        await raw.say(wire.HelloMessage(SESSION, processes, pid_namespace=space))
        assert isinstance(await raw.hear(), wire.WelcomeMessage), claims
        seen = await bench.broker.evidence.look()
        assert not seen.held
        assert seen.foreign[bench.device] == GIB * len(driver.listed)

    play(story)


def test_a_container_that_ends_need_not_be_waited_for(play: Play, start: Start) -> None:
    """The broker knows its processes by numbers that it can watch: when they are gone, so is the lease, at once."""

    async def story(bench: Bench) -> None:
        box = start(str(bench.settings.socket))
        await later(box.says)
        lease = await later(box.says)
        assert bench.lease(lease) is not None
        box.close()
        await until(lambda: bench.lease(lease) is None, 20)

    play(story)


@pytest.mark.parametrize("inode", [0, -1, 1 << 62, "4026531836", 1.5])
def test_an_inode_that_cannot_be_is_refused(play: Play, inode: object) -> None:
    """What comes over the wire is a positive number of a file system, or the hello is none."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        hello = msgspec.to_builtins(wire.HelloMessage(SESSION, []))
        await raw.say({**hello, "pid_namespace": inode})
        said = await raw.hear()
        assert isinstance(said, wire.RefusedMessage)
        assert "pid_namespace" in said.error.text

    play(story)
