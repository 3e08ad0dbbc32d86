"""One client's session over two streams of lines, by the protocol's package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from thumbindex.serve.ahead import Ahead
from thumbindex.serve.background import Background
from thumbindex.serve.greeting import MayName
from thumbindex.serve.mcp import build_server
from thumbindex.serve.seat import Seats


def serve_client(background: Background, folders: Sequence[tuple[str, Path]], may_name: MayName, lines: Ahead) -> None:
    """Serve until there are no more lines."""
    try:
        anyio.run(_serve, build_server(background, folders, may_name), lines)
    finally:
        background.stop()


async def _serve(server: Server[Seats], lines: Any) -> None:
    stream = anyio.wrap_file(lines)
    async with stdio_server(stdin=stream, stdout=stream) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
