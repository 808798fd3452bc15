"""What every kernel is told in every mode: which devices are its session's, and to take no more memory than it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.isolation.mode import Slice

__all__ = ["NO_DEVICES", "SWITCHES", "VISIBLE", "switches", "visibility"]

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
#: A kernel without a GPU: CUDA sees none where the list is empty (CUDA C++ Programming Guide, environment variables).
NO_DEVICES: Final = {VISIBLE: ""}

#: JAX takes three quarters of a device at its start and TensorFlow all of it, unless told otherwise; a park would move
#: that much (docs.jax.dev, "GPU memory allocation"; tensorflow.org, "Use a GPU").
SWITCHES: Final = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def switches(given: Mapping[str, str]) -> dict[str, str]:
    """The frameworks' switches, but for those that an admin, a kernel spec or the user has set."""
    return {name: value for name, value in SWITCHES.items() if name not in given}


def visibility(slices: Sequence[Slice], given: Mapping[str, str]) -> dict[str, str]:
    """The session's devices by UUID, unless somebody has chosen already."""
    return {} if VISIBLE in given or not slices else {VISIBLE: ",".join(each.device.uuid for each in slices)}
