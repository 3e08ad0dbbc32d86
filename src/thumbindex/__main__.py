"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys

from thumbindex.process import (
    defer_garbage_collection,
    limit_numeric_threads,
    resume_garbage_collection,
)

SERVERS = ("serve", "page")
"""Commands that run a server."""


def main() -> None:
    """Run the command line."""
    is_server = not {*sys.argv[1:2]}.isdisjoint(SERVERS)
    try:
        if not is_server:
            # Imported here, since a server does not need it.
            from thumbindex.cli.command_client import ask_servers

            if (code := ask_servers(sys.argv[1:])) is not None:
                sys.exit(code)
        defer_garbage_collection()
        # Imported here, so that Ctrl-C during the import exits quietly.
        from thumbindex.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    limit_numeric_threads()
    if not is_server:  # a server resumes collection after it opens its indexes
        resume_garbage_collection()
    app(prog_name="thumbindex")


if __name__ == "__main__":
    main()
