"""Decide whether two texts say the same; pure functions for query and library."""
