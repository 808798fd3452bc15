"""What `setup_gpushare` tells the hub of its service, roles and scopes: added to what was there, for JupyterHub 5 and 6."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import jupyterhub.roles  # type: ignore[import-untyped]
import jupyterhub.scopes  # type: ignore[import-untyped]
import pytest
from jupyterhub.app import JupyterHub  # type: ignore[import-untyped]
from jupyterhub.services.service import Service  # type: ignore[import-untyped]
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner  # type: ignore[import-untyped]
from traitlets import default
from traitlets.config import Config

from jupyter_gpushare.hub import registration, setup_gpushare
from jupyter_gpushare.hub.service.command import HubServiceApp
from jupyter_gpushare.hub.service.environment import HubEnvironment
from jupyter_gpushare.hub.service.parent import HUB_PROCESS
from jupyter_gpushare.schedulers import KaiScheduler

from .spawners import make, settled

OURS = ["access:services!service=gpushare", "custom:gpushare:write"]


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub keeps its state where it was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUSHARE_SIMULATED_MACHINE", raising=False)


def set_up(c: Config | None = None, **arguments: Any) -> Config:
    """*c* after `setup_gpushare`."""
    c = Config() if c is None else c
    setup_gpushare(c, **arguments)
    return c


def service_of(c: Config) -> dict[str, Any]:
    """Our service, as the hub is told of it."""
    (found,) = [each for each in c.JupyterHub.services if each["name"] == "gpushare"]
    return found  # type: ignore[no-any-return]


def test_service_is_one_that_the_hub_can_run() -> None:
    """The hub takes every word of it, and our command takes the arguments that it is run with."""
    c = set_up(port=10999, unix_users=True, ledger="postgresql+psycopg:///gpushare")
    said = service_of(c)
    app = JupyterHub(config=c)
    assert [each["name"] for each in app.services] == ["gpushare"]
    assert not [name for name in said if not Service.class_traits().get(name)]
    python, *module, _ = said["command"][:4]
    assert (python, module) == (sys.executable, ["-m", "jupyter_gpushare.hub"])
    command = HubServiceApp()
    command.parse_command_line(said["command"][3:])
    assert command.state == str(Path.cwd() / "gpushare-state")
    assert command.ledger == "postgresql+psycopg:///gpushare"
    assert command.unix_users
    assert command.extra_args == []
    environment = HubEnvironment.read(
        {
            **said["environment"],
            "JUPYTERHUB_SERVICE_URL": said["url"],
            "JUPYTERHUB_SERVICE_NAME": said["name"],
            "JUPYTERHUB_SERVICE_PREFIX": "/services/gpushare/",
            "JUPYTERHUB_API_URL": "http://127.0.0.1:8081/hub/api",
            "JUPYTERHUB_API_TOKEN": "t",
        }
    )
    assert environment.port == 10999


def test_pages_are_given_what_the_hubs_templates_are() -> None:
    """An announcement, not what the hub works out for each person; and nothing that no environment would take."""
    c = Config()
    c.JupyterHub.template_vars = {"announcement": "<b>é</b>", "mine": [1, {"a": None}], "each": lambda user: user.name}
    said = service_of(set_up(c))["environment"]
    assert json.loads(said["GPUSHARE_TEMPLATE_VARS"]) == {"announcement": "<b>é</b>", "mine": [1, {"a": None}]}
    for given in ({}, {"each": print}, {"announcement": "x" * 200_000}):
        c = Config()
        c.JupyterHub.template_vars = given
        assert "GPUSHARE_TEMPLATE_VARS" not in service_of(set_up(c))["environment"]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_what_was_there_stays(is_lazy: bool) -> None:  # noqa: FBT001  # a test's parameter
    """Services, roles and scopes of an admin's own stay, set or only added to."""
    c = Config()
    service, role = {"name": "mine"}, {"name": "mine", "scopes": ["list:users"]}
    if is_lazy:
        c.JupyterHub.services.append(service)
        c.JupyterHub.load_roles.append(role)
        c.JupyterHub.custom_scopes.update({"custom:mine:x": {"description": "x"}})
    else:
        c.JupyterHub.services = [service]
        c.JupyterHub.load_roles = [role]
        c.JupyterHub.custom_scopes = {"custom:mine:x": {"description": "x"}}
    set_up(c)
    assert [each["name"] for each in c.JupyterHub.services] == ["mine", "gpushare"]
    assert [each["name"] for each in c.JupyterHub.load_roles][:2] == ["mine", "gpushare-service"]
    assert {"custom:mine:x", "custom:gpushare:admin"} <= c.JupyterHub.custom_scopes.keys()
    assert service == {"name": "mine"}
    assert role == {"name": "mine", "scopes": ["list:users"]}, "the admin's own objects are not written into"


