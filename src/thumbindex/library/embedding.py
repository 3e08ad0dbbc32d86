"""Embed chunks that have no vector yet, one batch per commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from thumbindex.encode.embed import default_workers
from thumbindex.encode.provisional import TokenTable, table_for
from thumbindex.index.builds import finish_deleting_vectors
from thumbindex.index.chunk_vectors import chunks_without_vector, rows_without_any, unique_keys
from thumbindex.index.vector_store import packed
from thumbindex.index.writer import Writer
from thumbindex.library.indexed_folders import Folder
from thumbindex.model import ParsedDocument, Progress
from thumbindex.ports import Embedder, Vector
from thumbindex.settings import EmbedSettings
from thumbindex.text import text_key
from thumbindex.visible_text import embedded_text, with_heading

OpenEmbedder = Callable[[str], Embedder]
"""Opens the configured model, given the index's model name or an empty string."""

OpenTable = Callable[[EmbedSettings, str], TokenTable | None]
"""Opens the table of provisional vectors, given the index's model or an empty string.

Returns None if there is no table for the model.
"""

_PART, _PART_PER_THREAD = 8, 16
"""Texts embedded between two calls of `interrupted`.

The first value applies to a single thread. With several, the second value applies per thread: parts
are larger, because each part starts and joins the threads.
"""

