"""The open library behind a server, the child that indexes, and the watch on folders."""
