"""Share GPUs between notebooks and training jobs.

This module holds what Jupyter, IPython and JupyterHub look for, and the public names `Share` and
`GpuShareWidget`. Importing it loads none of the package: every kernel and every server does so.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; `typing` would be most of this import's time
if TYPE_CHECKING:
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_gpushare.notebook.widget import GpuShareWidget
    from jupyter_gpushare.share import Share

__all__ = ["GpuShareWidget", "Share", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name == "Share":
        from jupyter_gpushare.share import Share

        return Share
    if name == "GpuShareWidget":
        from jupyter_gpushare.notebook.widget import GpuShareWidget

        return GpuShareWidget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ip: InteractiveShell) -> None:
    """``%load_ext jupyter_gpushare``: the magic, and in a kernel the answer to the server's wishes."""
    from jupyter_gpushare.notebook.kernel import load

    load(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """``%unload_ext jupyter_gpushare``: leave the shell as it was."""
    from jupyter_gpushare.notebook.kernel import unload

    unload(ip)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-gpushare"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_gpushare.session.extension import GpuShare

    return [{"module": "jupyter_gpushare.session.extension", "app": GpuShare}]
