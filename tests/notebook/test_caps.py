"""Frameworks refuse what is beyond the share once they are imported, and an import never fails for it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.notebook.caps import CAPS_VARIABLE, Caps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
OUTSIDE = 640 * MIB
#: A framework that starts its GPU as PyTorch does: what was asked for before runs then, once.
TORCH = """
class cuda:
    started, waiting, caps = False, [], {}

    @classmethod
    def _lazy_call(cls, call):
        call() if cls.started else cls.waiting.append(call)

    @classmethod
    def init(cls):
        cls.started = True
        for call in cls.waiting:
            call()

    @classmethod
    def device_count(cls):
        assert cls.started, "asking would start the GPU"
        return 3

    @classmethod
    def set_per_process_memory_fraction(cls, fraction, device):
        cls.caps[device] = fraction
"""


@pytest.fixture(name="frameworks")
def _frameworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported, and are gone afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    for name in ("torch", "cupy", "jax"):
        sys.modules.pop(name, None)


def install(caps: str = f"{5 * GIB}/{20 * GIB}", **environ: str) -> tuple[Caps, dict[str, str]]:
    """The caps of a kernel with this environment, and that."""
    environment = {CAPS_VARIABLE: caps, **environ}
    installed = Caps.install(environment)
    assert installed is not None
    return installed, environment


def imported(name: str) -> Any:
    """The module."""
    return __import__(name)


def test_without_caps_nothing_is_there() -> None:
    """In every other mode no import is looked at."""
    before = list(sys.meta_path)
    assert Caps.install({}) is None
    assert sys.meta_path == before


def test_pytorch_is_capped_when_it_starts_the_gpu(frameworks: Path) -> None:
    """Not before: the cap itself would otherwise cost a context. Devices beyond the list have the last one's cap."""
    (frameworks / "torch.py").write_text(TORCH)
    caps, _ = install(f"{5 * GIB}/{20 * GIB},{GIB}/{20 * GIB}")
    torch = imported("torch")
    assert torch.cuda.caps == {}
    torch.cuda.init()
    assert torch.cuda.caps == {0: (5 * GIB - OUTSIDE) / (20 * GIB), 1: GIB / 2 / (20 * GIB), 2: GIB / 2 / (20 * GIB)}
    assert caps.problems == []


def test_a_framework_that_is_there_already_is_capped(frameworks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`%load_ext` after `import torch` caps it too."""
    (frameworks / "torch.py").write_text(TORCH)
    torch = imported("torch")
    torch.cuda.init()
    install()
    assert torch.cuda.caps[0] == (5 * GIB - OUTSIDE) / (20 * GIB)


def test_cupy_and_jax_read_their_caps_at_their_import(frameworks: Path) -> None:
    """Both read the environment, which has it when their code runs, and not before somebody imports them."""
    for name in ("cupy", "jax"):
        (frameworks / f"{name}.py").touch()
    _, environ = install()
    assert set(environ) == {CAPS_VARIABLE}
    imported("cupy")
    imported("jax")
    assert environ["CUPY_GPU_MEMORY_LIMIT"] == str(5 * GIB - OUTSIDE)
    assert float(environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]) == pytest.approx((5 * GIB - OUTSIDE) / (20 * GIB), abs=1e-4)


def test_what_the_user_set_stays(frameworks: Path) -> None:
    """JAX knows two names and refuses to start with both; the user's own word is never doubled."""
    for name in ("cupy", "jax"):
        (frameworks / f"{name}.py").touch()
    own = {"XLA_CLIENT_MEM_FRACTION": ".1", "CUPY_GPU_MEMORY_LIMIT": "5%"}
    _, environ = install(**own)
    imported("cupy")
    imported("jax")
    assert environ == {CAPS_VARIABLE: environ[CAPS_VARIABLE], **own}


@pytest.mark.parametrize("torch", ["", "class cuda:\n    @staticmethod\n    def _lazy_call(call): raise RuntimeError"])
def test_a_framework_that_cannot_be_capped_is_imported_all_the_same(frameworks: Path, torch: str) -> None:
    """The trouble is reported, and the import is none the worse for it."""
    (frameworks / "torch.py").write_text(torch)
    caps, _ = install()
    assert imported("torch")
    assert len(caps.problems) == 1
    assert caps.problems[0].startswith("torch could not be held to the share")


def test_what_fails_when_the_gpu_starts_is_reported(frameworks: Path) -> None:
    """An error in there would keep the user's program from the GPU."""
    (frameworks / "torch.py").write_text(TORCH.replace("cls.caps[device] = fraction", "raise ValueError(device)"))
    caps, _ = install()
    imported("torch").cuda.init()
    assert "ValueError: 0" in caps.problems[0]


def test_a_framework_that_is_installed_later_is_capped(frameworks: Path) -> None:
    """An import that failed uses up nothing."""
    install()
    with pytest.raises(ImportError):
        imported("torch")
    (frameworks / "torch.py").write_text(TORCH)
    sys.path_importer_cache.clear()
    torch = imported("torch")
    torch.cuda.init()
    assert torch.cuda.caps


def test_an_import_that_fails_fails_as_ever(frameworks: Path) -> None:
    """The framework's own error reaches the user; the loader is left as it was."""
    (frameworks / "torch.py").write_text("raise OSError('libcudart is missing')")
    caps, _ = install()
    with pytest.raises(OSError, match="libcudart is missing"):
        imported("torch")
    assert caps.problems == []


def test_the_loader_is_left_as_it_was(frameworks: Path) -> None:
    """Whoever reloads or inspects the module finds nothing of ours."""
    (frameworks / "torch.py").write_text(TORCH)
    install()
    assert "exec_module" not in vars(imported("torch").__spec__.loader)


def test_removed_it_looks_at_imports_no_more(frameworks: Path) -> None:
    """`%unload_ext` leaves the shell as it was."""
    (frameworks / "cupy.py").touch()
    before = list(sys.meta_path)
    caps, environ = install()
    caps.remove()
    caps.remove()
    imported("cupy")
    assert sys.meta_path == before
    assert set(environ) == {CAPS_VARIABLE}


@pytest.mark.parametrize("text", ["5", "a/b", "-1/5", "6/5", "0/5", "1/2,", "\uff15/9"])
def test_caps_that_cannot_be_read_are_named(text: str) -> None:
    """A broken variable is reported with what it should look like, and nothing is capped on a guess."""
    caps, _ = install(text)
    assert "write for example 5368709120/16106127360" in caps.problems[0]


def test_the_variable_is_the_servers() -> None:
    """Both sides mean the same one; neither imports the other."""
    code = "from jupyter_gpushare.session.isolation.caps import CAPS_VARIABLE; print(CAPS_VARIABLE)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == CAPS_VARIABLE
