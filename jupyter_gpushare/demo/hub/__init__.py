"""The demo's JupyterHub: two people of two teams, an admin, simulated GPUs, training."""
