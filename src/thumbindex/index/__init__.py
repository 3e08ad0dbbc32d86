"""Storage of an index: one SQLite file, and keyword, vector and link views derived from it."""
