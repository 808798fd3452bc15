"""What each policy makes of a month of notebooks: the product's own rules under a virtual clock."""
