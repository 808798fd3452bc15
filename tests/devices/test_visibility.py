"""What CUDA_VISIBLE_DEVICES and its relatives let a session see."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jupyter_gpushare.devices.visibility import Physical, visible_to_cuda, visible_to_rocm


@dataclass(frozen=True)
class Named:
    physical: Physical


MACHINE = [
    Named(Physical(0, "GPU-aaaa1111")),
    Named(Physical(1, "GPU-aaaa2222")),
    Named(Physical(2, "GPU-bbbb3333", "MIG-cccc1")),
    Named(Physical(2, "GPU-bbbb3333", "MIG-cccc2")),
]


def shown(devices: list[Named]) -> list[str]:
    """The devices by their own UUIDs."""
    return [device.physical.mig_uuid or device.physical.gpu_uuid for device in devices]


A1, A2, M1, M2 = shown(MACHINE)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", [A1]),
        ("1,0", [A1, A2]),
        (" 0 , 1 ", [A1, A2]),
        ("2", [M1, M2]),
        ("MIG-cccc2", [M2]),
        ("GPU-bbbb", [M1, M2]),
        ("GPU-aaaa2222", [A2]),
        ("all", [A1, A2, M1, M2]),
        ("", []),
        ("-1", []),
        ("none", []),
        ("void", []),
        ("NoDevFiles", []),
        ("0,9,1", [A1]),
        ("9,0", []),
        ("GPU-zzzz", []),
        ("²", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value: str, expected: list[str]) -> None:
    """Positions, UUIDs and their beginnings choose; a name that fits nothing ends the list; an empty list hides all."""
    assert shown(visible_to_cuda(MACHINE, {"CUDA_VISIBLE_DEVICES": value})) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("all", [A1, A2, M1, M2]),
        ("none", []),
        ("void", [A1, A2, M1, M2]),
        ("", [A1, A2, M1, M2]),
        ("1", [A2]),
        ("GPU-aaaa1111,GPU-bbbb3333", [A1, M1, M2]),
        ("4,5,6", [A1, A2, M1, M2]),
    ],
)
def test_the_container_runtimes_order_is_not_carried_out_twice(value: str, expected: list[str]) -> None:
    """In a container given the host's GPUs 4, 5 and 6 these are 0, 1 and 2; "void" is what CDI leaves behind."""
    assert shown(visible_to_cuda(MACHINE, {"NVIDIA_VISIBLE_DEVICES": value})) == expected


def test_both_variables_restrict_together() -> None:
    """CUDA's variable chooses among what the runtime's leaves."""
    environ = {"NVIDIA_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "1,2"}
    assert shown(visible_to_cuda(MACHINE, environ)) == [A2]
    assert shown(visible_to_cuda(MACHINE, {})) == [A1, A2, M1, M2]


def test_hip_counts_after_rocr() -> None:
    """HIP's positions are those among what ROCR_VISIBLE_DEVICES leaves, as in ROCm."""
    environ = {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0"}
    assert shown(visible_to_rocm(MACHINE, environ)) == [A2]
