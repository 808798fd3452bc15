"""What a hub's admin lets happen to a notebook server that nobody uses, and what its person is told before it does."""
