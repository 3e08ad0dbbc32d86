"""Models that turn texts into vectors and score passages for a query."""
