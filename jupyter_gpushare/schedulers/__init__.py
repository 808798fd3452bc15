"""The pod that each cluster scheduler wants: one small module each, one interface."""

from jupyter_gpushare.schedulers.hami import HamiScheduler
from jupyter_gpushare.schedulers.kai import KaiScheduler
from jupyter_gpushare.schedulers.nvidia import NvidiaScheduler
from jupyter_gpushare.schedulers.scheduler import Scheduler

__all__ = ["HamiScheduler", "KaiScheduler", "NvidiaScheduler", "Scheduler"]
