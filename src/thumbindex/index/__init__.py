"""Storage of an index: one SQLite file, and the keyword index, vectors and link graph."""
