"""A machine with GPUs that are not there: real processes share it, and it is as hostile as a real one.

Notebooks use `cuda`, servers read it through `source` and park programs through `parking.simulated`, tests and
demonstrations set it up with `machine` and trouble it with `faults`. It runs on Linux: a process is known by its
entry under ``/proc``, and all processes that share a machine must see the same process ids.
"""
