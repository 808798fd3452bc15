"""``python -m jupyter_gpushare.hub``: what JupyterHub runs as its service ``gpushare``."""

from jupyter_gpushare.hub.service.command import HubServiceApp

if __name__ == "__main__":
    HubServiceApp.launch_instance()
