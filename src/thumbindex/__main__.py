"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys

from thumbindex.process import compute_on_one_thread

STAYING = {"serve", "work"}
"""Commands for which a client waits: they are imported without the others."""


def main() -> None:
    """Run the command line."""
    try:
        # Imported here: an interruption while modules are being read is one, too.
        if sys.argv[1:2] and sys.argv[1] in STAYING:
            from thumbindex.serve.server import app
        else:
            from thumbindex.serve.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    compute_on_one_thread()
    app()


if __name__ == "__main__":
    main()
