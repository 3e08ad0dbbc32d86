"""What came, went and changed since one looked last, for whoever is to be told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thumbindex.errors import StorageError
from thumbindex.index.snapshot import shows_words
from thumbindex.library.reader import Reader
from thumbindex.model import Changes

Digests = Mapping[str, int]
"""A hash of each document's digest, by path."""


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
        self._seen = ""
        self._known: Digests = {}
        self._is_first = True

    def look(self) -> Changes:
        """Return what is new; with the first look nothing is."""
        if not self._reader.indexed or (seen := self._words()) == self._seen or not shows_words(self._reader.store, self._reader.folder.places):
            self._is_first = False
            return Changes()
        known = {path: hash(state.digest) for path, state in self._reader.store.manifest().items()}
        before, self._known, self._seen = self._known, known, seen
        first, self._is_first = self._is_first, False
        return Changes() if first else compare(before, known)

    def _words(self) -> str:
        """Name the last change of words, of just this store: one that was built anew counts from the beginning."""
        store = self._reader.store
        return f"{id(store)} {store.meta('words', '0')}"


def compare(before: Digests, after: Digests) -> Changes:
    """Return the paths that came, changed and went."""
    kept = before.keys() & after.keys()
    changed = tuple(sorted(path for path in kept if before[path] != after[path]))
    return Changes(tuple(sorted(after.keys() - kept)), changed, tuple(sorted(before.keys() - kept)), len(kept) - len(changed))
