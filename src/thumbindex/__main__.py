"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys

from thumbindex.process import collect_as_usual, collect_rarely, compute_on_one_thread

SERVERS = ("serve", "page")
"""The commands that serve until they are ended."""


def main() -> None:
    """Run the command line."""
    is_server = not {*sys.argv[1:2]}.isdisjoint(SERVERS)
    try:
        if not is_server:
            # Imported here: a server asks nobody.
            from thumbindex.cli.command_client import ask_servers

            if (code := ask_servers(sys.argv[1:])) is not None:
                sys.exit(code)
        collect_rarely()
        # Imported here: an interruption while modules are being read is one, too.
        from thumbindex.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    compute_on_one_thread()
    if not is_server:  # a server opens its indexes before
        collect_as_usual()
    app(prog_name="thumbindex")


if __name__ == "__main__":
    main()
