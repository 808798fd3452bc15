"""The session's lease of a broker: claimed, held, parked and resumed with the kernels."""
