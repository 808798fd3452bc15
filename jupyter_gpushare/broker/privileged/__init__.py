"""The only part that acts on other users' processes: a program of one file for root, and how the broker asks it."""
