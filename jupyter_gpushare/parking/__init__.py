"""A process's GPU state off the device and back: preflight, the checkpoint process, room, and what survives a crash."""
