"""Indexes of documents, written to disk and opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from thumbindex.index.chunk_vectors import chunks_without_vector, unique_keys
from thumbindex.index.files import IndexPaths
from thumbindex.index.snapshot import OpenIndex, open_snapshot
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import FileState, ParsedDocument
from thumbindex.ports import Embedder, Snapshot
from thumbindex.visible_text import embedded_text

Make = Callable[[Sequence[ParsedDocument]], Snapshot]
"""Builds an index of documents with vectors."""


def write_index(documents: Sequence[ParsedDocument], embedder: Embedder, folder: Path) -> None:
    """Write an index with vectors to disk."""
    paths = {document.document.path for document in documents}
    states = [
        FileState(parsed.document.path, 1, 1_000, n, str(n)) for n, parsed in enumerate(documents)
    ]
    with Writer.open(folder) as writer:
        writer.apply(
            Batch(list(zip(states, documents, strict=True))),
            lambda _: lambda link, _: link.target if link.target in paths else None,
        )
        writer.set_meta(
            "fingerprint",
            embedder.fingerprint,
            dimensions=str(embedder.dimensions),
            model=embedder.name,
        )
        pending = unique_keys(chunks_without_vector(writer.store))
        chunks = writer.store.chunks([row for _, row in pending])
        texts = [embedded_text(chunks[row].heading_path, chunks[row].text) for _, row in pending]
        writer.store_vectors(
            dict(zip([key for key, _ in pending], embedder.embed_passages(texts), strict=True))
        )


def open_index(folder: Path) -> tuple[OpenIndex, Store]:
    """Open an index for reading."""
    store = Store(IndexPaths(folder).store, read_only=True)
    return open_snapshot(store, ""), store
