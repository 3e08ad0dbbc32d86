"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys

from thumbindex.process import (
    defer_garbage_collection,
    limit_numeric_threads,
    resume_garbage_collection,
)

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
        defer_garbage_collection()
        # Imported here: an interruption while modules are being read is one, too.
        from thumbindex.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    limit_numeric_threads()
    if not is_server:  # a server opens its indexes before
        resume_garbage_collection()
    app(prog_name="thumbindex")


if __name__ == "__main__":
    main()
