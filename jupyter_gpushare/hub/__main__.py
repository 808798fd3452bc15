"""``python -m jupyter_gpushare.hub``: what JupyterHub runs as its service ``gpushare``."""

import os

from jupyter_gpushare.hub.service import beginning

if __name__ == "__main__":
    beginning.begin(os.environ)
    # Imported only now: it takes longer than everything before, and the hub waits for an answer.
    from jupyter_gpushare.hub.service.command import HubServiceApp

    HubServiceApp.launch_instance()
