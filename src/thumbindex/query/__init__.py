"""The query pipeline: its stages find the passages for a query, and a loop runs the stages."""
