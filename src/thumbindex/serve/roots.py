"""A client's roots: the folders that it works in, which are served where nobody has named any others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from thumbindex.serve.background import ROOTS_SECONDS

MOST_ROOTS = 10
"""Folders that are taken: each is indexed and watched, and a client names what its user has open."""


async def ask_roots(session: ServerSession) -> tuple[str, ...]:
    """Return the addresses of a client's roots; none where it has no such thing or does not answer in time."""
    able = session.client_capabilities
    if able is None or able.roots is None:
        return ()
    try:
        with anyio.fail_after(ROOTS_SECONDS):
            found = await session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    except (MCPError, TimeoutError):
        return ()
    return tuple(str(root.uri) for root in found.roots)


def taken_roots(uris: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders that are served of a client's roots, and in words why others are not."""
    taken: list[Path] = []
    refused: list[str] = []
    for uri in uris:
        path = _path_of(uri)
        reason = "is no folder of this machine" if path is None else _reason_against(path, taken)
        if path is not None and not reason:
            taken.append(path)
        elif reason:
            refused.append(f"The client's root {uri} {reason}: it is not served. `--folder` names one.")
    return tuple(map(str, taken)), tuple(refused)


def _path_of(uri: str) -> Path | None:
    """Return the folder at an address, links followed; None for what is none of this machine's."""
    try:
        parts = urlsplit(uri)
        written = unquote(parts.path)
        path = Path(written.lstrip("/") if os.name == "nt" else written)  # /C:/notes
        local = parts.scheme == "file" and parts.netloc in {"", "localhost"} and path.is_absolute()
        return path.resolve() if local and path.is_dir() else None
    except (ValueError, OSError):  # no address at all, or a NUL or a loop in it
        return None


def _reason_against(path: Path, taken: Sequence[Path]) -> str:
    if path == Path.home().resolve() or path in Path.home().resolve().parents:
        return "is your home folder, or holds it"
    if path == Path(path.anchor):
        return "is a whole disk"
    if len(taken) >= MOST_ROOTS:
        return f"is one more than {MOST_ROOTS}"
    return "lies in another one of them" if any(each == path or each in path.parents for each in taken) else ""
