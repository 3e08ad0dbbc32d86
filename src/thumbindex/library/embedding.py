"""Embed texts that have no vector yet, a batch a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from thumbindex.encode.embed import default_workers
from thumbindex.index.editions import finish_sweep
from thumbindex.index.store import Store, each_once
from thumbindex.index.writer import Writer
from thumbindex.library.folders import Folder
from thumbindex.model import Progress
from thumbindex.ports import Embedder, Vector
from thumbindex.text import embedded_text, text_key

OpenEmbedder = Callable[[str], Embedder]
"""Opens the model that the configuration asks for; the argument is the one that the index was made
with, or empty.
"""

PART, PART_OF_SEVERAL = 8, 32
"""Texts a thread between two looks whether words are due: some tenths of a second for the one
thread of a server's child, no slower than more.

Several threads are started anew for each part, and wait for each other at its end: they are given
more.
"""

Pending = Sequence[tuple[bytes, int]]
"""Keys of texts with a chunk's row that has the text."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of the texts that needed vectors."""

    asked: int = 0  # texts that the model was asked for
    reused: int = 0  # chunks whose vector was there already
    truncated: int = 0
    is_whole: bool = True  # nothing was left for the next call


class Taken(NamedTuple):
    """What became of one batch."""

    texts: int  # of the batch, from its first on
    asked: int  # those of them that are there still
    truncated: int  # those that the model saw only in part


def embed_folder(
    folder: Folder,
    open_embedder: OpenEmbedder,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> Embedded:
    """Embed what is pending, newest files first; a model is opened only when something is.

    `interrupted` leaves the rest for the next call.
    """
    settings = folder.config.encode.embed
    setting = f"{settings.model} {settings.runtime}"
    with Writer.open(folder.places.folder) as writer:
        store = writer.store
        known = store.meta("model")
        wanted = bool(known) and (
            store.meta("model_setting") == setting
            or (settings.model in {"auto", known} and settings.runtime == "auto")
        )
        lacking, seen = (
            store.lacking() if wanted else [],
            (writer.places.edition, store.generation, store.meta("fingerprint")),
        )
        if wanted and not lacking and not _vocabulary_due(folder, writer):
            if store.embedded_to < store.last_row:
                with store.transaction():
                    store.note_embedded()
            finish_sweep(folder.places.folder.parent)
            return Embedded(0, store.count_chunks())
    embedder = open_embedder(known if wanted or settings.model == "auto" else "")
    # opening a model takes seconds, in which others go on
    with Writer.open(folder.places.folder) as writer:
        now = (writer.places.edition, writer.store.generation, embedder.fingerprint)
        is_same = wanted and seen == now
        writer.note(
            "fingerprint",
            embedder.fingerprint,
            dimensions=str(embedder.dimensions),
            model=embedder.name,
            model_setting=setting,
        )
        lacking = lacking if is_same else writer.store.lacking()
        had = writer.store.count_chunks() - len(lacking)
    return _embed_pending(folder, embedder, each_once(lacking), had, tell, interrupted)


def _embed_pending(
    folder: Folder,
    embedder: Embedder,
    pending: Pending,
    had: int,
    tell: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> Embedded:
    """Embed a batch a commit. `had` is the number of chunks that have a vector already."""
    done = asked = truncated = 0
    while left := pending[done:]:
        group = left[: folder.config.encode.embed.batch]
        taken = embed_group(
            folder, embedder, group, last=len(group) == len(left), interrupted=interrupted
        )
        done += taken.texts
        asked += taken.asked
        truncated += taken.truncated
        tell(Progress(folder.name, "vectors", done, len(pending)))
        if taken.texts < len(group) or (done < len(pending) and interrupted()):
            return Embedded(asked, had, truncated, is_whole=False)
    return Embedded(asked + _finish(folder, embedder), had, truncated)


def embed_group(
    folder: Folder,
    embedder: Embedder,
    group: Pending,
    *,
    last: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Taken:
    """Embed one batch, or as much of it as there is time for, and commit that; chunks that went
    meanwhile are passed over.
    """
    with Writer.open(folder.places.folder) as writer:
        chunks = writer.store.chunks([row for _, row in group])
    found = (
        (key, embedded_text(chunk.heading_path, chunk.text))
        for key, row in group
        if (chunk := chunks.get(row))
    )
    # an index that was built anew meanwhile has other texts at these rows
    standing = {key: text for key, text in found if text_key(text) == key}
    texts: list[str] = []
    vectors: dict[bytes, Vector] = {}
    taken = 0
    threads = folder.config.encode.embed.workers or default_workers()
    for part in groups(group, PART if threads == 1 else PART_OF_SEVERAL * threads):
        if taken and interrupted():
            break
        taken += len(part)
        there = {key: standing[key] for key, _ in part if key in standing}
        vectors.update(zip(there, embedder.embed_passages(list(there.values())), strict=True))
        texts += there.values()
    with Writer.open(folder.places.folder) as writer:
        writer.keep_vectors(vectors, [row for _, row in group], last=last and taken == len(group))
        # where notes change faster than the model reads, no run comes to its end
        if taken < len(group):
            writer.sweep_unused()
    return Taken(taken, len(texts), embedder.count_truncated(texts))


def _finish(folder: Folder, embedder: Embedder) -> int:
    """Embed the vocabulary where `expand` is on and it is due; return the texts that were embedded
    for it.
    """
    with Writer.open(folder.places.folder) as writer:
        writer.sweep_unused()
        terms = frequent_words(folder, writer) if _vocabulary_due(folder, writer) else None
        words = writer.store.meta("words", "0")
    asked = 0
    if terms is not None:
        asked += embed_missing(folder, embedder, {text_key(term): term for term in terms}, words)
        with Writer.open(folder.places.folder) as writer:
            if words == writer.store.meta("words", "0"):  # else a word may be of a text that went
                writer.note(
                    "vocabulary",
                    json.dumps(terms, ensure_ascii=False),
                    vocabulary_of=_vocabulary_of(folder, writer, embedder.fingerprint),
                )
    return asked


def embed_missing(
    folder: Folder, embedder: Embedder, texts: Mapping[bytes, str], words: str
) -> int:
    """Embed those of the texts, by key, that have no vector yet, and commit them while the index's
    words are still these; return how many.
    """
    with closing(Store(folder.places.store, read_only=True)) as store:
        known = store.vectors.held(list(texts)) if store.vectors else set()
    new = [key for key in texts if key not in known]
    for group in groups(new, folder.config.encode.embed.batch):
        matrix = embedder.embed_passages([texts[key] for key in group])
        with Writer.open(folder.places.folder) as writer:
            writer.keep_vectors(dict(zip(group, matrix, strict=True)), words=words)
    return len(new)


def _vocabulary_due(folder: Folder, writer: Writer) -> bool:
    wanted = _vocabulary_of(folder, writer, writer.store.meta("fingerprint"))
    return folder.config.query.runs("expand") and writer.store.meta("vocabulary_of") != wanted


def _vocabulary_of(folder: Folder, writer: Writer, fingerprint: str) -> str:
    """Return what a vocabulary is made from: the words' generation, its size, the model."""
    return f"{writer.store.meta('words')} {folder.config.query.expand.vocabulary} {fingerprint}"


def frequent_words(folder: Folder, writer: Writer) -> list[str]:
    """Return the most frequent words, which `expand` chooses from."""
    words = writer.words()
    return sorted((w for w in words if len(w) >= 3), key=lambda w: (-words[w], w))[
        : folder.config.query.expand.vocabulary
    ]


def groups(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield parts of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))
