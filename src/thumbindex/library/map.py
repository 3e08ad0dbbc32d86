"""The map of a folder: where each note lies by its meaning, how they are linked, and what is near
and not linked.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.errors import UsageError, install_with
from thumbindex.index.layout import Layout, keep_layout, read_layout
from thumbindex.index.locks import locked
from thumbindex.library.duplicates import all_duplicates
from thumbindex.library.plane import can_lay_out, unit
from thumbindex.library.reader import Reader
from thumbindex.library.reading import hidden_paths_now, open_documents
from thumbindex.model import (
    ChunkId,
    Document,
    DocumentId,
    MapNote,
    NearPair,
    NoteMap,
    day_of,
    iso_day,
)
from thumbindex.ports import Matrix, Snapshot
from thumbindex.process import environment

MOST_NOTES = 20_000
"""Notes of a map: of a larger folder the newest are shown."""

NEAREST = 5
"""Notes that each one is compared with for what is near and not linked, and at whose mean a new one
is set.
"""

LEAST_COSINE = 0.55
"""Of two notes that are told of as near: below it most pairs have only their subject in common."""

SAME_COSINE = 0.98
"""From here on two notes are copies: a link between them would say nothing."""

MOST_NEAR = 1_000
"""Pairs that are near and not linked: how many more there are is said."""

CHANGED_SHARE = 0.2
"""Of the notes that have come or changed since the map was laid out, before it is laid out anew."""

_ROWS_AT_ONCE = 1_000

_POLL_SECONDS = 0.1

_DIGEST = 8

_KEPT = 4
"""Folders whose near pairs stay in memory."""

_near: dict[tuple[str, int, str], list[tuple[str, str, float]]] = {}
_guard = threading.Lock()


def note_map(reader: Reader) -> NoteMap:
    """Return the map of a folder. Notes that may not be shown now are nowhere on it."""
    name = reader.folder.name
    if not reader.indexed:
        return NoteMap(name, (), (), (), 0, "Nothing is indexed yet.")
    snapshot = reader.snapshot()
    documents = open_documents([reader])
    documents, left_out = _newest(documents), max(0, len(documents) - MOST_NOTES)
    shown = {each.path: n for n, each in enumerate(documents)}
    ids = {path: n for n, path in snapshot.catalog.every_path()}
    means = _means(snapshot, [ids[each.path] for each in documents if each.path in ids])
    with_vector = [each.path for each in documents if each.path in ids]
    layout = read_layout(reader.folder.places)
    places = _places(
        layout, dict(zip(with_vector, means, strict=True)), reader.store.meta("fingerprint")
    )
    links = tuple(
        sorted(
            (shown[each.path], shown[target])
            for each in documents
            if each.path in ids
            for n in snapshot.graph.linked(ids[each.path])
            if (target := snapshot.catalog.documents[n].path) in shown
        )
    )
    notes = tuple(_note(*each, places.get(each[0].path)) for each in _counted(documents, links))
    near = tuple(
        NearPair(shown[a], shown[b], cosine)
        for a, b, cosine in _near_pairs(
            reader, snapshot, documents, with_vector, means, links, shown
        )
        if a in shown and b in shown
    )
    return NoteMap(
        name,
        notes,
        links,
        near[:MOST_NEAR],
        left_out,
        _missing(places, means),
        len(near[MOST_NEAR:]),
    )


def _newest(documents: Sequence[Document]) -> list[Document]:
    """Return the documents of a map: all, or of too many the newest."""
    if len(documents) <= MOST_NOTES:
        return list(documents)
    return sorted(documents, key=lambda each: iso_day(day_of(each)), reverse=True)[:MOST_NOTES]


def _counted(
    documents: Sequence[Document], links: Sequence[tuple[int, int]]
) -> list[tuple[Document, int, int]]:
    out, into = [0] * len(documents), [0] * len(documents)
    for source, target in links:
        out[source] += 1
        into[target] += 1
    return [(each, out[n], into[n]) for n, each in enumerate(documents)]


def _note(document: Document, out: int, into: int, place: tuple[float, float] | None) -> MapNote:
    x, y = place or (None, None)
    return MapNote(
        document.path,
        document.title,
        x,
        y,
        out,
        into,
        document.tags,
        iso_day(day_of(document)),
        document.language,
    )


def _missing(places: Mapping[str, tuple[float, float]], means: Matrix) -> str:
    """Say why there are no places; empty where there are."""
    if places:
        return ""
    if not len(means) or bool(np.isnan(means).any(axis=1).all()):
        return "There are no vectors yet: places come from what notes mean."
    if not can_lay_out():
        return f"Places need scikit-learn: {install_with('map')}."
    return (
        "The map is not laid out yet: `thumbindex map` does it now, a server with the page does "
        "it at rest where no other one indexes."
    )


def _means(snapshot: Snapshot, ids: Sequence[DocumentId]) -> Matrix:
    """Return the mean of each document's vectors at unit length, shape (n, d); NaN where it has
    none yet.
    """
    rows = []
    size = 1
    for document in ids:
        vectors = snapshot.vector.vectors(
            [ChunkId(n) for n in snapshot.catalog.chunk_ids(document)]
        )
        vectors = vectors[~np.isnan(vectors).any(axis=1)] if len(vectors) else vectors
        mean = vectors.mean(axis=0) if len(vectors) else None
        length = float(np.linalg.norm(mean)) if mean is not None else 0.0
        rows.append(mean / length if mean is not None and length else None)
        size = max(size, vectors.shape[1] if vectors.ndim == 2 else 1)
    found = np.full((len(rows), size), np.nan, dtype=np.float32)
    for at, row in enumerate(rows):
        if row is not None:
            found[at] = row
    return found


def _digest(mean: npt.NDArray[np.float32]) -> str:
    return hashlib.blake2b(
        np.round(mean, 3).astype(np.float16).tobytes(), digest_size=_DIGEST
    ).hexdigest()


def _places(layout: Layout, means: Mapping[str, Any], model: str) -> dict[str, tuple[float, float]]:
    """Return where notes lie: those that were laid out where they did, new ones at the mean of
    their nearest that were.
    """
    if layout.model != model:
        return {}
    known = [path for path in means if path in layout.places and not np.isnan(means[path]).any()]
    found = {path: layout.places[path] for path in means if path in layout.places}
    new = [path for path in means if path not in layout.places and not np.isnan(means[path]).any()]
    if new and known:
        matrix = np.stack([means[path] for path in known])
        for path in new:
            nearest = np.argsort(-(matrix @ means[path]), kind="stable")[:NEAREST]
            x, y = np.mean([layout.places[known[n]] for n in nearest], axis=0)
            found[path] = (float(x), float(y))
    return found


# ------------------------------------------------------------------ near and not linked

_NUMBERS = re.compile(r"\d+(?:[._-]\d+)*")
"""Versions and dates are one number."""


def _near_pairs(
    reader: Reader,
    snapshot: Snapshot,
    documents: Sequence[Document],
    paths: Sequence[str],
    means: Matrix,
    links: Sequence[tuple[int, int]],
    shown: Mapping[str, int],
) -> list[tuple[str, str, float]]:
    """Return notes that are among each other's nearest and not linked either way, the nearest
    first.

    Left out are pairs between which a link would say nothing: copies, translations, and pages that
    differ in a number, as releases do.
    """
    key = (str(reader.folder.places.store), snapshot.generation, reader.store.meta("fingerprint"))
    # seconds for a large folder: whoever asks meanwhile waits instead of doing the same
    with _guard:
        kept = _near.get(key)
        if kept is None:
            _near[key] = kept = _computed(reader, documents, paths, means, links, shown)
            while len(_near) > _KEPT:
                del _near[next(iter(_near))]
    return kept


def _computed(
    reader: Reader,
    documents: Sequence[Document],
    paths: Sequence[str],
    means: Matrix,
    links: Sequence[tuple[int, int]],
    shown: Mapping[str, int],
) -> list[tuple[str, str, float]]:
    has_vector = ~np.isnan(means).any(axis=1)
    rows = np.flatnonzero(has_vector)
    matrix = means[rows]
    tied = {frozenset(pair) for pair in links}
    copies = _copies(reader)
    found: dict[tuple[int, int], float] = {}
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        cosines = matrix[start : start + _ROWS_AT_ONCE] @ matrix.T
        count = min(NEAREST + 1, len(rows))
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        for at, others in enumerate(best.tolist()):
            own = shown[paths[rows[start + at]]]
            for other in others:
                its = shown[paths[rows[other]]]
                cosine = float(cosines[at, other])
                if (
                    own != its
                    and LEAST_COSINE <= cosine < SAME_COSINE
                    and frozenset((own, its)) not in tied
                ):
                    found[min(own, its), max(own, its)] = cosine
    return [
        (documents[a].path, documents[b].path, round(cosine, 4))
        for (a, b), cosine in sorted(found.items(), key=lambda each: (-each[1], each[0]))
        if _is_worth_a_link(documents[a], documents[b])
        and frozenset((documents[a].path, documents[b].path)) not in copies
    ]


def _is_worth_a_link(first: Document, second: Document) -> bool:
    if first.language and second.language and first.language != second.language:
        return False
    stems = [_NUMBERS.sub("0", each.path.rpartition("/")[2].casefold()) for each in (first, second)]
    titles = [_NUMBERS.sub("0", each.title.casefold()) for each in (first, second)]
    numbered = first.path != second.path and (stems[0] == stems[1] or titles[0] == titles[1])
    return not numbered


def _copies(reader: Reader) -> set[frozenset[str]]:
    """Return the pairs of notes that have a text in common."""
    found = all_duplicates([reader], grey=False).clusters
    return {
        frozenset((a.place.path, b.place.path))
        for cluster in found
        for a in cluster.standings[:_ROWS_AT_ONCE]
        for b in cluster.standings[:NEAREST]
        if a.place.path != b.place.path
    }


# ------------------------------------------------------------------ laying it out


def lay_out(
    reader: Reader,
    interrupted: Callable[[], bool] = lambda: False,
    *,
    is_asked: bool = False,
    is_first: bool = True,
) -> bool:
    """Lay the map of a folder out where much has changed since, in a process of its own; tell
    whether that was done.

    What was laid out before keeps its sides: the new places are turned so that notes lie where they
    did, as far as they can. Raises UsageError where it `is_asked` for and scikit-learn is missing.
    Without `is_first` nothing is done where none was laid out before.
    """
    if not reader.indexed:
        return False
    layout = read_layout(reader.folder.places)
    # it takes a process of 100 MB, and a minute of a core for thousands of notes
    if not (is_first or layout.places):
        return False
    if not can_lay_out():
        if is_asked:
            raise UsageError(f"The map needs scikit-learn: {install_with('map')}.")
        return False
    snapshot, model = reader.snapshot(), reader.store.meta("fingerprint")
    ids = {path: n for n, path in snapshot.catalog.every_path()}
    paths = [each.path for each in _newest(open_documents([reader])) if each.path in ids]
    means = _means(snapshot, [ids[path] for path in paths])
    kept = [n for n in range(len(paths)) if not np.isnan(means[n]).any()]
    # vectors are still coming: a map of half the notes would move soon
    if not kept or (len(kept) < len(paths) and not is_asked):
        return False
    digests = {paths[n]: _digest(means[n]) for n in kept}
    changed = sum(layout.digests.get(path) != digest for path, digest in digests.items())
    if layout.model == model and changed <= CHANGED_SHARE * len(digests):
        return False
    laid = _in_a_process(means[kept], interrupted)
    if laid is None:
        return False
    names = [paths[n] for n in kept]
    places = dict(zip(names, _turned(laid, names, layout).tolist(), strict=True))
    own = reader.folder.places
    # what became private while this took its time is forgotten under the same lock
    with locked(own.lock):
        known = set(reader.store.manifest(names)) - hidden_paths_now(names, reader)
        kept_places = {path: (x, y) for path, (x, y) in places.items() if path in known}
        keep_layout(
            own,
            Layout(
                model,
                kept_places,
                {path: digest for path, digest in digests.items() if path in known},
            ),
        )
    return True


def _turned(laid: Matrix, paths: Sequence[str], before: Layout) -> Matrix:
    """Turn and mirror places so that notes lie as near as can be to where they lay before
    (orthogonal Procrustes; Schönemann 1966).
    """
    common = [n for n, path in enumerate(paths) if path in before.places]
    if len(common) < 2:
        return laid
    old = np.array([before.places[paths[n]] for n in common], dtype=np.float64)
    new = laid[common].astype(np.float64)
    left, _, right = np.linalg.svd((new - new.mean(axis=0)).T @ (old - old.mean(axis=0)))
    return unit(np.asarray(laid @ (left @ right), dtype=np.float32))


def _in_a_process(vectors: Matrix, interrupted: Callable[[], bool]) -> Matrix | None:
    """Lay vectors out in a process of low priority on one core; None where that is interrupted, or
    fails.
    """
    command = [sys.executable, "-P", "-m", "thumbindex.library.plane"]
    given = {**environment(), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=given
    ) as process:
        assert process.stdin is not None, "it was asked for"
        written: list[bytes] = []

        def read() -> None:
            assert process.stdout is not None, "it was asked for"
            written.append(process.stdout.read())

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        try:
            process.stdin.write(
                f"{vectors.shape[0]} {vectors.shape[1]}\n".encode()
                + np.ascontiguousarray(vectors, dtype=np.float32).tobytes()
            )
            process.stdin.flush()
        except OSError:  # it has ended already: there is nothing to be read
            return None
        while reading.is_alive():
            if interrupted():
                process.kill()
                return None
            reading.join(_POLL_SECONDS)
            time.sleep(0)
        process.stdin.close()
    data = written[0] if written else b""
    return (
        np.frombuffer(data, dtype=np.float32).reshape(-1, 2)
        if len(data) == 8 * len(vectors)
        else None
    )
