"""Records in words and JSON, for every face."""
