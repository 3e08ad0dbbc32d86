"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys

from thumbindex.process import collect_as_usual, collect_rarely, compute_on_one_thread

STAYING = ("serve", "page")
"""The commands that stay, for the first of which a client waits: they are imported without the
others.
"""


def main() -> None:
    """Run the command line."""
    stays = not {*sys.argv[1:2]}.isdisjoint(STAYING)
    try:
        if not stays:
            # Imported here: a server asks nobody.
            from thumbindex.serve.local_client import ask_servers

            if (code := ask_servers(sys.argv[1:])) is not None:
                sys.exit(code)
        collect_rarely()
        # Imported here: an interruption while modules are being read is one, too; and a server does
        # without the other commands.
        if stays:
            from thumbindex.serve.server import server_app as app
        else:
            from thumbindex.serve.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    compute_on_one_thread()
    if not stays:  # a server opens its indexes before
        collect_as_usual()
    app(prog_name="thumbindex")


if __name__ == "__main__":
    main()
