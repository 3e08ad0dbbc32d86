"""What the index keeps of private notes (that a file was read, no more), and how what it held of one before is taken out of its files."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thumbindex.index.store import Store
from thumbindex.model import FileState
from thumbindex.text import text_key

_FACT, _DUE = "withheld", "wipe_due"


@dataclass(frozen=True, slots=True)
class Withheld:
    """Files that were read and are private, by a digest of their path: their sizes, times and digests, so that they are not read each time."""

    salt: str = ""
    files: Mapping[str, Sequence[int | str]] = field(default_factory=dict)

    def of(self, states: Iterable[FileState]) -> dict[str, FileState]:
        """Return what was known of those of the files that are withheld, by path."""
        marks = {state.path: self._mark(state.path) for state in states} if self.files else {}
        return {path: _state(path, self.files[mark]) for path, mark in marks.items() if mark in self.files}

    def with_states(self, states: Iterable[FileState]) -> Withheld:
        """Return just these files as withheld."""
        states = list(states)
        if not states:
            return Withheld()
        salted = self if self.salt else Withheld(secrets.token_hex(16))
        files = {salted._mark(each.path): (each.size, each.mtime_ns, each.inode, each.digest, each.ctime_ns) for each in states}
        return Withheld(salted.salt, dict(sorted(files.items())))

    def _mark(self, path: str) -> str:
        return text_key(f"{self.salt} {path}").hex()


def _state(path: str, kept: Sequence[int | str]) -> FileState:
    size, mtime_ns, inode, digest, ctime_ns = kept
    return FileState(path, int(size), int(mtime_ns), int(inode), str(digest), int(ctime_ns))


def read_withheld(store: Store) -> Withheld:
    """Return what is kept."""
    written = json.loads(store.meta(_FACT, "{}"))
    return Withheld(written["salt"], {mark: tuple(kept) for mark, kept in written["files"].items()}) if written else Withheld()


def keep_withheld(store: Store, withheld: Withheld) -> None:
    """Write it down, in a transaction, where it differs."""
    if withheld != read_withheld(store):
        store.set_meta(_FACT, json.dumps({"salt": withheld.salt, "files": withheld.files}) if withheld.files else "{}")


def forget_private(store: Store, paths: Sequence[str], withheld: Withheld | None = None) -> None:
    """Remove documents, in a transaction, with all that was ever known of their texts: vectors of texts that are nowhere any more, decisions, words.

    What files still hold of them is due to be wiped; so it is where one is newly `withheld` that the store does not hold: it may be of a
    document that was removed before.
    """
    held = store.manifest(paths)
    if not held and (withheld is None or withheld.files.keys() <= read_withheld(store).files.keys()):
        return
    store.forget_decisions(list(paths))
    store.remove_documents(list(held))
    store.drop_orphan_vectors(store.meta("fingerprint"), ())
    store.set_meta("vocabulary", "[]")
    store.set_meta("vocabulary_of", "")
    store.set_meta(_DUE, "yes")


def is_wiped(store: Store) -> bool:
    """Tell whether nothing is left to be wiped."""
    return store.meta(_DUE) != "yes"


def wipe_store(store: Store) -> bool:
    """Overwrite what the store's file and its log hold beside its rows; tell whether that was possible, else it stays due."""
    if not store.clean_log():
        return False
    with store.transaction():
        store.set_meta(_DUE, "")
    return True
