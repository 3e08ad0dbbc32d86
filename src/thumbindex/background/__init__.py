"""A server's background work: the open library, the indexer process, and folder watches."""
