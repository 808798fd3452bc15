"""``python -m benchmarks.stand_in.server …``: a Jupyter server whose GPU holders are those of the stand-in."""

from __future__ import annotations

from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from benchmarks.stand_in.source import open_source

if __name__ == "__main__":
    ServerApp.launch_instance(config=Config({"GpuShare": {"open_source": open_source}}))
