"""The page: a web interface to a library, rendered on the server, usable without JavaScript."""
