"""The pod that each cluster scheduler wants: one small module each, one interface."""
