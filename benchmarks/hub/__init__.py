"""What a hub pays for GPU shares: a server's start, and the page that shows everything."""
