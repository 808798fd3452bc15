"""What every test shares: Jupyter's server fixtures and how property tests search."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["pytest_jupyter.jupyter_server"]

# A test never judges speed, and a run repeats exactly; `make soak` searches on with new seeds.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("GPUSHARE_HYPOTHESIS_PROFILE", "repeatable"))
