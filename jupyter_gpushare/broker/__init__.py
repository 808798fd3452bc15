"""Keeps the decisions of `rules` and serves them: the ledger, the reconciler, the service and its client."""
