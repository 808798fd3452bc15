"""What runs inside a kernel: ``%gpushare``, the widget, and the answers to this kernel's own server."""
