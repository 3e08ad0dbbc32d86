"""The program: `thumbindex`, or `python -m thumbindex`."""

from __future__ import annotations

import sys
import time

from thumbindex.process import (
    defer_garbage_collection,
    limit_numeric_threads,
    resume_garbage_collection,
)

SERVERS = ("serve", "page")
"""Commands that run a server."""


def main() -> None:
    """Run the command line."""
    started, is_answer = time.monotonic(), False
    is_server = not {*sys.argv[1:2]}.isdisjoint(SERVERS)
    try:
        if not is_server:
            # Imported here, since a server does not need it.
            from thumbindex.cli.command_client import ask_servers, can_be_served, suggest_server

            if (code := ask_servers(sys.argv[1:])) is not None:
                sys.exit(code)
            is_answer = can_be_served(sys.argv[1:])
        defer_garbage_collection()
        # Imported here, so that Ctrl-C during the import exits quietly.
        from thumbindex.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    limit_numeric_threads()
    if not is_server:  # a server resumes collection after it opens its indexes
        resume_garbage_collection()
    try:
        app(prog_name="thumbindex")
    except SystemExit as end:
        if is_answer and not end.code:
            suggest_server(started)
        raise


if __name__ == "__main__":
    main()
