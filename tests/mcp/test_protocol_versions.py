"""Cancellation, in protocol versions with a handshake."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from mcp import Client

from thumbindex.background.host import LibraryHost
from thumbindex.library import Library
from thumbindex.mcp.server import build_server
from thumbindex.opening import OpenOptions

pytestmark = pytest.mark.anyio


async def test_cancelled_query_stops_waiting(
    vault: Path, tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> None:
    ended = threading.Event()

    class Waits(LibraryHost):
        def await_words(
            self,
            seconds: float = 20.0,
            on_progress: Any = None,
            interrupted: Callable[[], bool] = lambda: False,
        ) -> None:
            while not interrupted():
                ended.wait(0.01)
            ended.set()

    with open_fake(OpenOptions((str(vault),), tmp_path)) as library:
        async with Client(
            build_server(
                Waits(OpenOptions(), lambda opening: library, command=[]), library.folders
            ),
            mode="legacy",
        ) as client:
            with anyio.move_on_after(0.3):
                await client.call_tool("query", {"query": "x"})
            assert await run_sync(ended.wait, 15)
            assert (await client.call_tool("status", {})).is_error is False
