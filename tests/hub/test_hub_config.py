"""The configurations that admins copy are valid, and do what their comments say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml
from traitlets.config import Config

from .offline_kubespawner import spawn_pod

HERE = Path(__file__).parent
VALUES = HERE.parents[1] / "hub_config" / "kubernetes" / "values.yaml"


def without_required(schema: Any) -> Any:
    """The schema of a part of the chart's values: what the chart itself fills in need not be there."""
    if isinstance(schema, dict):
        return {key: without_required(value) for key, value in schema.items() if key != "required"}
    return [without_required(item) for item in schema] if isinstance(schema, list) else schema


def test_overlay_fits_the_chart() -> None:
    """Helm would refuse a misspelt key of the overlay only at the admin's."""
    schema = yaml.load((HERE / "data" / "z2jh-values.schema.yaml").read_text(), Loader=yaml.CSafeLoader)
    jsonschema.validate(yaml.safe_load(VALUES.read_text()), without_required(schema))


@pytest.mark.usefixtures("kubeconfig")
def test_overlay_books_shares() -> None:
    """The Python inside the overlay runs, and a user's pod comes out with the share and the team's queue."""
    values = yaml.safe_load(VALUES.read_text())
    c = Config()
    c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
    for name in sorted(values["hub"]["extraConfig"]):
        exec(values["hub"]["extraConfig"][name], {"c": c})  # noqa: S102  # as the chart itself runs it
    groups = [SimpleNamespace(name="everybody"), SimpleNamespace(name="team-b")]
    pod = spawn_pod(c, {"profile": "0.5@a100"}, groups=groups)
    assert pod["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "team-b"
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
