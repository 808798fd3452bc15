"""One notebook server's share: the Jupyter Server extension."""
