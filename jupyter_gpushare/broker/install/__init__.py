"""The broker as a service of this machine, for all of its users: what is written, and taken back."""
