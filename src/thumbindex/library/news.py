"""What came, went and changed since one looked last, for whoever is to be told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thumbindex.errors import StorageError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.library.reader import Reader
from thumbindex.model import Changes

Known = Mapping[str, tuple[int, str]]
"""Each document's row id and digest by path; the digest is read where the row is another: none is used twice in a store."""


class News:
    """Tells what is new in some folders' indexes. Its own memory: queries, too, open what is new, and nothing of that may be missed here."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._watched = [Watched(reader) for reader in readers]

    def look(self) -> Mapping[str, Changes]:
        """Return by folder what came, went and changed since the last look; folders without news are left out.

        An index that is not there (forgotten, under repair) tells nothing until it is back.
        """
        found = {}
        for each in self._watched:
            try:
                found[each.name] = each.look()
            except StorageError:
                continue  # the next look tells of it: what one folder has come to hides nothing of the others
        return {name: changes for name, changes in found.items() if changes.added or changes.changed or changes.removed}


class Watched:
    """One folder's documents as they were when one looked last."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.folder.name
        self._reader = reader
        self._seen: StoreCatalog | None = None
        self._known: Known = {}
        self._is_first = True

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        first, self._is_first = self._is_first, False
        if not self._reader.indexed or (catalog := self._reader.opened().catalog) is self._seen:
            return Changes()
        known = self._known if self._seen is not None and self._seen.store is catalog.store else {}  # a store built anew counts from the beginning
        before, self._known, self._seen = self._known, _known(catalog, known), catalog
        return Changes() if first else compare(before, self._known)


def _known(catalog: StoreCatalog, last: Known) -> Known:
    rows = dict(zip(catalog.paths, catalog.document_rows.tolist(), strict=True))
    kept = {path: last[path] for path, row in rows.items() if path in last and last[path][0] == row}
    read = catalog.store.manifest(rows.keys() - kept.keys())
    return kept | {path: (rows[path], state.digest) for path, state in read.items()}


def compare(before: Known, after: Known) -> Changes:
    """Return the paths that came, changed and went."""
    kept = before.keys() & after.keys()
    changed = tuple(sorted(path for path in kept if before[path][1] != after[path][1]))
    return Changes(tuple(sorted(after.keys() - kept)), changed, tuple(sorted(before.keys() - kept)), len(kept) - len(changed))
