"""Every document and chunk of a snapshot by its position: the columns that the other views are aligned with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import TypeVar
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from thumbindex.index.store import Store, document_from_row
from thumbindex.model import Abbreviation, Chunk, ChunkId, Document, DocumentId, Filters, Place, Section, day_of
from thumbindex.ports import Catalog, Mask, Salience
from thumbindex.text import fold

Positions = npt.NDArray[np.int64]

KEY = np.dtype("V16")
"""A text key as the store keeps it."""

LOOKS = 3
"""How often the rows of a note that is read again and again are looked for."""

_ESCAPED = re.compile(r"\\(.)")

_SEPARATOR = re.compile(r"\\(?![*?!\[\]\\])")
"""A backslash that takes no meaning from the character behind it: it stands between folders, as on Windows."""

_Record = TypeVar("_Record", Chunk, Section)


class StoreCatalog:
    """Catalog over one folder's store, as it was when this was made.

    Of `last` all is kept that is still true: rows never change but for a document's times, and their ids are never used twice.
    `now` is read instead of the store while this is made: nobody who loads texts meanwhile waits for it.
    """

    def __init__(self, store: Store, folder: str, last: StoreCatalog | None = None, now: Store | None = None) -> None:
        now = now or store
        last = last if last is not None and last.store is store else None
        self.store: Store = store
        self.lost: frozenset[ChunkId] = frozenset()  # that were asked for and whose texts are nowhere any more
        self._folder = folder
        rows = sorted(_documents(folder, now, last), key=lambda each: each[1].path)
        self.documents: Sequence[Document] = tuple(document for _, document in rows)  # by path
        self.document_rows: Positions = np.array([row for row, _ in rows], dtype=np.int64)
        chunks, keys, salience = _columns(now, last, self.document_rows)
        of = positions_of(self.document_rows, chunks[:, 1])
        order = np.lexsort((chunks[:, 2], of))
        self._chunks, self._keys = chunks[order], keys[order]
        self.salience: Salience = salience[order]  # without boosts
        self.chunk_rows: Positions = np.ascontiguousarray(self._chunks[:, 0])
        self.document_ids: Positions = of[order]
        self._first: Positions = np.searchsorted(self.document_ids, np.arange(len(rows) + 1))

    def __len__(self) -> int:
        """Count the chunks."""
        return len(self.chunk_rows)

    @property
    def folders(self) -> Sequence[Catalog]:
        """Itself, of one folder."""
        return (self,)

    @cached_property
    def paths(self) -> Sequence[str]:
        """Each document's path."""
        return tuple(document.path for document in self.documents)

    @cached_property
    def _by_row(self) -> Positions:
        return np.argsort(self.chunk_rows, kind="stable")

    @cached_property
    def abbreviations(self) -> Mapping[Abbreviation, int]:
        """How many documents define each abbreviation."""
        return Counter(each for document in self.documents for each in document.abbreviations)

    def chunk_positions(self, rows: Positions) -> Positions:
        """Return where the chunks with these row ids stand, -1 for those that are not here."""
        return positions_of(self.chunk_rows, rows, self._by_row)

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""
        return DocumentId(int(self.document_ids[chunk]))

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks."""
        return range(int(self._first[document]), int(self._first[document + 1]))

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; those that are gone are missing."""
        return self._loaded(ids, self.store.chunks)

    def headings(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, tuple[str, ...]]:
        """Load the title and the headings above each chunk; of what is gone nothing is told, as nothing is shown for it."""
        found = self.store.headings([int(self.chunk_rows[n]) for n in ids])
        return {n: found[row] for n in ids if (row := int(self.chunk_rows[n])) in found}

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; those that are gone are missing."""
        return self._loaded(ids, self.store.sections)

    def _loaded(self, ids: Sequence[ChunkId], load: Callable[[Sequence[int]], Mapping[int, _Record]]) -> dict[ChunkId, _Record]:
        if not ids:
            return {}
        rows, found = {n: int(self.chunk_rows[n]) for n in ids}, dict[ChunkId, _Record]()
        gone: list[ChunkId] = []
        for _ in range(1 + LOOKS):
            held = load(list(rows.values()))
            found.update({n: held[row] for n, row in rows.items() if row in held})
            gone = [n for n in ids if n not in found]
            if all(n in found for n in rows):  # else they were read again meanwhile
                break
            rows = self._moved(gone)
        self.lost = self.lost.union(gone)
        return {n: found[n] for n in ids if n in found}

    def _moved(self, gone: Sequence[ChunkId]) -> dict[ChunkId, int]:
        """Return the present rows of chunks whose document was read again: an edit takes nothing away of the texts that it leaves as they were."""
        texts = {n: (self.paths[self.document_of(n)], self._keys[n].tobytes()) for n in gone}
        found = self.store.rows_by_key(sorted({path for path, _ in texts.values()}))
        rows = {n: found.get(text) for n, text in texts.items()}
        return {n: row for n, row in rows.items() if row is not None}

    def places(self, ids: Sequence[ChunkId]) -> Sequence[Place]:
        """Say where chunks stand."""
        found = self.chunks(ids)
        return tuple(Place(self._folder, self.paths[self.document_of(n)], found[n].start_line, found[n].end_line) for n in ids if n in found)

    def select(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters let through; None when that is all of them."""
        if filters == Filters():
            return None
        if filters.folder and self._folder not in filters.folder:
            return np.zeros(len(self), dtype=np.bool_)
        kept = np.array([passes(document, filters) for document in self.documents], dtype=np.bool_)
        return np.asarray(kept[self.document_ids], dtype=np.bool_)


