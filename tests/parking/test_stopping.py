"""Signals go to exactly the process that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.stopping import go_on, stop
from tests.parking.stage import Kernels, state_letter, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    """Programs that end with the test."""
    kernels = Kernels()
    yield kernels
    kernels.close()


def test_a_process_stops_and_goes_on(kernels: Kernels) -> None:
    """Going on is harmless for a process that runs."""
    process = kernels.start()
    assert stop(process)
    wait_until(lambda: state_letter(process) == "T")
    assert go_on(process)
    assert go_on(process)
    wait_until(lambda: state_letter(process) == "S")


def test_a_process_with_the_same_id_is_not_touched(kernels: Kernels) -> None:
    """An id that was given to another process since stops nobody, and one that has ended is no error."""
    process = kernels.start()
    assert not stop(process._replace(start=process.start - 1))
    assert state_letter(process) != "T"
    kernels.end(process)
    assert not stop(process)
    assert not go_on(process)
