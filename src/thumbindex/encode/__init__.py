"""What does it mean? Models that turn texts into vectors and score passages for a query."""
