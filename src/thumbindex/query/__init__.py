"""Which passages answer this? A list of pure stages and the loop that runs them."""
