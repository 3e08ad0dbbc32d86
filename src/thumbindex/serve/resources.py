"""Documents as MCP resources: `thumbindex://{folder}/{+path}`, listed in pages, completed as one types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from thumbindex.errors import UsageError

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.model import OutlineEntry

SCHEME = "thumbindex://"

TEMPLATE = SCHEME + "{folder}/{+path}"

MIME = "text/markdown"

LONGEST_URI = 16_384
"""Characters: a path of 4,096, each of its bytes encoded."""

PAGE = 200
"""Resources listed at once: a page of a large vault stays near 40 KB."""

MOST_COMPLETIONS = 100
"""What the protocol allows in one answer."""


def resource_uri(folder: str, path: str) -> str:
    """Return a document's address: the folder as one part, the path with its slashes."""
    return f"{SCHEME}{quote(folder, safe='')}/{quote(path, safe='/')}"


def link(folder: str, path: str) -> dict[str, Any]:
    """Return a link to a document, as the protocol writes it."""
    return {"type": "resource_link", "uri": resource_uri(folder, path), "name": path, "mimeType": MIME}


def parse_uri(uri: str) -> tuple[str, str]:
    """Return folder and path of an address. Raises UsageError for what is none."""
    if len(uri) > LONGEST_URI:
        raise UsageError(f"An address of {len(uri):,} characters is not a resource of this server: the longest has {LONGEST_URI:,}.")
    folder, _, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not folder or not path:
        raise UsageError(f"{uri} is not a resource of this server: their addresses read {TEMPLATE}.")
    return unquote(folder), unquote(path)


def list_page(library: Library, cursor: str | None) -> tuple[tuple[OutlineEntry, ...], str | None]:
    """Return one page of documents and the cursor of the next; a cursor is the address of the last one listed."""
    documents = library.outline()
    start = 0
    if cursor is not None:
        after = parse_uri(cursor)
        # By comparing, not by position: documents come and go between two pages.
        start = sum((each.folder, each.path) <= after for each in documents)
    page = documents[start : start + PAGE]
    more = start + PAGE < len(documents)
    return page, resource_uri(page[-1].folder, page[-1].path) if more else None


def complete(library: Library, argument: str, value: str, folder: str | None = None) -> tuple[list[str], int]:
    """Return values for the template's `folder` or `path` that match what is typed, best first, and how many there are in all."""
    if argument == "folder":
        values: Sequence[str] = [name for name, _ in library.folders]
    elif argument == "path":
        known = {name for name, _ in library.folders}
        values = [each.path for each in library.outline(folder=folder if folder in known else None)]
    else:
        values = []
    typed = value.casefold()
    ranked = sorted((_nearness(typed, each.casefold()), each) for each in dict.fromkeys(values) if typed in each.casefold())
    return [each for _, each in ranked[:MOST_COMPLETIONS]], len(ranked)


def _nearness(typed: str, path: str) -> int:
    """Rank a match: the path's beginning, then the file name's beginning, then anywhere."""
    if path.startswith(typed):
        return 0
    return 1 if path.rpartition("/")[2].startswith(typed) else 2
