"""MCP over standard input and output: only the protocol is ever written there, and the end of the input is the end of the server."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from thumbindex.config import compute_on_one_thread, resolve_folders, with_folder_file
from thumbindex.errors import UnknownFolderError
from thumbindex.serve.background import Background
from thumbindex.serve.mcp import MayName, build_server
from thumbindex.serve.opening import Opening
from thumbindex.serve.seat import Seat


def serve_stdio(opening: Opening) -> int:
    """Serve one client until its end of standard input closes; the process ends here."""
    protocol = _claim_output()
    compute_on_one_thread()  # the child that indexes, too
    folders = _folders(opening)
    background = Background(opening)
    # The input is read by a thread that no Python-level exception would wake: let signals end the process at once.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    try:
        anyio.run(_serve, build_server(background, folders, _may_name(opening, folders)), protocol)
    finally:
        background.stop()
    sys.stderr.flush()
    # Threads that load a model or search must not keep a server whose client is gone.
    os._exit(0)


def _folders(opening: Opening) -> tuple[tuple[str, Path], ...]:
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        # Imported here: only for a folder that is away; what has an index of it is answered, and it may come back.
        from thumbindex.library.folders import find_folders

        return find_folders(config, opening.folder, str(opening.index or config.index.directory))


def _may_name(opening: Opening, folders: tuple[tuple[str, Path], ...]) -> MayName:
    config = opening.load()
    if not any(with_folder_file(config, root).corpus.private.globs for _, root in folders):
        return {}
    # Imported here: only where something is private by its place.
    from thumbindex.library.private import open_directories

    return open_directories(folders, config)


async def _serve(server: Server[Seat], protocol: io.TextIOWrapper) -> None:
    async with stdio_server(stdout=anyio.wrap_file(protocol)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _claim_output() -> io.TextIOWrapper:
    """Return standard output for the protocol alone; whatever else writes there, native libraries too, comes out on stderr."""
    sys.stdout.flush()
    protocol = os.dup(1)
    os.dup2(2, 1)
    return io.TextIOWrapper(os.fdopen(protocol, "wb"), encoding="utf-8", newline="\n")
