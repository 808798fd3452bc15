"""Through JAX."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# As our provisioner sets it: without this JAX takes three quarters of the device at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")

import jax
import jax.numpy as jnp

from tests.gpu.programs.state import NoGpu, Scenes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Program"]

_SIDE = 512


class Program(Scenes):
    """Arrays on the first visible device."""

    def __init__(self) -> None:
        super().__init__({"training": Training, "arrays": Arrays})

    def scene(self, name: str) -> None:
        """Prepare a scene."""
        if jax.default_backend() != "gpu":
            raise NoGpu(f"JAX uses the backend {jax.default_backend()!r}")
        super().scene(name)

    def synchronise(self) -> None:
        """Wait for the device."""
        jax.effects_barrier()


class Training:
    """A compiled step of training: parameters, momentum and the key of its random numbers."""

    def __init__(self) -> None:
        def loss(weights: Any, batch: Any) -> Any:
            return jnp.mean(jnp.tanh(batch @ weights) ** 2)

        def advance(weights: Any, momentum: Any, key: Any) -> Any:
            key, now = jax.random.split(key)
            slope = jax.grad(loss)(weights, jax.random.normal(now, (64, _SIDE)))
            momentum = 0.9 * momentum + slope
            return weights - 0.1 * momentum, momentum, key

        self._advance = jax.jit(advance, donate_argnums=(0, 1))
        key = jax.random.PRNGKey(7)
        self._state: Any = (jax.random.normal(key, (_SIDE, _SIDE)), jnp.zeros((_SIDE, _SIDE)), key)

    def step(self) -> None:
        self._state = self._advance(*self._state)

    def state(self) -> Iterator[bytes]:
        return (jax.device_get(array).tobytes() for array in self._state)


class Arrays:
    """Arrays outside of any compiled function, of several types."""

    def __init__(self) -> None:
        self._arrays: Any = [jnp.arange(_SIDE * _SIDE, dtype=kind) for kind in ("float32", "bfloat16", "int32")]

    def step(self) -> None:
        self._arrays = [array * 3 + 1 for array in self._arrays]

    def state(self) -> Iterator[bytes]:
        return (jax.device_get(array).tobytes() for array in self._arrays)
