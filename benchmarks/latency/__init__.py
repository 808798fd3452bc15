"""How long a notebook's share takes to reach training, and to come back for a cell."""
