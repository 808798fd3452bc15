"""Who may hold which GPU now: decisions, pure. The standard library alone."""
