"""What this repository runs on itself: set-up, tests, lints, soak."""
