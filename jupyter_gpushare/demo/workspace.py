"""The directory in which a demo lives: its machine, its notebooks, and settings apart from the user's own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BROKER
from jupyter_gpushare.demo.processes import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["IDLE_S", "NOTEBOOKS", "SHARE", "TRAINING", "Workspace"]

#: The projects that the demo's broker knows.
NOTEBOOKS: Final = "notebooks"
TRAINING: Final = "training"

#: What the demo's session gets: half of one GPU.
SHARE: Final = "0.5"

#: Seconds after which the demo parks an idle notebook: long enough to read a page of it, short enough to wait for.
IDLE_S: Final = 90.0
_PROJECT: Final = "GPUSHARE_PROJECT"  # the session's project, unless its configuration names one
_WARNED_FOR: Final = 2 / 3

# Lab's question about news would cover the sidebar, which is what a demo is about.
_IN_LAB: Final[Mapping[tuple[str, str], Mapping[str, object]]] = {
    ("@jupyterlab/apputils-extension", "notification"): {"fetchNews": "false"},
    ("jupyter-gpushare", "plugin"): {"showPanelAtStart": True},
}

_PACKAGE: Final = Path(str(files("jupyter_gpushare")))
# Left over from a server, kernel or GPU set-up around us, these would steer the demo's own server and kernels.
_FOREIGN: Final = ("GPUSHARE_", "JPY_", "JUPYTERHUB_", "JUPYTER_TOKEN", "JUPYTER_CONFIG_", "JUPYTER_GATEWAY_")
_CHOOSE_REAL_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Workspace:
    """A demo's places. `remove` deletes all of it but a *notebooks* directory that the user gave.

    Attributes:
        root: a temporary directory of this demo alone.
        notebooks: where the server serves from; inside *root* unless the user gave a directory to keep.
    """

    root: Path
    notebooks: Path

    @classmethod
    def create(cls, keep: Path | None = None) -> Workspace:
        """Make the directories; with *keep*, notebooks live there and stay."""
        root = Path(tempfile.mkdtemp(prefix="gpushare-demo-")).resolve()
        workspace = cls(root, keep.resolve() if keep else root / "notebooks")
        for directory in (workspace.notebooks, workspace.settings, root / "runtime", root / "labextensions"):
            directory.mkdir(parents=True, exist_ok=True)
        return workspace

    @property
    def machine(self) -> Path:
        """The directory of the simulated machine, which is made separately."""
        return self.root / "machine"

    @property
    def settings(self) -> Path:
        """Jupyter's configuration directory for the demo, so that the user's own settings stay out of it."""
        return self.root / "settings"

    @property
    def state(self) -> Path:
        """Where servers and jobs write down what they are parking."""
        return self.root / "state"

    @property
    def locks(self) -> Path:
        """Where servers and jobs have the locks of the demo's devices."""
        return self.root / "locks"

    @property
    def broker_socket(self) -> Path:
        """The socket of the demo's own broker."""
        return self.root / "broker" / "s"

    def add_notebook(self, name: str) -> Path:
        """Copy one of the demo's notebooks to where it is served, unless the user has one there already."""
        target = self.notebooks / name
        if not target.exists():
            shutil.copyfile(_PACKAGE / "demo" / name, target)
        return target

    def configure(
        self, *, port: int, extension: bool = True, simulated: bool = True, idle_timeout_s: float | None = IDLE_S
    ) -> None:
        """Write the server's configuration: this machine only, our extension on, no questions asked.

        Args:
            port: the first port to try.
            extension: whether the server has our extension.
            simulated: it parks on simulated GPUs; on real ones it keeps the usual settings.
            idle_timeout_s: a notebook that was idle for so many seconds is parked; None for never by itself.
        """
        self._link_sidebar()
        for (package, plugin), choices in _IN_LAB.items():
            self._set_in_lab(package, plugin, choices)
        config = {
            "ServerApp": {
                "ip": "127.0.0.1",
                "port": port,
                "open_browser": False,
                "allow_root": True,
                "root_dir": str(self.notebooks),
                "jpserver_extensions": {"jupyter_gpushare": extension},
            },
            "GpuShare": self._parking(idle_timeout_s) if simulated else {},
            "LabApp": {"extra_labextensions_path": [str(self.root / "labextensions")], "news_url": None},
        }
        (self.settings / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")

    def configure_hub(self, *, idle_timeout_s: float | None = IDLE_S) -> Path:
        """Write what every server of the demo's hub begins with; the directory, for ``JUPYTER_CONFIG_PATH``."""
        directory = self.root / "of-servers"
        (directory / "labconfig").mkdir(parents=True, exist_ok=True)
        self._link_sidebar()
        config = {
            "ServerApp": {"jpserver_extensions": {"jupyter_gpushare": True}},
            "GpuShare": self._parking(idle_timeout_s),
            "LabApp": {"extra_labextensions_path": [str(self.root / "labextensions")], "news_url": None},
        }
        (directory / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")
        overrides = {f"{package}:{plugin}": choices for (package, plugin), choices in _IN_LAB.items()}
        (directory / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(overrides), encoding="utf-8")
        return directory

    def _link_sidebar(self) -> None:
        """A checkout has its sidebar beside its code, an installed package in Jupyter's own place."""
        link = self.root / "labextensions" / "jupyter-gpushare"
        built = _PACKAGE / "labextension"
        if (built / "package.json").exists() and not link.exists():
            link.symlink_to(built)

    def _parking(self, idle_timeout_s: float | None) -> dict[str, object]:
        """Everything that parking leaves lies in *root*. Here, the other holder is no reason not to park."""
        return {
            "parking": "park",
            "idle_timeout_s": idle_timeout_s,
            "warning_s": (idle_timeout_s or IDLE_S) * _WARNED_FOR,
            "allow_foreign": True,
            "state_directory": str(self.state),
            "lock_directory": str(self.locks),
        }

    def _set_in_lab(self, package: str, plugin: str, choices: Mapping[str, object]) -> None:
        """Choose for the user of the demo, who can change it in Lab's settings."""
        directory = self.settings / "lab" / "user-settings" / package
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{plugin}.jupyterlab-settings").write_text(json.dumps(choices), encoding="utf-8")

    def environment(
        self, *, simulated: bool = True, private_runtime: bool = False, broker: bool = False
    ) -> dict[str, str]:
        """What the demo's processes run in.

        Args:
            simulated: they see the simulated machine instead of real GPUs.
            broker: they join the demo's own broker; else none, as this machine's knows nothing of simulated GPUs.
            private_runtime: ``jupyter gpushare status`` and ``jupyter server list`` do not find this server.
        """
        dropped = _FOREIGN + _CHOOSE_REAL_DEVICES if simulated else _FOREIGN
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        kept |= {MARK: str(self.root), "JUPYTER_CONFIG_DIR": str(self.settings), "GPUSHARE_SHARE": SHARE}
        kept |= {"IPYTHONDIR": str(self.root / "ipython"), "PYTHONUNBUFFERED": "1"}
        if private_runtime:
            kept["JUPYTER_RUNTIME_DIR"] = str(self.root / "runtime")
        if simulated:
            kept["GPUSHARE_SIMULATED_MACHINE"] = str(self.machine)
            kept |= {BROKER: f"unix:{self.broker_socket}", _PROJECT: NOTEBOOKS} if broker else {BROKER: "off"}
        if not _is_installed():
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_PACKAGE.parent), kept.get("PYTHONPATH")]))
        return kept

    def remove(self) -> None:
        """Delete the temporary directory, unless a cleaner of temporary files was faster."""
        if self.root.exists():
            shutil.rmtree(self.root)


def _is_installed() -> bool:
    try:
        distribution("jupyter_gpushare")
    except PackageNotFoundError:
        return False
    return True
