"""The simulated machine's stories: a demo to click through, and a tour that checks itself."""
