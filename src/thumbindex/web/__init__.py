"""The HTTP server: one address for several clients, each with its own access rights."""