def test_scopes_are_ones_that_the_hub_knows() -> None:
    """The hub would not start with a scope that it does not know, or one of ours without a description."""
    c = set_up()
    known = dict(jupyterhub.scopes.scope_definitions)
    for name, scope in c.JupyterHub.custom_scopes.items():
        assert jupyterhub.scopes._custom_scope_pattern.match(name)
        assert scope["description"]
        assert set(scope.get("subscopes", [])) <= c.JupyterHub.custom_scopes.keys()
    asked = [scope for role in c.JupyterHub.load_roles for scope in role["scopes"]]
    for scope in [*asked, *service_of(c)["oauth_client_allowed_scopes"]]:
        base = scope.partition("!")[0]
        assert base in known or base in c.JupyterHub.custom_scopes, scope


def test_every_user_may_use_it_on_hub_6() -> None:
    """The user role is added to, as JupyterHub 6 can, and keeps what it has."""
    c = Config()
    c.JupyterHub.extra_user_scopes = {"access:services!service=mine"}
    registration.add_roles(c, (6, 1, 1))
    assert c.JupyterHub.extra_user_scopes == {*OURS, "access:services!service=mine"}
    assert [role["name"] for role in c.JupyterHub.load_roles] == ["gpushare-service"]


def test_every_user_may_use_it_on_hub_5() -> None:
    """JupyterHub 5 has one way alone: the whole user role, with what it had."""
    c = Config()
    registration.add_roles(c, (5, 5, 4))
    assert c.JupyterHub.load_roles[1] == {"name": "user", "scopes": ["self", *OURS]}
    assert "extra_user_scopes" not in c.JupyterHub


@pytest.mark.parametrize("version", [(5, 5, 4), (6, 1, 1)])
def test_user_role_of_an_admins_own(version: tuple[int, ...]) -> None:
    """Where an admin has written the user role, the hub would ignore anything beside it: ours goes into it, once."""
    c = Config()
    c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", "shares!user", OURS[0]]}]
    registration.add_roles(c, version)
    (user,) = [role for role in c.JupyterHub.load_roles if role["name"] == "user"]
    assert user["scopes"] == ["self", "shares!user", *OURS]


async def _asked(_: Any) -> list[str]:
    return ["access:servers!server", "inherit"]


@pytest.mark.parametrize(
    ("said", "scopes"),
    [
        (None, ["users:activity!user", "access:servers!server"]),
        ([], ["users:activity!user", "access:servers!server"]),
        (["inherit"], ["inherit"]),
        (lambda spawner: [f"read:users:name!user={spawner.user.name}"], ["read:users:name!user=ada"]),
        (_asked, ["access:servers!server", "inherit"]),
    ],
)
def test_servers_may_ask_the_service(said: Any, scopes: list[str]) -> None:
    """A server's own token reaches the broker for its person, and still does what it did before."""
    c = Config()
    if said is not None:
        c.Spawner.server_token_scopes = said
    spawner = make(LocalProcessSpawner, set_up(c))
    assert asyncio.run(settled(spawner.server_token_scopes(spawner))) == [*scopes, *OURS]


@pytest.mark.parametrize("said", [None, ["inherit"], lambda _: ["inherit"]])
def test_the_hub_does_not_wait_for_a_servers_scopes(said: Any) -> None:
    """It asks with a server's address not yet committed, which the end of any other request would roll back."""
    c = Config()
    if said is not None:
        c.Spawner.server_token_scopes = said
    spawner = make(LocalProcessSpawner, set_up(c))
    assert isinstance(spawner.server_token_scopes(spawner), list)


def test_servers_scopes_of_one_spawners_own_section() -> None:
    """A spawner's own section, one that was only added to as well, and the server role of an admin's own, are kept."""
    c = Config()
    c.JupyterHub.load_roles = [{"name": "server", "scopes": ["users:activity!user"]}]
    c.SimpleLocalProcessSpawner.server_token_scopes.append("list:users")
    set_up(c)
    simple, local = (make(each, c) for each in (SimpleLocalProcessSpawner, LocalProcessSpawner))
    assert asyncio.run(settled(simple.server_token_scopes(simple))) == ["list:users", *OURS]
    assert asyncio.run(settled(local.server_token_scopes(local))) == ["users:activity!user", *OURS]


class ScopedSpawner(LocalProcessSpawner):  # type: ignore[misc]
    """A spawner whose class says what its servers may do."""

    @default("server_token_scopes")
    def _default_server_token_scopes(self) -> Any:
        return ["inherit"]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_servers_scopes_of_a_spawners_class(is_lazy: bool) -> None:  # noqa: FBT001  # a test's parameter
    """What a spawner's class lets its servers do, they still may; the hub does not wait for it either."""
    c = Config()
    if is_lazy:
        c.ScopedSpawner.server_token_scopes.append("list:users")
    set_up(c)
    first, second = (make(ScopedSpawner, c) for _ in range(2))
    expected = ["inherit", *(["list:users"] if is_lazy else []), *OURS]
    assert first.server_token_scopes(first) == expected
    assert second.server_token_scopes(second) == expected


