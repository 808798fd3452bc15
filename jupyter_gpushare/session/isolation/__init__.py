"""How kernels are kept to their session's share: one small file per mode behind one interface, `mode.Isolation`."""
