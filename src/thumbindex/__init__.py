"""Thumbindex: a retrieval server for folders of Markdown."""
