"""From a press of the button to the next cell, through a real Jupyter Server and real kernels, on a device."""

from __future__ import annotations

import time
import urllib.error
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.metering.kernel_client import KernelClient
from tests.gpu.driven import until
from tests.gpu.server import ParkingServer, refusal, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.gpu.rig import Rig

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

HOLD = """
from tests.gpu.programs.with_{own} import Program
program = Program()
program.hold({size})
program.fill({seed})
digest = program.digest()
"""
SAME = "print(program.digest() == digest)"


@pytest.fixture
def server(rig: Rig) -> Iterator[ParkingServer]:
    """A server whose kernels see the device."""
    with running(rig) as server:
        yield server


class Notebook:
    """A notebook whose kernel holds memory of known contents."""

    def __init__(self, server: ParkingServer, rig: Rig, number: int) -> None:
        self.server = server
        self.kernel_id = server.start_notebook(f"notebook-{number}.ipynb")
        self._client = KernelClient(server, self.kernel_id)
        self._client.execute(HOLD.format(own=rig.own, size=rig.unit, seed=number))

    @property
    def status(self) -> str:
        """What happens to its GPU state."""
        return str(self.server.parking_of(self.kernel_id)["status"])

    def park(self) -> None:
        """Press the button, and wait until it is parked."""
        until(self._accepted, "a park that is not refused")
        until(lambda: self.status == "parked", "the end of the park")

    def is_same(self) -> float:
        """Run a cell that reads all memory; how many seconds it took with all that came before."""
        began = time.monotonic()
        assert self._client.execute(SAME) == "True\n"
        return time.monotonic() - began

    def close(self) -> None:
        """Close the connection."""
        self._client.__exit__(None, None, None)

    def _accepted(self) -> bool:
        try:
            self.server.gpushare("releases", {"level": "park", "kernel_id": self.kernel_id, "when": "now"})
        except urllib.error.HTTPError as error:
            reason = refusal(error)["error"]
            if "host's process ids" in str(reason):
                pytest.skip(f"this container cannot park: {reason['text']}")
            # Right after a cell it is not known yet whether the kernel rests.
            assert reason["code"] == "CANNOT_PARK", reason
            return False
        return True


@pytest.fixture
def notebook(rig: Rig, server: ParkingServer) -> Iterator[Callable[[], Notebook]]:
    """Open another notebook."""
    with ExitStack() as opened:
        count = 0

        def notebook() -> Notebook:
            nonlocal count
            count += 1
            another = Notebook(server, rig, count)
            opened.callback(another.close)
            return another

        yield notebook


def test_a_cell_brings_a_parked_notebook_back(
    rig: Rig, record: Callable[[str, Any], None], notebook: Callable[[], Notebook]
) -> None:
    """Parked over REST the notebook leaves the device, and the next cell finds every word as it was."""
    one = notebook()
    one.park()
    until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")
    record("whole_path_cell_s", one.is_same())
    assert one.status == "running"


def test_two_notebooks_park_and_come_back_in_any_order(rig: Rig, notebook: Callable[[], Notebook]) -> None:
    """Two notebooks of one server are parked and resumed, first one first and then the other."""
    first, second = notebook(), notebook()
    for order in ((first, second), (second, first)):
        first.park()
        second.park()
        until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")
        for one in order:
            one.is_same()
