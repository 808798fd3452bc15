"""What watching the GPUs costs a notebook server."""
