"""Long, hostile runs over the real server: ``python -m scripts.soak [PART ...] [--minutes 30] [--seed N]``."""
