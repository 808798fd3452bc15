"""Everybody at once: Monday at nine, and a class. The product's rules under a virtual clock."""
