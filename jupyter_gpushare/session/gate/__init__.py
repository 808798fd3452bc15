"""The gate: holds what could run user code in a kernel whose GPU state is not on the device.

It knows nothing of parking. `gates.Gates` stands in one server, `gate.Gate` before one kernel.
"""
