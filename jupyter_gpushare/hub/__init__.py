"""What runs in JupyterHub: one call in its configuration offers GPU shares to everybody who starts a server."""

from jupyter_gpushare.hub.admission import GpuShareAdmission
from jupyter_gpushare.hub.offers import Offers
from jupyter_gpushare.hub.setup import setup_gpushare

__all__ = ["GpuShareAdmission", "Offers", "setup_gpushare"]
