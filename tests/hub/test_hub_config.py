"""The configurations that admins copy are valid, and do what their comments say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml
from traitlets.config import Config

from jupyter_gpushare.broker.admin_wire import ApplyAnswer
from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.session.extension import GpuShare
from tests.broker.service.bench import Bench
from tests.broker.service.hub_town import HubTown

from .offline_kubespawner import spawn_pod

HERE = Path(__file__).parent
CONFIGS = HERE.parents[1] / "hub_config"
VALUES = CONFIGS / "kubernetes" / "values.yaml"
LAB = CONFIGS / "local" / "lab-server"


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


@pytest.mark.parametrize(
    "file", [CONFIGS / "gpushare.toml", CONFIGS / "local" / "gpushare.toml", LAB / "gpushare.toml"]
)
def test_every_policy_that_admins_copy_can_be_put_in_force(file: Path) -> None:
    """A misspelt key in an example would stop the hub that was made from it."""
    assert Configuration.parse(file.read_text()).projects


def _lab_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The lab server's configuration, as JupyterHub reads it, with its directories below *tmp_path*."""
    monkeypatch.setenv("JUPYTERHUB_PUBLIC_URL", "https://gpu.example.org")
    places = {"/etc/jupyterhub": LAB, "/var/lib/jupyterhub": tmp_path}
    program = (LAB / "jupyterhub_config.py").read_text()
    for written, place in places.items():
        program = program.replace(written, str(place))
    c = Config()
    exec(program, {"get_config": lambda: c})  # noqa: S102  # as JupyterHub itself runs it
    return c


def test_the_lab_servers_hub_serves_the_machines_own_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers run as their people, and the service knows them by their accounts; both keep their books in PostgreSQL."""
    c = _lab_server(tmp_path, monkeypatch)
    (service,) = c.JupyterHub.services
    assert c.JupyterHub.spawner_class == "localprocess"
    assert "--unix-users" in service["command"]
    assert any("postgresql" in word for word in service["command"])
    assert c.JupyterHub.db_url.startswith("postgresql")
    assert c.JupyterHub.cleanup_servers is False, "what is parked lives on while the hub restarts"
    assert (tmp_path / "gpushare").stat().st_mode & 0o077 == 0


def test_the_lab_servers_readme_installs_every_file_beside_it() -> None:
    """What an admin copies from the page is all there, and nothing lies there that the page forgets."""
    page = (LAB / "README.md").read_text()
    for file in LAB.iterdir():
        assert file.name in page or file.name == "README.md", file.name


@pytest.mark.parametrize("unit", sorted(LAB.glob("*.service")), ids=lambda unit: unit.name)
def test_units_run_what_the_lab_servers_readme_installs(unit: Path) -> None:
    """A unit starts programs of the environment that the page makes, and reads files that it installs."""
    lines = [line for line in unit.read_text().splitlines() if line and not line.startswith("#")]
    sections = [line for line in lines if line.startswith("[")]
    assert sections[:2] == ["[Unit]", "[Service]"]
    for line in lines:
        key, _, value = line.partition("=")
        if key == "ExecStart":
            assert value.startswith("/opt/jupyterhub/bin/jupyter")
        for word in value.split():
            if word.startswith("/etc/jupyterhub/"):
                assert (LAB / word.removeprefix("/etc/jupyterhub/")).exists(), word


def test_parking_is_turned_on_where_the_doctor_said_yes() -> None:
    """What the unit installs is read by every server as a configuration of its own."""
    config = json.loads((LAB / "parking.json").read_text())
    assert GpuShare(config=Config(config)).parking == "park"


def _comments(file: Path) -> str:
    return "\n".join(line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#"))


@pytest.mark.parametrize("file", [CONFIGS / "local" / "gpushare.toml", LAB / "gpushare.toml"], ids=["one GPU", "lab"])
def test_a_policys_comments_say_how_a_change_takes_effect(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal goes to the hub's service, and to nobody whom it would end; the how-to says the same."""
    (pattern,) = set(re.findall(r"pkill -HUP -f '([^']+)'", _comments(file)))
    (service,) = _lab_server(tmp_path, monkeypatch).JupyterHub.services
    assert re.search(pattern, " ".join(service["command"]))
    for other in ("-m jupyter_gpushare.hub.culling --once", "-m jupyterhub -f jupyter_gpushare.hub ", "-m http.server"):
        assert not re.search(pattern, f"/opt/jupyterhub/bin/python3 {other}"), other
    assert f"pkill -HUP -f '{pattern}'" in (CONFIGS.parent / "docs" / "hub-how-to.md").read_text()


async def test_a_file_is_changed_in_its_place_and_apply_says_so(tmp_path: Path) -> None:
    """As the comments say: with a file, `apply` shows what a change would do and is refused; reading it again does it."""
    town = HubTown(bench := Bench(tmp_path))
    await bench.start()
    try:
        text = town.file.read_text().replace('quota = "2"', 'quota = "1"')
        tried = await town.ask("POST", "apply", "admin", {"text": text, "dry_run": True})
        assert tried.of(ApplyAnswer).changes == ["project team: quota 2 → 1"]
        refused = await town.ask("POST", "apply", "admin", {"text": text, "dry_run": False})
        assert (refused.status, refused.code) == (409, "SET_BY_FILE")
        town.file.write_text(text)
        await bench.broker.reload()
        assert str(bench.broker.books.projects["team"].quota) == "1"
    finally:
        await bench.close()
