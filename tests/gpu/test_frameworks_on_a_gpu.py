"""What frameworks keep on a device is bit-identical after a park and a resume, and goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu.driven import Driven, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.rig import Rig

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

# The first use of a framework loads gigabytes, and compiles.
SLOW_S = 300.0
BEFORE, AFTER = 3, 4
SCENES = [
    ("torch", "training"),
    ("torch", "graph"),
    ("torch", "streams"),
    ("torch", "compile"),
    ("torch", "pinned"),
    ("torch", "loader"),
    ("jax", "training"),
    ("jax", "arrays"),
    ("cupy", "arrays"),
    ("cupy", "streams"),
    ("cupy", "graph"),
    ("tensorflow", "training"),
]
ALSO_NEEDED = {"compile": ("triton", "triton is not installed, and torch.compile needs it")}


@pytest.mark.parametrize("rig", ["real"], indirect=True)
@pytest.mark.parametrize(("framework", "scene"), SCENES, ids="-".join)
def test_its_state_survives(rig: Rig, record: Callable[[str, Any], None], framework: str, scene: str) -> None:
    """Undisturbed and parked in the middle, the same steps lead to the same bits."""
    require(framework, scene)
    with rig.program(framework) as program:
        begin(program, scene)
        undisturbed = [program.do(f"run {steps}", SLOW_S) for steps in (BEFORE, AFTER)]
        begin(program, scene)
        assert program.do(f"run {BEFORE}", SLOW_S) == undisturbed[0], "it is not deterministic: nothing can be compared"
        moved = asyncio.run(park_and_resume(rig, program))
        assert program.do("run 0", SLOW_S) == undisturbed[0]
        assert program.do(f"run {AFTER}", SLOW_S) == undisturbed[1]
    record(f"{framework}_{scene}", moved)


async def park_and_resume(rig: Rig, program: Driven) -> dict[str, float]:
    """Park and resume *program*; what moved and how long it took."""
    held = rig.used() - rig.at_first
    async with rig.parking() as parking:
        parked = await parking.park(parking.target(program, held))
        await parking.device_is_free()
        resumed = await parking.resume(parked)
        parking.assert_nothing_is_left()
    return {"bytes": held, "park_s": parked.took_s, "resume_s": resumed.took_s}


def begin(program: Driven, scene: str) -> None:
    """Prepare *scene*, or say exactly why it cannot be had."""
    try:
        program.do(f"scene {scene}", SLOW_S)
    except Refused as refused:
        if str(refused).startswith("NoGpu: "):
            pytest.skip(str(refused).removeprefix("NoGpu: "))
        raise


def require(framework: str, scene: str) -> None:
    """Skip what is not installed, and nothing else."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    module, reason = ALSO_NEEDED.get(scene, (framework, ""))
    if importlib.util.find_spec(module) is None:
        pytest.skip(reason)
