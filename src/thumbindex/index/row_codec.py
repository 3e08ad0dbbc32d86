"""Conversion of records to rows of the store, and back."""

from __future__ import annotations

import json
from sys import intern
from typing import Any
from zlib import crc32

from thumbindex.index.sqlite import SqlRow
from thumbindex.model import (
    ADDRESS_KEYS,
    Abbreviation,
    BlockKind,
    Chunk,
    Document,
    DocumentTimes,
    FileState,
    ParsedDocument,
)
from thumbindex.text import text_key, words
from thumbindex.visible_text import strip_markup, with_heading

WORDS_DIGEST_BYTES = 8
"""Length of a digest of words. Collisions are harmless, because the texts are compared as well."""


def text_keys(parsed: ParsedDocument) -> tuple[tuple[str, bytes, bytes], ...]:
    """Return the visible text and vector key of every chunk, and a digest of its words.

    Call this before locking the store, because it is half of the work of storing a document.
    """
    return tuple(map(_chunk_keys, parsed.chunks))


def _chunk_keys(chunk: Chunk) -> tuple[str, bytes, bytes]:
    visible = strip_markup(chunk.text)
    tokens = chunk.text.split() if chunk.kind is BlockKind.CODE else words(visible)
    digest = text_key("\0".join((chunk.kind, chunk.language, *tokens))) if tokens else b""
    vector_key = text_key(with_heading(chunk.heading_path, visible))
    return visible, vector_key, digest[:WORDS_DIGEST_BYTES]


def text_checksum(text: str) -> int:
    """Return the checksum of a text."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def chunk_checksum(row: SqlRow) -> int:
    """Return the checksum of a chunk's heading path, text and key."""
    path, text, key = (
        row[5].encode("utf-8", "surrogatepass"),
        row[8].encode("utf-8", "surrogatepass"),
        row[11],
    )
    return crc32(key, crc32(text, crc32(path)))


def linkable_document(path: str, title: str, attributes: str) -> Document:
    """Build a document that has only the names and addresses that a link can use."""
    # most documents have none: decoding the attributes of all would slow down every edit
    if not any(key in attributes for key in _LINK_KEYS):
        return Document(path, title)
    values = json.loads(attributes)
    properties = values.get("properties", {})
    addresses = {key: tuple(properties[key]) for key in ADDRESS_KEYS if key in properties}
    return Document(path, title, properties=addresses, aliases=tuple(values.get("aliases", ())))


_LINK_KEYS = tuple(f'"{key}": ' for key in ("aliases", *ADDRESS_KEYS))


def state_from_row(row: SqlRow) -> FileState:
    """Build a file state from its row."""
    path, size, mtime, inode, digest, ctime = row
    return FileState(path, size, mtime, inode % 2**64, digest, ctime)


def signed_inode(inode: int) -> int:
    """Return an unsigned inode as a signed 64-bit integer."""
    return inode - 2**64 if inode >= 2**63 else inode


def text_span(text: str, section: str) -> tuple[int | None, int | None, str | None]:
    """Return the offset and length of `text` in `section`, the text of a section.

    If `section` does not contain `text`, return `text` as the third value instead.
    """
    # SQLite counts no characters after a NUL
    offset = section.find(text) if "\0" not in section else -1
    return (offset, len(text), None) if offset >= 0 else (None, None, text)


def chunk_values(chunk: Chunk) -> tuple[Any, ...]:
    """Return the columns of a chunk."""
    path = json.dumps(chunk.heading_path, ensure_ascii=False)
    return (
        chunk.ordinal,
        chunk.section,
        chunk.kind,
        path,
        chunk.start_line,
        chunk.end_line,
        chunk.text,
        chunk.salience,
        chunk.language,
    )


def chunk_from_row(row: SqlRow) -> Chunk:
    """Build a chunk from its columns."""
    ordinal, section, kind, path, *columns = row
    return Chunk(ordinal, section, BlockKind(kind), tuple(json.loads(path)), *columns)


def document_from_row(
    path: str, title: str, times: DocumentTimes, attributes: str, folder: str
) -> Document:
    """Build a document from its columns."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(attributes).items()
    }
    values["abbreviations"] = tuple(
        Abbreviation(*fields) for fields in values.get("abbreviations", ())
    )
    values["properties"] = {
        intern(key): tuple(texts) for key, texts in values.get("properties", {}).items()
    }
    return Document(path=path, title=title, folder=folder, **times._asdict(), **values)
