"""Freeing cached memory in a process: what comes back, what stays, and no GPU started on the way."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from jupyter_gpushare.notebook import frameworks
from jupyter_gpushare.notebook.cache import free_cached, held_bytes
from tests.notebook.fake_frameworks import GB, BrokenTorch, FakeCuPy, FakeJax, FakeTorch, ForgottenTensor, collections


@pytest.fixture(name="imported")
def _imported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has a framework imported, as far as anybody can see."""

    def imported(name: str, module: Any) -> Any:
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return imported


def test_without_a_framework_nothing_is_imported_or_freed() -> None:
    """A notebook that never used a GPU does not start to."""
    assert free_cached(collect=False) == []
    assert held_bytes() is None
    assert "torch" not in sys.modules


def test_torch_gives_its_cache_back_on_every_device(imported: Any) -> None:
    """Cached memory falls, memory in use stays, and both are told per framework."""
    imported("torch", FakeTorch(5 * GB, 2 * GB, devices=2))
    (result,) = free_cached(collect=False)
    assert result.answer() == {"framework": "torch", "before": 14 * GB, "after": 10 * GB, "error": None}
    assert (result.freed, result.in_use) == (4 * GB, 10 * GB)


def test_torch_that_has_not_started_is_left_alone(imported: Any) -> None:
    """Asking a framework must not make the context whose memory is wanted."""
    imported("torch", FakeTorch(0, 0, started=False))
    (result,) = free_cached(collect=False)
    assert (result.before, result.after, result.error) == (0, 0, None)


def test_collecting_lets_go_of_forgotten_cycles(imported: Any) -> None:
    """A tensor in a dropped cycle is freed too, but only when a collection was allowed."""
    torch = imported("torch", FakeTorch(0, 0))
    ForgottenTensor(torch, 3 * GB)
    (result,) = free_cached(collect=True)
    assert (result.before, result.after) == (3 * GB, 0)


def test_no_collection_beside_a_running_cell(imported: Any) -> None:
    """Finalizers do not run in the middle of somebody's cell."""
    imported("torch", FakeTorch(0, GB))
    before = collections()
    free_cached(collect=False)
    assert collections() == before
    free_cached(collect=True)
    assert collections() > before


def test_one_broken_framework_does_not_stop_the_others(imported: Any) -> None:
    """Each framework's error is told as its own, and the rest is freed."""
    imported("torch", BrokenTorch(GB, GB))
    jax = imported("jax", FakeJax(GB, 3 * GB))
    imported("jax._src.xla_bridge", jax)
    torch_result, jax_result = free_cached(collect=False)
    assert torch_result.error == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert torch_result.freed == 0
    assert (jax_result.error, jax.cleared) == (None, 1)


def test_a_half_imported_framework_is_an_error_of_its_own(imported: Any) -> None:
    """A module that another thread is still importing does not end the release."""
    imported("torch", object())
    (result,) = free_cached(collect=False)
    assert result.error is not None
    assert result.error.startswith("AttributeError")


def test_cupy_frees_the_pool_of_each_device_in_use_only(imported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's pool answers for the current device: all devices with a context are asked, and no others are touched."""
    monkeypatch.setattr(frameworks, "_has_context", lambda device: device != 1)
    cupy = imported("cupy", FakeCuPy(used=[1, 0, 4], cached=[10, 0, 30]))
    (result,) = free_cached(collect=False)
    assert (result.before, result.after, result.in_use) == (45, 5, 5)
    assert cupy.touched == {0, 2}
    assert cupy.current == 0


def test_cupy_makes_no_context_where_there_is_none(imported: Any) -> None:
    """By the driver's own word this process has no context, or there is no driver: no device is chosen."""
    cupy = imported("cupy", FakeCuPy(used=[0], cached=[0]))
    free_cached(collect=False)
    assert cupy.touched == set()


def test_jax_that_has_not_started_is_left_alone(imported: Any) -> None:
    """JAX takes most of the GPU when it starts, so it is never asked before it has."""
    jax = imported("jax", FakeJax(0, 0, started=False))
    imported("jax._src.xla_bridge", jax)
    (result,) = free_cached(collect=False)
    assert (result.before, result.error, jax.cleared) == (0, None, 0)


def test_what_the_frameworks_hold_is_their_sum(imported: Any) -> None:
    """A report counts all frameworks, cached memory included."""
    imported("torch", FakeTorch(5 * GB, 2 * GB))
    jax = imported("jax", FakeJax(GB, 3 * GB))
    imported("jax._src.xla_bridge", jax)
    assert held_bytes() == 10 * GB
