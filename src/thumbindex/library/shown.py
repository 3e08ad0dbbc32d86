"""Which notes may be shown as their files are now: none that became private or is gone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from thumbindex.corpus.read import read_digest
from thumbindex.corpus.walk import Names, facts_of, state_of
from thumbindex.errors import StorageError
from thumbindex.index.store import Store
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import cutting, holds_nothing, is_private_now, lies_private
from thumbindex.library.reader import Reader
from thumbindex.model import Document, DuplicatesFound, FileState, Passage, Place, Unmet
from thumbindex.ports import Catalog

NAMES_TOLD = 3
"""Names that are told of those that come near."""

_LOOKED_AT = 50
"""Notes whose files are looked at at once."""


def hidden_now(
    places: Iterable[tuple[str, str]], readers: Sequence[Reader]
) -> frozenset[tuple[str, str]]:
    """Return which notes, by folder and path, may not be shown as their files are now, whatever the
    index still knows of them.

    They have become private since, are gone from their places, or have changed where nobody can
    read what the folder's own file keeps private. A file is read only where its size, its times or
    its place on the disk are not those that were indexed.
    """
    paths: dict[str, set[str]] = defaultdict(set)
    for folder, path in places:
        paths[folder].add(path)
    found: set[tuple[str, str]] = set()
    for reader in readers:
        if (asked := paths.get(reader.folder.name)) and not reader.is_published:
            try:
                store = reader.store
            except StorageError:  # it is just being put in the place of another: all are read
                store = None
            found |= {
                (reader.folder.name, path) for path in hidden_paths(reader.folder, asked, store)
            }
    return frozenset(found)


def hidden_paths(folder: Folder, paths: Collection[str], store: Store | None) -> set[str]:
    """Return which notes of a folder may not be shown as their files are now; see `hidden_now`."""
    indexed: Mapping[str, FileState] = {}
    is_read_so = False
    with suppress(StorageError):
        if store is not None:
            indexed, is_read_so = store.manifest(paths), store.meta("corpus") == cutting(folder)
    names: Names = {}
    return {
        path for path in paths if _is_hidden(folder, path, indexed.get(path), is_read_so, names)
    }


def _is_hidden(
    folder: Folder, path: str, indexed: FileState | None, is_read_so: bool, names: Names
) -> bool:
    if lies_private(folder, path, names):
        return True
    try:
        # (of a listing's every note)
        state = state_of(path, os.stat(f"{folder.root}/{path}"))  # noqa: PTH116
        if indexed is not None and is_read_so and facts_of(state) == facts_of(indexed):
            return False
    # it may be private where it lies now; of a folder that is away nothing has moved
    except (FileNotFoundError, NotADirectoryError):
        if not holds_nothing(folder.root):
            return True
    except (OSError, ValueError):
        pass
    if folder.config.closed and (
        indexed is None or indexed.digest != read_digest(folder.root, path, folder.config.corpus)
    ):
        return True
    return is_private_now(folder, path)


def hidden_paths_now(paths: Iterable[str], reader: Reader) -> set[str]:
    """Return which paths of a folder may not be shown now."""
    places = ((reader.folder.name, path) for path in paths)
    return {path for _, path in hidden_now(places, [reader])}


def changed_now(
    places: Iterable[tuple[str, str]], readers: Sequence[Reader]
) -> frozenset[tuple[str, str]]:
    """Return which notes, by folder and path, are gone or say something else than was indexed; of a
    folder that is away nothing has changed.

    A file is read only where its size, its times or its place on the disk are not those that were
    indexed.
    """
    asked = frozenset(places)
    found = set[tuple[str, str]]()
    for reader in readers:
        if (
            own := {path for folder, path in asked if folder == reader.folder.name}
        ) and not reader.is_published:
            indexed = reader.store.manifest(own)
            found |= {
                (reader.folder.name, path)
                for path in own
                if _has_changed(reader.folder, path, indexed.get(path))
            }
    return frozenset(found)


def _has_changed(folder: Folder, path: str, indexed: FileState | None) -> bool:
    try:
        if indexed is not None:
            now = state_of(path, (folder.root / path).stat())
            if facts_of(now) == facts_of(indexed):
                return False
    except (FileNotFoundError, NotADirectoryError):
        return not holds_nothing(folder.root)
    except (OSError, ValueError):
        return False
    return indexed is None or indexed.digest != read_digest(folder.root, path, folder.config.corpus)


def with_true_places(passages: Sequence[Passage], readers: Sequence[Reader]) -> tuple[Passage, ...]:
    """Return passages that name as copies no place twice, none that they show themselves, and no
    note that has changed since it was indexed.
    """
    changed = changed_now(
        ((each.folder, each.path) for passage in passages for each in passage.also_in), readers
    )
    return tuple(
        _with_places(passage, changed) if passage.also_in else passage for passage in passages
    )


def _with_places(passage: Passage, changed: Collection[tuple[str, str]]) -> Passage:
    by_note: dict[tuple[str, str], list[Place]] = {}
    for place in passage.also_in:
        if (place.folder, place.path) not in changed:
            by_note.setdefault((place.folder, place.path), []).append(place)
    joined = [place for places in by_note.values() for place in _joined(places)]
    own = (passage.folder, passage.path)
    others = tuple(
        each
        for each in joined
        if (each.folder, each.path) != own
        or each.end_line < passage.start_line
        or each.start_line > passage.end_line
    )
    return replace(passage, also_in=others, cluster_size=1 + len(others))


def _joined(places: Sequence[Place]) -> list[Place]:
    """Return places of one note, those that overlap or stand next to each other, but for an empty
    line, as one.
    """
    found = list[Place]()
    for each in sorted(places, key=lambda place: (place.start_line, place.end_line)):
        if found and each.start_line <= found[-1].end_line + 2:
            found[-1] = replace(found[-1], end_line=max(found[-1].end_line, each.end_line))
        else:
            found.append(each)
    return found


def every_document(readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield all documents, by folder and path, whatever may be shown of them."""
    return (
        document
        for reader in readers
        if reader.indexed
        for _, document in reader.opened().catalog.every_document()
    )


