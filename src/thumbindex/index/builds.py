"""Builds of an index: checked, repaired, made beside the current one and switched to; and the
deletion of indexes and of vectors that no index needs.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from thumbindex.errors import IndexBusyError, IndexDamagedError, IndexTooNewError, StorageError
from thumbindex.index.chunk_vectors import embedded_keys
from thumbindex.index.files import (
    VECTORS_FOLDER,
    IndexPaths,
    as_storage_errors,
    delete_sqlite_file,
    fsync_files,
    fsync_folder,
)
from thumbindex.index.locks import delete_lock, hold_lock, is_held, run_files
from thumbindex.index.refresh_requests import REQUESTS
from thumbindex.index.segments import verify_segments
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore, repair_vectors

_LOG = logging.getLogger(__name__)

INCOMPLETE = "incomplete"
"""The meta key of a build that does not hold all notes yet."""

CARRIED_META = ("model", "fingerprint", "dimensions", "model_setting", "root")
"""Meta keys that the next build takes over: they cannot be read from the notes."""


def open_store(paths: IndexPaths) -> Store:
    """Open the store of a build to write; raise IndexDamagedError."""
    with as_storage_errors(paths.folder):
        paths.build_folder.mkdir(exist_ok=True)
    return Store(paths.store)


def find_damage(paths: IndexPaths) -> str:
    """Read a whole index, without the lock, and return what is damaged; raise StorageError if it
    cannot be read for another reason.
    """
    paths = paths.of_build()
    if not paths.store.exists():
        return ""
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            store.verify()
            if store.vectors:
                store.vectors.verify()
            while True:
                generation = store.generation
                try:
                    verify_segments(store.segments_folder, store.segments(), from_disk=True)
                    return ""
                except IndexDamagedError:
                    if store.generation == generation:  # else a commit has deleted files
                        raise
    except IndexDamagedError as error:
        return str(error).partition(" (")[2].partition("): run")[0]


def repair_index(paths: IndexPaths) -> str:
    """Repair an index that is damaged, or of another schema: delete damaged vectors, and begin all
    else again in the next build.

    Return what was done as sentences, or "". The next run reads the notes.
    """
    sentences = []
    for path in sorted(paths.folder.with_name(VECTORS_FOLDER).glob("*.sqlite3")):
        with suppress(IndexTooNewError):
            sentences.append(repair_vectors(path))
    if find_damage(paths):
        with hold_lock(paths.rebuild):
            if what := find_damage(paths):  # else another process has repaired it
                switch_build(paths.folder, begin_build(paths.folder, keep=lambda store: False))
                # the mark of a due erasure is lost with the store
                _request_vector_deletion(paths.folder.parent)
                sentences.append(
                    f"The index in {paths.folder} was damaged ({what}): it is built anew "
                    "from the notes."
                )
    return " ".join(filter(None, sentences))


def begin_build(folder: Path, keep: Callable[[Store], bool]) -> int:
    """Make the build after the current one and return its number; one that was begun goes on if
    `keep` returns True.

    The caller of this and of `switch_build` holds the lock `rebuild`.
    """
    with hold_lock(IndexPaths(folder).lock):
        paths = IndexPaths(folder).of_build()
        following = paths.of_build(paths.current_build + 1)
        try:
            with closing(Store(following.store, read_only=True)) as store:
                if keep(store):
                    return following.build
        except StorageError:
            pass
        paths.delete_other_builds()
        meta = _carried_meta(paths)
        with closing(open_store(following)) as store, store.transaction():
            for key, value in {**meta, INCOMPLETE: "yes"}.items():
                store.set_meta(key, value)
        return following.build


def words_generation(folder: Path) -> str:
    """Return the current build and the generation of its words; empty if it cannot be read."""
    paths = IndexPaths(folder).of_build()
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return f"{paths.build} {store.meta('words')}"
    except StorageError:
        return ""


def switch_build(folder: Path, build: int, words: str | None = None) -> bool:
    """Make a build the current one and delete the others; return whether it was done.

    It is not if the current one has changed since `words` (see `words_generation`), or if the
    build does not exist.
    """
    with hold_lock(IndexPaths(folder).lock):
        paths = IndexPaths(folder).of_build()
        is_there = build == paths.build + 1 and paths.of_build(build).store.exists()
        if not is_there or (words is not None and words != words_generation(folder)):
            return False
        if paths.of_build(build).segments_folder.exists():
            # before the old build is deleted
            fsync_files(paths.of_build(build).segments_folder)
        paths.set_current_build(build)
        IndexPaths(folder).delete_other_builds()
        return True


def build_in_progress(paths: IndexPaths) -> int:
    """Return the number of the build that a process is making now, or 0."""
    following = paths.of_build(paths.current_build + 1)
    return following.build if following.build_folder.exists() and is_held(paths.rebuild) else 0


def _carried_meta(paths: IndexPaths) -> dict[str, str]:
    """Return what is known of the model and of the folder, as far as that can be read."""
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return {key: value for key in CARRIED_META if (value := store.meta(key))}
    except StorageError:
        return {}


# ------------------------------------------------------------------ what is deleted


_DELETION_DUE = "unswept"
"""The file that stays in the vectors' folder until unused vectors are deleted."""


