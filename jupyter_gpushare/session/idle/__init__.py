"""When a kernel counts as idle, who decides how long that may last, and the watch that parks it then."""
