"""What was seen on a device is kept as soon as it was seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.gpu.conftest import Figures
from tests.gpu.driven import Refused, holding

if TYPE_CHECKING:
    from pathlib import Path


def test_every_figure_is_written_at_once(tmp_path: Path) -> None:
    """If the host hangs at the next test, the file has all that came before."""
    file = tmp_path / "gpu.json"
    figures = Figures({"driver": "580.1"}, str(file))
    figures["poison"] = {"refused": "out_of_memory"}
    assert json.loads(file.read_text()) == {
        "machine": {"driver": "580.1"},
        "figures": {"poison": {"refused": "out_of_memory"}},
    }


def test_a_refusal_is_told_from_a_hang_and_from_an_end() -> None:
    """A program says what it cannot do and goes on; one that ends or does not answer fails its test."""
    with holding("simulated") as program:
        with pytest.raises(Refused, match="nothing is held"):
            program.do("digest")
        with pytest.raises(AssertionError, match=r"did not answer within 0\.01 s"):
            program.wait(0.01)
        program.kill()
        with pytest.raises(AssertionError, match="ended with code -9"):
            program.wait()
