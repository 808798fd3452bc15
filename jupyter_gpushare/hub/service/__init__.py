"""The hub's service ``gpushare``: the broker and the people's pages, in one process that JupyterHub runs."""
