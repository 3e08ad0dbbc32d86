"""MCP over standard input and output: only the protocol is ever written there, and the end of the input is the end of the server."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from thumbindex.config import resolve_folders, with_folder_file
from thumbindex.errors import UnknownFolderError
from thumbindex.process import compute_on_one_thread, give_memory_back, take_short_turns
from thumbindex.serve.background import Background
from thumbindex.serve.early import Ahead, MayName, answer_initialize, answer_list
from thumbindex.serve.opening import Opening


def serve_stdio(opening: Opening) -> int:
    """Serve one client until its end of standard input closes; the process ends here."""
    outgoing = claim_output()
    compute_on_one_thread()  # the child that indexes, too
    take_short_turns()
    folders = named_folders(opening)
    # The input is read by a thread that no Python-level exception would wake: let signals end the process at once.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    may_name = names_allowed(opening, folders)
    takes_roots = not opening.folder and not opening.load().folders
    greet = partial(answer_initialize, folders=folders, may_name=may_name, takes_roots=takes_roots)
    background = Background(opening, takes_roots=takes_roots)
    ahead = Ahead(_claim_input(), outgoing, {"initialize": greet, "tools/list": answer_list}, partial(answer_call, background))
    give_memory_back()
    ahead.await_call()
    # Imported here: it brings the protocol's package, for which no client has to wait with its first requests.
    from thumbindex.serve.mcp import serve_client

    serve_client(background, folders, may_name, ahead)
    sys.stderr.flush()
    # Threads that load a model or search must not keep a server whose client is gone.
    os._exit(0)


def answer_call(background: Background, asked: Mapping[str, Any], greeting: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the answer to a client's first call, where it need not wait for the protocol's package."""
    # Imported here: the handshake must not pay for the forms of answers.
    from thumbindex.serve.replies import answer_first

    return answer_first(background, asked, greeting["protocolVersion"])


def named_folders(opening: Opening) -> tuple[tuple[str, Path], ...]:
    """Return name and path of each folder that an opening names; one that is away will do where it has an index."""
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        # Imported here: only for a folder that is away; what has an index of it is answered, and it may come back.
        from thumbindex.library.folders import find_folders

        return find_folders(config, opening.folder, str(opening.index or config.index.directory))


def names_allowed(opening: Opening, folders: tuple[tuple[str, Path], ...]) -> MayName:
    """Return which directories of the folders may be named: none that is private."""
    config = opening.load()
    if not any(own.closed or own.corpus.private.globs for own in (with_folder_file(config, root) for _, root in folders)):
        return {}
    # Imported here: only where something is private by its place.
    from thumbindex.library.indexing import open_directories

    return open_directories(folders, config)


def claim_output() -> io.TextIOWrapper:
    """Return standard output for the protocol alone; whatever else writes there, native libraries too, comes out on stderr."""
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    return io.TextIOWrapper(os.fdopen(protocol, "wb"), encoding="utf-8", newline="\n")


def _claim_input() -> IO[bytes]:
    """Return standard input for the protocol alone; whatever else reads there, a child process too, finds its end."""
    protocol = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(protocol, "rb")
