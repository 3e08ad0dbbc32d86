"""MCP over standard input and output."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from thumbindex.background.host import LibraryHost, StartCommandServer
from thumbindex.opening import OpenOptions, served_folders
from thumbindex.process import limit_numeric_threads, return_freed_memory, switch_threads_often
from thumbindex.text import one_line


def serve_stdio(opening: OpenOptions, start_command_server: StartCommandServer) -> int:
    """Serve a client until standard input closes, then exit the process."""
    outgoing = claim_output()
    limit_numeric_threads()  # the indexer's process inherits this
    switch_threads_often()
    config = opening.load()
    folders, about = served_folders(opening, config)
    if sys.stdin.isatty():
        _print_terminal_hint(folders, opening)
    # A Python exception would not wake the thread that reads stdin: let signals end the process.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    database = opening.database_in(config)
    library_host = LibraryHost(
        opening, start_command_server=None if database else start_command_server
    )
    return_freed_memory()
    # imported here: it takes half a second
    from thumbindex.mcp.server import serve_client

    serve_client(library_host, folders, about, outgoing)
    sys.stderr.flush()
    # do not wait for threads that load a model or search
    os._exit(0)


def _print_terminal_hint(folders: Sequence[tuple[str, Path]], opening: OpenOptions) -> None:
    """Print to stderr how to use the server, for a user who started it in a terminal."""
    roots = [str(root) for _, root in folders]
    query = opening.command('query "your question"', *roots)
    lines = (
        (
            f"The MCP server for {', '.join(name for name, _ in folders)} waits for an MCP client. "
            "You need not start the server: your client runs this command itself."
        ),
        f"To set up a client:  {opening.command('install CLIENT', *roots)}",
        f"To search from here: {query}",
        "Press Ctrl-C to stop the server.",
    )
    sys.stderr.write("\n".join(map(one_line, lines)) + "\n")
    sys.stderr.flush()


def claim_output() -> io.TextIOWrapper:
    """Reserve standard output for the protocol; redirect all other output to stderr."""
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    return io.TextIOWrapper(os.fdopen(protocol, "wb"), encoding="utf-8", newline="\n")
