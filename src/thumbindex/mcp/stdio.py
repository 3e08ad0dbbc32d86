"""MCP over standard input and output, until the client closes the input."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from thumbindex.background.host import LibraryHost, StartCommandServer
from thumbindex.opening import OpenOptions, nameable_directories, served_folders
from thumbindex.process import limit_numeric_threads, return_freed_memory, switch_threads_often
from thumbindex.text import one_line


def serve_stdio(opening: OpenOptions, start_command_server: StartCommandServer) -> int:
    """Serve one client until its end of standard input closes; the process ends here."""
    outgoing = claim_output()
    limit_numeric_threads()  # the child that indexes, too
    switch_threads_often()
    config = opening.load()
    folders, about = served_folders(opening, config)
    if sys.stdin.isatty():
        _print_terminal_hint(folders)
    # The input is read by a thread that no Python-level exception would wake: let signals end the
    # process at once.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    may_name = nameable_directories(opening, folders)
    database = opening.database_in(config)
    library_host = LibraryHost(
        opening, start_command_server=None if database else start_command_server
    )
    return_freed_memory()
    # Imported here: only a server over standard input needs it, and it takes half a second.
    from thumbindex.mcp.server import serve_client

    serve_client(library_host, folders, may_name, about, outgoing)
    sys.stderr.flush()
    # Threads that load a model or search must not keep a server whose client is gone.
    os._exit(0)


def _print_terminal_hint(folders: Sequence[tuple[str, Path]]) -> None:
    """Tell a user in a terminal, on stderr, what the server waits for and how to try it."""
    named = " ".join(f"--folder {shlex.quote(str(root))}" for _, root in folders)
    lines = (
        (
            f"The MCP server for {', '.join(name for name, _ in folders)} waits for messages of "
            "an MCP client: a client starts this command itself."
        ),
        f"To set up a client:  thumbindex install CLIENT {named}",
        f'To ask right here:   thumbindex query "your question" {named}',
        "Ctrl-C ends the server.",
    )
    sys.stderr.write("\n".join(map(one_line, lines)) + "\n")
    sys.stderr.flush()


def claim_output() -> io.TextIOWrapper:
    """Return standard output for the protocol alone; other output goes to stderr."""
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    return io.TextIOWrapper(os.fdopen(protocol, "wb"), encoding="utf-8", newline="\n")
