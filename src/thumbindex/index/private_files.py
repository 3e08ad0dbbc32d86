"""Private files: their stored states, and the removal of notes that become private."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Sequence
from functools import partial

from thumbindex.errors import StorageError
from thumbindex.index.duplicate_tables import write_decisions
from thumbindex.index.files import IndexPaths
from thumbindex.index.judgment_file import remove_judgments
from thumbindex.index.row_codec import signed_inode, state_from_row
from thumbindex.index.store import Store
from thumbindex.model import FileState
from thumbindex.text import text_key

_LOG = logging.getLogger(__name__)

ERASURE_DUE = "erasure_due"
"""Meta key that is set while index files may still contain texts of removed private notes."""


def private_states(store: Store, paths: Iterable[str]) -> dict[str, FileState]:
    """Return the stored state of each file in `paths` that is private, keyed by path."""
    columns = "path_digest, size, mtime_ns, inode, digest, ctime_ns"
    rows = {digest: state for digest, *state in store.fetch(f"SELECT {columns} FROM private")}
    digests = _path_digests(store, paths) if rows else {}
    return {
        path: state_from_row((path, *rows[digest]))
        for digest, path in digests.items()
        if digest in rows
    }


def count_private_states(store: Store) -> int:
    """Return the number of files whose text is private."""
    return int(store.fetch("SELECT count(*) FROM private")[0][0])


def add_private_states(store: Store, states: Sequence[FileState]) -> None:
    """Store the states of private files. Only digests of their paths are stored."""
    if states and not store.meta("salt"):
        store.set_meta("salt", secrets.token_hex(16))
    by_path = {state.path: state for state in states}
    rows = []
    for digest, path in _path_digests(store, by_path).items():
        state = by_path[path]
        file = (state.size, state.mtime_ns, signed_inode(state.inode))
        rows.append((digest, *file, state.digest, state.ctime_ns))
    store.execute_many("INSERT OR REPLACE INTO private VALUES (?, ?, ?, ?, ?, ?)", rows)


def remove_private_states(
    store: Store, *, public: Iterable[str] = (), listed: Iterable[str] | None
) -> None:
    """Remove the stored states of files that are now public.

    If `listed` is not None, also remove the states of all files that are not in `listed`.
    """
    removed = set(_path_digests(store, public))
    if listed is not None:
        digests = {digest for (digest,) in store.fetch("SELECT path_digest FROM private")}
        removed |= digests.difference(_path_digests(store, listed) if digests else ())
    store.execute_many(
        "DELETE FROM private WHERE path_digest = ?", [(digest,) for digest in removed]
    )


def _path_digests(store: Store, paths: Iterable[str]) -> dict[bytes, str]:
    salt = store.meta("salt")
    return {text_key(f"{salt} {path}"): path for path in paths}


def remove_private_notes(store: Store, paths: Sequence[str], *, is_new: bool = False) -> None:
    """Remove documents and the user's decisions and judgments about them, inside a transaction.

    Marks an erasure as due, because the index's files still contain the texts. `is_new` means that
    a file has become private. Then an erasure is due even if the document was removed before.
    """
    indexed = store.manifest(paths)
    if not (indexed or is_new):
        return
    index_paths = IndexPaths(store.decisions_file.parent)
    for remove in (
        partial(_remove_decisions, store),
        partial(remove_judgments, index_paths),
    ):
        try:
            remove(paths)
        except StorageError as error:  # a damaged file must not block the removal
            _LOG.warning("%s The file may still mention notes that are now private.", error)
    store.remove_documents(list(indexed))
    store.set_meta("vocabulary", "[]")
    store.set_meta("vocabulary_of", "")
    store.set_meta(ERASURE_DUE, "yes")


def _remove_decisions(store: Store, paths: Sequence[str]) -> None:
    texts, places = store.duplicates.texts_of(list(paths)), tuple(f"{path}:" for path in paths)
    dropped = [
        (decision.first, decision.second)
        for decision in store.decisions()
        if {decision.first, decision.second} & texts
        or decision.first_place.startswith(places)
        or decision.second_place.startswith(places)
    ]
    if dropped:
        write_decisions(store.decisions_file, (), dropped)
        store.duplicates.record_change()


def is_erased(store: Store) -> bool:
    """Return True if no erasure is due."""
    return store.meta(ERASURE_DUE) != "yes"
