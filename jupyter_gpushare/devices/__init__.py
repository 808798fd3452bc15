"""Which GPUs exist, who uses them now, and how well each number is known."""