def test_state_is_private_and_its_secret_outlives_the_hub() -> None:
    """Servers that run on while the hub restarts are known again; nobody else on the machine reads the secret."""
    first, second = (service_of(set_up())["environment"]["GPUSHARE_HUB_TOKEN"] for _ in range(2))
    assert first == second
    assert len(first) >= 32
    state = Path("gpushare-state")
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "hub.token").stat().st_mode & 0o777 == 0o600


def test_state_that_is_open_to_others() -> None:
    """The hub does not start on a directory that others may enter, and its log says in one sentence what to run."""
    state = Path("open").absolute()
    state.mkdir(mode=0o755)
    with pytest.raises(
        ValueError, match=rf"^state: {state} is open to other users, and holds secrets; run: chmod 700 "
    ):
        set_up(state=state)


def test_secret_that_somebody_could_have_changed() -> None:
    """A secret that others can read, or that is too short to be one, is not used."""
    set_up()
    secret = Path("gpushare-state") / "hub.token"
    secret.write_text("short")
    with pytest.raises(ValueError, match="was changed by somebody; remove it, and a new one is made"):
        set_up()
    secret.write_text("x" * 43)
    secret.chmod(0o644)
    with pytest.raises(ValueError, match="was changed by somebody"):
        set_up()


def test_simulated_devices_are_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service looks at the devices that servers are told of; nothing else of the hub's environment reaches it."""
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", "/from/the/shell")
    monkeypatch.setenv("GPUSHARE_HUB_PASSWORD", "everybody's")
    assert service_of(set_up())["environment"]["GPUSHARE_SIMULATED_MACHINE"] == "/from/the/shell"
    c = Config()
    c.Spawner.environment = {"GPUSHARE_SIMULATED_MACHINE": "/from/the/hub", "OTHER": "x"}
    environment = service_of(set_up(c, environment={"PGPASSFILE": "/srv/pgpass"}))["environment"]
    assert environment.keys() == {"GPUSHARE_SIMULATED_MACHINE", "GPUSHARE_HUB_TOKEN", HUB_PROCESS, "PGPASSFILE"}
    assert environment["GPUSHARE_SIMULATED_MACHINE"] == "/from/the/hub"


def test_admins_file_is_looked_at_when_the_hub_starts() -> None:
    """A mistake in it shows where the admin looks, and not as a service that never comes up."""
    Path("gpushare.toml").write_text("[projects.team-a]\nquota = 'four'\n")
    with pytest.raises(ValueError, match=r"^config: .*gpushare\.toml is wrong:\n.*quota"):
        set_up()
    Path("gpushare.toml").write_text("[projects.team-a]\nquota = 4\n")
    assert f"--config={Path.cwd() / 'gpushare.toml'}" in service_of(set_up())["command"]
    with pytest.raises(ValueError, match=r"^config: .*other\.toml is not there"):
        set_up(config="other.toml")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"queue_timeout": 0}, "queue_timeout: 0 is not between 1 and 86400 seconds"),
        ({"broker_away": "maybe"}, 'broker_away: \'maybe\' is neither; write "closed" or "open"'),
        ({"port": 0}, "port: 0 is none"),
        ({"server_url": "hub:8000"}, "server_url: 'hub:8000' is no address"),
        ({"admission": object()}, "admission: it is no subclass of GpuShareAdmission"),
        ({"ledger": "postgresql://gpushare:secret@db/gpushare"}, "ledger: a password in the address would be seen"),
        ({"custom": "lots"}, "custom: request: "),
        ({"kinds": ["A100!"]}, "kinds: kind: "),
        ({"default": "none", "no_gpu": False}, "default: request: "),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], wrong: str) -> None:
    """A wrong argument stops the hub's start with its name and what to write."""
    with pytest.raises(ValueError, match=f"^{wrong}"):
        set_up(**arguments)


def test_cluster_keeps_its_own_books() -> None:
    """Where a scheduler books shares there is no service beside it, and nothing is written to disk."""
    c = set_up(scheduler=KaiScheduler())
    assert "services" not in c.JupyterHub
    assert not Path("gpushare-state").exists()


@pytest.mark.parametrize(
    ("said", "browser"),
    [
        ({}, "/services/gpushare/"),
        ({"base_url": "/jupyter/"}, "/jupyter/services/gpushare/"),
        ({"bind_url": "http://:8000/jupyter"}, "/jupyter/services/gpushare/"),
        (
            {"subdomain_host": "https://hub.example.org:8443"},
            "https://gpushare--service.hub.example.org:8443/services/gpushare/",
        ),
        (
            {"subdomain_host": "hub.example.org", "subdomain_hook": "legacy"},
            "https://services.hub.example.org/services/gpushare/",
        ),
    ],
)
def test_addresses_of_the_service(said: dict[str, str], browser: str) -> None:
    """Links and open pickers lead to the service wherever the hub is, with a prefix or domains of its own."""
    c = Config()
    for name, value in said.items():
        c.JupyterHub[name] = value
    set_up(c)
    spawner = make(LocalProcessSpawner, c)
    spawner.hub.base_url = ""
    form = str(asyncio.run(spawner.get_options_form()))
    assert f'data-live="{browser}picker?for=' in form
