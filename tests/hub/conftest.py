"""A real JupyterHub for the tests that need one, and a cluster that is not there for KubeSpawner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from .offline_kubespawner import KUBECONFIG
from .running_hub import RunningHub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let KubeSpawner find a configuration, whatever this machine has."""
    path = tmp_path_factory.mktemp("kube") / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(path))
        # Read from the environment once, when the module is imported, which may have been before.
        patch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        yield


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A JupyterHub with its proxy, configured by `hub_config/local`; nothing of it is left afterwards."""
    running = RunningHub(tmp_path_factory.mktemp("hub"))
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()
