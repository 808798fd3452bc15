"""What the package gives to Jupyter and IPython, and what importing it costs them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import jupyter_gpushare


def modules_after(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after *code*."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return set(ran.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    """Every server and every kernel imports the package: it costs them next to nothing."""
    loaded = modules_after("before = set(sys.modules); import jupyter_gpushare")
    assert {name for name in loaded if name.startswith("jupyter_gpushare")} == {"jupyter_gpushare"}
    assert not loaded & {"ipywidgets", "anywidget", "tornado", "msgspec", "jupyter_server", "typing"}


def test_a_kernel_loads_the_client_only_when_it_is_used() -> None:
    """A kernel that never asks for its share starts as fast as before."""
    code = "from IPython.core.interactiveshell import InteractiveShell\nimport jupyter_gpushare.notebook.kernel"
    assert not modules_after(code) & {"ipywidgets", "anywidget", "msgspec", "tornado.websocket"}


def test_the_public_names_are_there_when_asked_for() -> None:
    """`Share` and `GpuShareWidget` come from the package itself, and other names are honest errors."""
    assert str(jupyter_gpushare.Share.parse("0.5")) == "0.5"
    assert jupyter_gpushare.GpuShareWidget.__name__ == "GpuShareWidget"
    assert {"Share", "GpuShareWidget", "load_ipython_extension"} <= set(dir(jupyter_gpushare))
    with pytest.raises(AttributeError, match="'Shares'"):
        jupyter_gpushare.Shares  # noqa: B018


def test_jupyter_finds_both_extensions() -> None:
    """Jupyter Server and JupyterLab are told where the extensions are."""
    (point,) = jupyter_gpushare._jupyter_server_extension_points()
    assert (point["module"], point["app"].name) == ("jupyter_gpushare.session.extension", "jupyter_gpushare")
    assert jupyter_gpushare._jupyter_labextension_paths() == [{"src": "labextension", "dest": "jupyter-gpushare"}]


def test_the_version_is_the_package_s() -> None:
    """One version, wherever it is asked for."""
    assert jupyter_gpushare.__version__ == version("jupyter_gpushare")