def delete_unused_vectors(indexes: Path) -> bool:
    """Delete the vectors of texts that no index in this directory has, from the log, too; return
    whether all of them are gone.

    None is deleted while an index cannot be read or is not complete.
    """
    if not _request_vector_deletion(indexes):
        return True
    used: dict[str, set[bytes]] = {}
    for folder in sorted(indexes.iterdir()):
        paths = IndexPaths(folder).of_build()
        if not paths.store.exists():
            continue
        try:
            with closing(Store(paths.store, read_only=True)) as store:
                if store.meta(INCOMPLETE):
                    _LOG.info(
                        "Unused vectors are kept: the index in %s is not complete yet.",
                        folder,
                    )
                    return False
                used.setdefault(store.meta("fingerprint"), set()).update(embedded_keys(store))
        except StorageError as error:
            _LOG.info("Unused vectors are kept: %s", error)
            return False
    vector_files = sorted((indexes / VECTORS_FOLDER).glob("*.sqlite3"))
    is_clean = [_delete_unused(path, used) for path in vector_files]
    if all(is_clean):
        (indexes / VECTORS_FOLDER / _DELETION_DUE).unlink(missing_ok=True)
        with suppress(OSError):  # there are vectors
            (indexes / VECTORS_FOLDER).rmdir()
    return all(is_clean)


def _request_vector_deletion(indexes: Path) -> bool:
    """Create the file that requests the deletion of unused vectors; return whether there are any
    vectors.
    """
    if not (indexes / VECTORS_FOLDER).is_dir():
        return False
    with as_storage_errors(indexes):
        (indexes / VECTORS_FOLDER / _DELETION_DUE).touch()
        fsync_folder(indexes / VECTORS_FOLDER)
    return True


def _delete_unused(path: Path, used: Mapping[str, set[bytes]]) -> bool:
    with closing(VectorStore.open(path)) as vectors:
        texts = used.get(fingerprint := vectors.fingerprint)
        vectors.remove(vectors.keys() - (texts or set()))
        with vectors.transaction():
            vectors.set_meta("swept", str(vectors.count()))
        is_clean = vectors.truncate_log()
    if texts is None and fingerprint:
        with suppress(StorageError):  # no index is of this model; somebody may have the file open
            delete_sqlite_file(path)
    return is_clean


def finish_deleting_vectors(indexes: Path) -> None:
    """Delete unused vectors if that was requested and not completed."""
    if (indexes / VECTORS_FOLDER / _DELETION_DUE).exists():
        delete_unused_vectors(indexes)


def delete_index(paths: IndexPaths) -> None:
    """Delete one folder's index with the vectors that no other folder needs, the lock last; raise
    IndexBusyError if another process is writing.
    """

    def busy() -> None:
        raise IndexBusyError(
            f"The index in {paths.folder} is being written by another process: try again "
            "when it is done."
        )

    if not paths.folder.is_dir():
        return
    _request_vector_deletion(paths.folder.parent)
    with as_storage_errors(paths.folder), hold_lock(paths.lock, busy):
        # Windows deletes no file that is open: the store goes last, so that `forget` finds the
        # index again.
        present = paths.of_build()
        if present.segments_folder.exists():
            shutil.rmtree(present.segments_folder)
        kept = (paths.lock, *_files_of_active_runs(paths))
        for path in sorted(
            paths.folder.iterdir(), key=lambda each: (each.is_file(), each == present.build_folder)
        ):
            if path.name == REQUESTS:
                with suppress(OSError):  # a deleted file would tell its reader that it is answered
                    path.rmdir()
            elif path.is_dir():
                shutil.rmtree(path)
            elif path in kept:
                continue
            elif path.suffix == ".lock":
                # a server's, which takes a new one
                delete_lock(path)
            else:
                path.unlink(missing_ok=True)
        is_gone = delete_lock(paths.lock)
    # suppressed: another writer has begun there since
    with suppress(OSError):
        if not is_gone:
            paths.lock.unlink()
        paths.folder.rmdir()
    with as_storage_errors(paths.folder.parent):  # a power cut does not bring the index back
        for each in filter(Path.is_dir, (paths.folder, paths.folder.parent)):
            fsync_folder(each)
    if not delete_unused_vectors(paths.folder.parent):
        _LOG.warning(
            "Vectors of %s may still lie in %s: another index there cannot be read, or is in use.",
            paths.folder.name,
            paths.folder.parent,
        )


def _files_of_active_runs(paths: IndexPaths) -> tuple[Path, ...]:
    """Return the lock and progress files of runs in progress: they make the index again."""
    locks = (paths.rebuild,), run_files(paths.folder)
    return tuple(path for lock, *rest in locks if is_held(lock) for path in (lock, *rest))


def indexed_root(paths: IndexPaths) -> Path | None:
    """Return the folder that an index was made of: None without an index, the name of the index's
    folder if it is damaged.
    """
    if not paths.store.is_file():
        return None
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return Path(store.meta("root") or paths.folder.name)
    except StorageError:
        return Path(paths.folder.name)
