"""A real control plane, built from Go modules: `scripts/build-cluster`, then `python -m tests.cluster.prove`."""
