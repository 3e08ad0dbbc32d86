"""The program that a bundle for Claude Desktop starts: its arguments are folders, since that is all that a bundle's settings can give."""

from __future__ import annotations

from thumbindex.serve.cli import app


def main(folders: list[str]) -> None:
    """Serve MCP over standard input and output for some folders."""
    app(["serve", *(f"--folder={each}" for each in folders)])
