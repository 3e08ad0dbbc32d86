"""The HTTP server: one address for several clients with different access rights."""
