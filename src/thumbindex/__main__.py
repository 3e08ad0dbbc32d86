"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        # Imported here: an interruption while modules are being read is one, too.
        from thumbindex.serve.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
