"""Culling: what is left idle is parked, ended or stopped, gently: warned of, never without evidence, and counted."""

from jupyter_gpushare.hub.culling.arbiter import gpu_cull_arbiter, make_arbiter

__all__ = ["gpu_cull_arbiter", "make_arbiter"]
