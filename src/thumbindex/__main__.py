"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

from thumbindex.serve.cli import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