def open_documents(readers: Sequence[Reader]) -> list[Document]:
    """Return all documents that may be shown now, by folder and path."""
    documents = list(every_document(readers))
    hidden = hidden_now(((each.folder, each.path) for each in documents), readers)
    if hidden:
        return [each for each in documents if (each.folder, each.path) not in hidden]
    return documents


def shown(documents: Iterable[Document], readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the documents that may be shown now; the files of few more are looked at than are
    taken.
    """
    rest = iter(documents)
    while some := list(islice(rest, _LOOKED_AT)):
        hidden = hidden_now(((each.folder, each.path) for each in some), readers)
        yield from (each for each in some if (each.folder, each.path) not in hidden)


def with_shown_names(
    unmet: Sequence[Unmet], catalog: Catalog, readers: Sequence[Reader]
) -> tuple[Unmet, ...]:
    """Keep of the names that come near a filter the first ones that some note still gives which may
    be shown now.
    """

    def open_names(each: Unmet) -> Iterator[str]:
        return (
            name
            for name in each.nearest
            if next(shown(catalog.bearing(each.field, name), readers), None)
        )

    return tuple(
        replace(each, nearest=tuple(islice(open_names(each), NAMES_TOLD))) for each in unmet
    )


def without_hidden_texts(found: DuplicatesFound, readers: Sequence[Reader]) -> DuplicatesFound:
    """Return clusters without the texts of notes that may not be shown now; one of which a single
    place is left is none.
    """
    hidden = hidden_now(
        ((each.folder, each.path) for cluster in found.clusters for each in cluster.texts),
        readers,
    )
    if not hidden:
        return found
    left = []
    for cluster in found.clusters:
        texts = tuple(text for text in cluster.texts if (text.folder, text.path) not in hidden)
        if len(texts) > 1:
            left.append(replace(cluster, texts=texts))
    return replace(found, clusters=tuple(left))
