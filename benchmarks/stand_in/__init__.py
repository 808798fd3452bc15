"""A driver library that answers without a GPU."""
