"""Evaluation of retrieval quality, through the library's public API only."""