def _documents(folder: str, now: Store, last: StoreCatalog | None) -> Iterator[tuple[int, Document]]:
    """Yield every document with its row id, read only where it is new."""
    if last is None:
        new = now.documents()
    else:
        times = now.document_times()
        kept = {row: document for row, document in zip(last.document_rows.tolist(), last.documents, strict=True) if row in times}
        new = now.documents(sorted(times.keys() - kept.keys()))
        for row, document in kept.items():
            now_is = times[row]
            is_same = now_is == (document.modified, document.edited, document.first_commit, document.last_commit)
            yield row, document if is_same else replace(document, **now_is._asdict())
    for row, path, title, known, rest in new:
        yield row, document_from_row(path, title, known, rest, folder)


def _columns(now: Store, last: StoreCatalog | None, documents: Positions) -> tuple[Positions, npt.NDArray[np.void], Salience]:
    """Return chunks' row ids, documents' row ids and ordinals, shape (chunks, 3); their keys; their salience. Only what is new is read."""
    rows = now.chunk_facts(None if last is None else np.setdiff1d(documents, last.document_rows).tolist())
    ids, of, ordinals, key_bytes, weights = zip(*rows, strict=True) if rows else ((),) * 5
    chunks = np.array([ids, of, ordinals], dtype=np.int64).T
    keys, salience = np.frombuffer(b"".join(key_bytes), dtype=KEY), np.array(weights, dtype=np.float64)
    if last is None:
        return chunks, keys, salience
    kept = np.isin(last.document_rows, documents)[last.document_ids]
    held = last._chunks[kept], last._keys[kept], last.salience[kept]
    return np.concatenate([held[0], chunks]), np.concatenate([held[1], keys]), np.concatenate([held[2], salience])


def positions_of(rows: Positions, wanted: Positions, order: Positions | None = None) -> Positions:
    """Return where each wanted row id stands in `rows`, or -1; `order` is what sorts them, where that is known."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(rows, kind="stable") if order is None else order
    at = np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)
    return np.where(rows[order[at]] == wanted, order[at], -1)


def passes(document: Document, filters: Filters) -> bool:
    """Tell whether a document may be shown and passes path globs (any), tags (all, nested ones too) and the dates."""
    if document.path in filters.without or (filters.hidden and (document.folder, document.path) in filters.hidden):
        return False
    if filters.path and not any(meets(glob, document.path) for glob in filters.path):
        return False
    tags = {fold(tag) for tag in document.tags} if filters.tag else ()
    for wanted in (fold(tag.lstrip("#")) for tag in filters.tag):
        if not any(tag == wanted or tag.startswith(f"{wanted}/") for tag in tags):
            return False
    if filters.since is None and filters.until is None:
        return True
    day = day_of(document)
    return day is not None and (filters.since is None or day >= filters.since) and (filters.until is None or day <= filters.until)


@lru_cache(maxsize=256)
def _read_glob(glob: str) -> tuple[list[list[re.Pattern[str]]], bool]:
    """Read a glob as git does: the names between one `**` and the next, and whether only what lies below them is meant.

    One that begins with a star and has no slash is met at any depth, any other one from the folder's root.
    """
    glob = _SEPARATOR.sub("/", normalize("NFC", glob))
    anywhere = glob.startswith("*") and "/" not in glob.rstrip("/")
    names = [name for name in glob.split("/") if name]
    runs: list[list[re.Pattern[str]]] = [[], []] if anywhere else [[]]
    for name in names:
        if name == "**":
            runs.append([])
        else:  # fnmatch knows `[*]` and `[!`, not `\*` and `[^`
            runs[-1].append(re.compile(translate(_ESCAPED.sub(r"[\1]", name).replace("[^", "[!"))))
    return runs, glob.endswith("/") or (any(runs) and names[-1] == "**")


def meets(glob: str, path: str) -> bool:
    """Tell whether a glob meets a path, or a folder that it is in, in time that grows with the path: anybody may send one.

    `pathspec` would tell as well; seven characters make its expressions take a fifth of a second a path.
    """
    runs, is_below = _read_glob(glob)
    names, at = normalize("NFC", path).split("/"), 0  # macOS may keep letters and accents apart
    for number, run in enumerate(runs):  # the first stands at the root, each other one as early as it can
        last = len(names) - len(run) if number else min(0, len(names) - len(run))
        starts = (
            start for start in range(at, last + 1) if all(part.match(name) for part, name in zip(run, names[start : start + len(run)], strict=True))
        )
        start = next(starts, None)
        if start is None:
            return False
        at = start + len(run)
    return not is_below or max(at, 1) < len(names)
