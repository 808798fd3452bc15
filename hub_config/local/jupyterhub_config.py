"""JupyterHub on one machine, with GPU shares to pick from.

Run it with ``jupyterhub -f hub_config/local/jupyterhub_config.py``. It shows a simulated machine, and says so. Anybody
who knows the password may log in under any name: this is for trying things out, not for a service.
"""

import os
import secrets
import sys
import tempfile
from pathlib import Path

from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.hub import setup_gpushare

c = get_config()

password = os.environ.get("GPUSHARE_HUB_PASSWORD") or secrets.token_urlsafe(12)
if "GPUSHARE_HUB_PASSWORD" not in os.environ:
    print(f"Log in as anybody, with the password {password}", file=sys.stderr)  # noqa: T201  # for whoever started it

state = Path(os.environ.get("GPUSHARE_HUB_DIR") or tempfile.mkdtemp(prefix="gpushare-hub-"))
state.mkdir(parents=True, exist_ok=True)

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.db_url = f"sqlite:///{state / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(state / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(state / "proxy.pid")

c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = password
c.Authenticator.allow_all = True

c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(state / "homes" / "{username}")
c.Spawner.default_url = "/lab"
if os.geteuid() == 0:
    c.Spawner.args = ["--allow-root"]

# Real GPUs instead: GPUSHARE_REAL=1.
if os.environ.get("GPUSHARE_REAL") != "1":
    machine = state / "simulated-machine"
    if not machine.exists():
        Machine.create(machine)
    c.Spawner.environment = {"GPUSHARE_SIMULATED_MACHINE": str(machine)}

setup_gpushare(c, shares=["0.25", "0.5", "0.25..0.8", "1"], default="0.25")
