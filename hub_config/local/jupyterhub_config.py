"""JupyterHub on one GPU machine, with SQLite: GPU shares to pick from, and pages that show who has which.

    jupyterhub -f hub_config/local/jupyterhub_config.py

As it is, it is for trying things out: it shows simulated GPUs, and says so, and whoever knows the password may sign in
under any name. For people's work, go through the lines that are marked with CHANGE, or begin with lab-server/.
"""

import os
import secrets
import sys
import tempfile
from pathlib import Path

from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.hub import setup_gpushare

c = get_config()
here = Path(__file__).parent

# CHANGE: where everything that must survive is kept; without it a new directory each time.
state = Path(os.environ.get("GPUSHARE_HUB_DIR") or tempfile.mkdtemp(prefix="gpushare-hub-"))
state.mkdir(mode=0o700, parents=True, exist_ok=True)

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.db_url = f"sqlite:///{state / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(state / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(state / "proxy.pid")

# CHANGE: who may sign in. With "pam" and allowed_users, the machine's own accounts.
password = os.environ.get("GPUSHARE_HUB_PASSWORD") or secrets.token_urlsafe(12)
if "GPUSHARE_HUB_PASSWORD" not in os.environ:
    print(f"Sign in as anybody, with the password {password}", file=sys.stderr)  # noqa: T201  # for whoever started it
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = password
c.Authenticator.allow_all = True

# CHANGE: "simple" runs everybody's server as the one who started the hub, in a home below the state directory. With
# "localprocess" each has their own account, the hub is started by root, and setup_gpushare gets unix_users=True.
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(state / "homes" / "{username}")
c.Spawner.default_url = "/lab"
if os.geteuid() == 0:
    c.Spawner.args = ["--allow-root"]

# CHANGE: GPUSHARE_REAL=1 for the GPUs of this machine. Before people park on them: jupyter gpushare doctor --qualify
simulated = {}
if os.environ.get("GPUSHARE_REAL") != "1":
    machine = state / "simulated-machine"
    if not machine.exists():
        Machine.create(machine)
    simulated = {"GPUSHARE_SIMULATED_MACHINE": str(machine)}
c.Spawner.environment = simulated

setup_gpushare(
    c,
    config=str(here / "gpushare.toml"),
    shares=["0.25", "0.5", "0.25..0.8", "1"],
    default="0.25",
    state=str(state / "gpushare"),
    port=int(os.environ.get("GPUSHARE_HUB_PORT") or 10203),  # between the hub, its proxy and the servers
)
