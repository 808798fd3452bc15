"""One server's parkings: what is wanted of each kernel, what is done about it, and how that reads."""
