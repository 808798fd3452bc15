"""The demo hub's configuration: what `hub_config/local` shows admins, with people and passwords of a demo's own."""

from __future__ import annotations

import hmac
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jupyterhub.auth import Authenticator  # type: ignore[import-untyped]
from traitlets import Dict

from jupyter_gpushare.hub import setup_gpushare

if TYPE_CHECKING:
    from traitlets.config import Config

    from jupyter_gpushare.demo.hub.plan import HubPlan

__all__ = ["DemoAuthenticator", "configure"]

_LOCAL: Final = "127.0.0.1"


class DemoAuthenticator(Authenticator):  # type: ignore[misc]  # JupyterHub has no types
    """Knows the people of one demo, each by a password that was made for it."""

    passwords = Dict(help="Password by name.").tag(config=True)

    async def authenticate(self, _handler: Any, data: dict[str, str]) -> str | None:
        """The name, if the password is theirs."""
        name, password = data["username"], self.passwords.get(data["username"])
        shown = data["password"].encode()
        return name if password is not None and hmac.compare_digest(password.encode(), shown) else None


def configure(c: Config, plan: HubPlan) -> None:
    """Make *c* the configuration of the hub that *plan* describes."""
    _configure_hub(c, plan)
    _configure_people(c, plan)
    _configure_servers(c, plan)
    for name, value in plan.traits.items():
        section, _, trait = name.partition(".")
        c[section][trait] = value
    if plan.setup is not None:
        state = str(Path(plan.directory) / "gpushare")
        setup_gpushare(
            c, config=plan.policy, state=state, port=plan.service_port, environment=plan.environment, **plan.setup
        )


def _configure_hub(c: Config, plan: HubPlan) -> None:
    directory = Path(plan.directory)
    c.JupyterHub.bind_url = plan.url
    c.JupyterHub.hub_bind_url = f"http://{_LOCAL}:{plan.hub_port}"
    c.JupyterHub.db_url = f"sqlite:///{directory / 'jupyterhub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(directory / "cookie_secret")
    c.ConfigurableHTTPProxy.api_url = f"http://{_LOCAL}:{plan.proxy_port}"
    c.ConfigurableHTTPProxy.command = list(plan.proxy)
    c.ConfigurableHTTPProxy.pid_file = str(directory / "proxy.pid")


def _configure_people(c: Config, plan: HubPlan) -> None:
    c.JupyterHub.authenticator_class = DemoAuthenticator
    c.DemoAuthenticator.passwords = {person.name: person.password for person in plan.people}
    c.Authenticator.allowed_users = {person.name for person in plan.people}
    c.Authenticator.admin_users = {person.name for person in plan.people if person.is_admin}
    groups = {group for person in plan.people for group in person.groups}
    c.JupyterHub.load_groups = {
        group: {"users": [person.name for person in plan.people if group in person.groups]} for group in sorted(groups)
    }


def _configure_servers(c: Config, plan: HubPlan) -> None:
    c.JupyterHub.spawner_class = "simple"
    c.SimpleLocalProcessSpawner.home_dir_template = str(Path(plan.directory) / "homes" / "{username}")
    c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
    c.Spawner.default_url = "/lab"
    # A laptop that runs everything at once takes its time.
    c.Spawner.start_timeout = c.Spawner.http_timeout = 120
    c.Spawner.environment = dict(plan.environment)
    if os.geteuid() == 0:
        c.Spawner.args = ["--allow-root"]
