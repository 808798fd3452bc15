"""Through TensorFlow."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# As our provisioner sets it: without this TensorFlow takes all of the device at once.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tests.gpu.programs.state import NoGpu, Scenes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Program"]

_SIDE = 512
tf: Any = importlib.import_module("tensorflow")


class Program(Scenes):
    """Variables on the first visible device."""

    def __init__(self) -> None:
        super().__init__({"training": Training})

    def scene(self, name: str) -> None:
        """Prepare a scene that gives the same bits each time."""
        if not tf.config.list_physical_devices("GPU"):
            raise NoGpu("TensorFlow finds no GPU")
        tf.config.experimental.enable_op_determinism()
        tf.random.set_seed(7)
        super().scene(name)


class Training:
    """A traced step of training: a variable, its momentum and a generator of random numbers."""

    def __init__(self) -> None:
        self._random = tf.random.Generator.from_seed(7)
        self._weights = tf.Variable(self._random.normal((_SIDE, _SIDE)))
        self._momentum = tf.Variable(tf.zeros((_SIDE, _SIDE)))
        self._advance = tf.function(self._one_step)

    def _one_step(self) -> None:
        batch = self._random.normal((64, _SIDE))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(batch @ self._weights) ** 2)
        slope = tape.gradient(loss, self._weights)
        self._momentum.assign(0.9 * self._momentum + slope)
        self._weights.assign_sub(0.1 * self._momentum)

    def step(self) -> None:
        self._advance()

    def state(self) -> Iterator[bytes]:
        return (each.numpy().tobytes() for each in (self._weights, self._momentum, self._random.state))
