"""MCP over standard input and output: only the protocol is ever written there, and the end of the
input is the end of the server.
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from thumbindex.process import compute_on_one_thread, give_memory_back, take_short_turns
from thumbindex.serve.background import Background
from thumbindex.serve.early import EarlyLines, answer_initialize, answer_list
from thumbindex.serve.opening import Opening, about_folders, names_allowed, served_folders
from thumbindex.text import one_line


def serve_stdio(opening: Opening) -> int:
    """Serve one client until its end of standard input closes; the process ends here."""
    outgoing = claim_output()
    compute_on_one_thread()  # the child that indexes, too
    take_short_turns()
    config = opening.load()
    folders, about = served_folders(opening, config)
    if sys.stdin.isatty():
        say_what_is_awaited(folders)
    # The input is read by a thread that no Python-level exception would wake: let signals end the
    # process at once.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    may_name = names_allowed(opening, folders)
    about = about_folders(replace(config, about=about), folders, may_name)
    database = opening.database_in(config)
    takes_roots = not opening.folder and not config.folders and not database
    greet = partial(
        answer_initialize, folders=folders, may_name=may_name, takes_roots=takes_roots, about=about
    )
    background = Background(opening, takes_roots=takes_roots, takes_commands=not database)
    ahead = EarlyLines(
        _claim_input(),
        outgoing,
        {"initialize": greet, "tools/list": answer_list},
        partial(answer_call, background),
    )
    give_memory_back()
    ahead.await_call()
    # Imported here: no client waits for the protocol's package with its first requests
    # (`test_a_server_is_started_without_the_other_commands`).
    from thumbindex.serve.mcp import serve_client

    serve_client(background, folders, may_name, about, ahead)
    sys.stderr.flush()
    # Threads that load a model or search must not keep a server whose client is gone.
    os._exit(0)


def say_what_is_awaited(folders: Sequence[tuple[str, Path]]) -> None:
    """Tell who started this in a terminal what the server waits for, and how to try it; on stderr,
    as stdout is the protocol's.
    """
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


def answer_call(
    background: Background, asked: Mapping[str, Any], greeting: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the answer to a client's first call, where it need not wait for the protocol's
    package.
    """
    # Imported here: the handshake does without the forms of answers (`tests/handshake.py` counts
    # the modules).
    from thumbindex.serve.replies import answer_first

    return answer_first(background, asked, greeting["protocolVersion"])


def claim_output() -> io.TextIOWrapper:
    """Return standard output for the protocol alone; whatever else writes there, native libraries
    too, comes out on stderr.
    """
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    return io.TextIOWrapper(os.fdopen(protocol, "wb"), encoding="utf-8", newline="\n")


def _claim_input() -> IO[bytes]:
    """Return standard input for the protocol alone; whatever else reads there, a child process too,
    finds its end.
    """
    protocol = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(protocol, "rb")
