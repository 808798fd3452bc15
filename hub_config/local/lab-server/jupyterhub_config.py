"""JupyterHub for a lab: one GPU server, its own accounts, PostgreSQL, systemd, behind a reverse proxy.

Put this file and gpushare.toml into /etc/jupyterhub; README.md beside them has the order of things.
"""

import os

from jupyter_gpushare.hub import setup_gpushare

c = get_config()

# The reverse proxy ends TLS and is the only one that may reach this.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.public_url = os.environ["JUPYTERHUB_PUBLIC_URL"]

# Over PostgreSQL's own socket, as the account that the hub runs under: no password anywhere.
c.JupyterHub.db_url = "postgresql+psycopg:///jupyterhub"
c.JupyterHub.cookie_secret_file = "/var/lib/jupyterhub/cookie_secret"  # noqa: S105  # a path
c.ConfigurableHTTPProxy.pid_file = "/run/jupyterhub/proxy.pid"

# The machine's own accounts: a server runs as its person, at home.
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {"gpu-users"}
c.PAMAuthenticator.admin_groups = {"gpu-admins"}
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = 120

# Idle servers without anything parked are stopped by nobody here: parking gives their GPUs back, and that is enough.
# A restart of the hub leaves servers, and what is parked in them, as they are.
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = True

setup_gpushare(
    c,
    config="/etc/jupyterhub/gpushare.toml",
    shares=["0.25", "0.5", "0.5..1", "1"],
    default="0.25",
    state="/var/lib/jupyterhub/gpushare",
    ledger="postgresql+psycopg:///gpushare",
    unix_users=True,
)