Pending = Sequence[tuple[bytes, int]]
"""Text keys, each with the row of a chunk that has the text."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """The counts of an embedding run."""

    embedded: int = 0  # new texts
    reused: int = 0  # chunks that already had a vector
    is_complete: bool = True  # no text is left for the next call


def embed_folder(
    folder: Folder,
    open_embedder: OpenEmbedder,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> EmbeddingReport:
    """Embed pending texts, newest files first. The model is opened only if it is needed.

    If `interrupted` returns True, the run stops, and the next call embeds the remaining texts.
    """
    settings = folder.config.encode.embed
    with Writer.open(folder.index_paths.folder) as writer:
        store = writer.store
        index_model = store.meta("model")
        can_reuse = bool(index_model) and (
            store.meta("model_setting") == _model_setting(settings)
            or (settings.model in {"auto", index_model} and settings.runtime == "auto")
        )
        pending, checked = (
            chunks_without_vector(store) if can_reuse else [],
            (writer.paths.build, store.generation, store.meta("fingerprint")),
        )
        if can_reuse and not pending and not _needs_vocabulary(folder, writer):
            writer.drop_provisional()
            finish_deleting_vectors(folder.index_paths.folder.parent)
            return EmbeddingReport(0, store.count_chunks())
    embedder = open_embedder(index_model if can_reuse or settings.model == "auto" else "")
    # another process may write while the model loads
    with Writer.open(folder.index_paths.folder) as writer:
        current = (writer.paths.build, writer.store.generation, embedder.fingerprint)
        is_same = can_reuse and checked == current
        writer.set_model(model_meta(embedder, settings))
        pending = pending if is_same else chunks_without_vector(writer.store)
        reused = writer.store.count_chunks() - len(pending)
    if pending:
        estimate_missing(folder)
    report = _embed_pending(
        folder, embedder, unique_keys(pending), reused, on_progress, interrupted
    )
    if report.is_complete:
        with Writer.open(folder.index_paths.folder) as writer:
            writer.drop_provisional()
    return report


def estimate_missing(folder: Folder) -> None:
    """Store provisional vectors of chunks that lost their vectors, or whose model was changed."""
    settings = folder.config.encode.embed
    with Writer.open(folder.index_paths.folder) as writer:
        model = writer.store.meta("fingerprint")
        rows = rows_without_any(writer.store) if model else []
    table = table_for(settings, model) if rows else None
    for batch in split_batches(rows, settings.batch) if table else ():
        with Writer.open(folder.index_paths.folder) as writer, writer.store.transaction():
            chunks = writer.store.chunks(batch)
            if table and writer.store.meta("fingerprint") == model:
                texts = [embedded_text(c.heading_path, c.text) for c in chunks.values()]
                values = zip(chunks, _estimates(texts, table), strict=True)
                sql = "INSERT OR REPLACE INTO provisional VALUES (?, ?)"
                writer.store.execute_many(sql, list(values))


def provisional_vectors(parsed: ParsedDocument, table: TokenTable) -> tuple[bytes, ...]:
    """Return the provisional vector of each chunk, as it is stored."""
    texts = [
        with_heading(chunk.heading_path, visible)
        for chunk, (visible, *_) in zip(parsed.chunks, parsed.keys, strict=True)
    ]
    return _estimates(texts, table)


def _estimates(texts: Sequence[str], table: TokenTable) -> tuple[bytes, ...]:
    return tuple(vector.tobytes() for vector in packed(table.embed(texts)))


def model_meta(model: Embedder | TokenTable, settings: EmbedSettings) -> Mapping[str, str]:
    """Return the meta values of an index whose vectors are of this model."""
    return {
        "fingerprint": model.fingerprint,
        "dimensions": str(model.dimensions),
        "model": model.name,
        "model_setting": _model_setting(settings),
    }


def _model_setting(settings: EmbedSettings) -> str:
    return f"{settings.model} {settings.runtime}"


def _embed_pending(
    folder: Folder,
    embedder: Embedder,
    pending: Pending,
    reused: int,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> EmbeddingReport:
    """Embed the pending texts, one batch per commit.

    `reused` is the number of chunks that already have a vector.
    """
    settings = folder.config.encode.embed
    threads = settings.workers or default_workers()
    done = embedded = 0
    while remaining := pending[done:]:
        batch = remaining[: settings.batch]
        texts_by_key = _texts_of(folder, batch)
        vectors: dict[bytes, Vector] = {}
        count = 0
        for part in split_batches(batch, _PART if threads == 1 else _PART_PER_THREAD * threads):
            if count and interrupted():
                break
            count += len(part)
            texts = {key: texts_by_key[key] for key, _ in part if key in texts_by_key}
            vectors.update(zip(texts, embedder.embed_passages(list(texts.values())), strict=True))
        is_last, is_cut = count == len(remaining), count < len(batch)
        with Writer.open(folder.index_paths.folder) as writer:
            writer.store_vectors(vectors, [row for _, row in batch])
            if is_cut:  # a complete run does this at its end, but edits may interrupt every run
                writer.limit_unused_vectors()
        done, embedded = done + count, embedded + len(vectors)
        on_progress(Progress(folder.name, "vectors", done, len(pending)))
        if is_cut or (not is_last and interrupted()):
            return EmbeddingReport(embedded, reused, is_complete=False)
    return EmbeddingReport(embedded + _embed_vocabulary(folder, embedder), reused)


def _texts_of(folder: Folder, batch: Pending) -> Mapping[bytes, str]:
    """Return the batch's texts by key.

    Leaves out texts that no longer exist: a rebuild may have put other texts in their rows.
    """
    with Writer.open(folder.index_paths.folder) as writer:
        chunks = writer.store.chunks([row for _, row in batch])
    texts = (
        (key, embedded_text(chunk.heading_path, chunk.text))
        for key, row in batch
        if (chunk := chunks.get(row))
    )
    return {key: text for key, text in texts if text_key(text) == key}


def _embed_vocabulary(folder: Folder, embedder: Embedder) -> int:
    """Embed the vocabulary of `expand` if it is outdated; return the number of new words."""
    with Writer.open(folder.index_paths.folder) as writer:
        writer.limit_unused_vectors()
        if not _needs_vocabulary(folder, writer):
            return 0
        by_key = {text_key(term): term for term in _frequent_words(folder, writer)}
        words, vectors = writer.store.meta("words", "0"), writer.store.vectors
        existing = vectors.keys() if vectors else set()
    new = [key for key in by_key if key not in existing]
    for batch in split_batches(new, folder.config.encode.embed.batch):
        matrix = embedder.embed_passages([by_key[key] for key in batch])
        with Writer.open(folder.index_paths.folder) as writer:
            writer.store_vectors(dict(zip(batch, matrix, strict=True)), words_generation=words)
    with Writer.open(folder.index_paths.folder) as writer:
        if words == writer.store.meta("words", "0"):  # else a word may come from a deleted text
            writer.set_meta(
                "vocabulary",
                json.dumps(list(by_key.values()), ensure_ascii=False),
                vocabulary_of=_vocabulary_key(folder, writer, embedder.fingerprint),
            )
    return len(new)


def _needs_vocabulary(folder: Folder, writer: Writer) -> bool:
    current_key = _vocabulary_key(folder, writer, writer.store.meta("fingerprint"))
    return folder.config.query.runs("expand") and writer.store.meta("vocabulary_of") != current_key


def _vocabulary_key(folder: Folder, writer: Writer, fingerprint: str) -> str:
    """Return the key of a vocabulary: the words' generation, the maximum size and the model."""
    return f"{writer.store.meta('words')} {folder.config.query.expand.vocabulary} {fingerprint}"


def _frequent_words(folder: Folder, writer: Writer) -> list[str]:
    """Return the most frequent words, the vocabulary of `expand`."""
    words = writer.word_counts()
    return sorted((w for w in words if len(w) >= 3), key=lambda w: (-words[w], w))[
        : folder.config.query.expand.vocabulary
    ]


def split_batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield parts of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))
