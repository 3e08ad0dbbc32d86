"""Verify, repair, create and switch builds of an index; delete indexes and unused vectors."""

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
"""Meta key that is set while a build does not contain all notes yet."""

CARRIED_META = ("model", "fingerprint", "dimensions", "model_setting", "root")
"""Meta keys copied to the next build, because they cannot be derived from the notes."""


def open_store(paths: IndexPaths) -> Store:
    """Open the store of a build for writing. Raises IndexDamagedError."""
    with as_storage_errors(paths.folder):
        paths.build_folder.mkdir(exist_ok=True)
    return Store(paths.store)


def find_damage(paths: IndexPaths) -> str:
    """Read a whole index without locking it. Return a description of the first damage, or "".

    Raises StorageError if the index cannot be read for another reason.
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
                    if store.generation == generation:  # else a commit has replaced files
                        raise
    except IndexDamagedError as error:
        return error.reason


def repair_index(paths: IndexPaths) -> str:
    """Repair an index that is damaged or has an older schema.

    Deletes damaged vector files. If the index itself is damaged, switches to an empty build, which
    the next run fills. Returns a message about the repairs, or "" if nothing was damaged.
    """
    sentences = []
    for path in sorted(paths.folder.with_name(VECTORS_FOLDER).glob("*.sqlite3")):
        with suppress(IndexTooNewError):
            sentences.append(repair_vectors(path))
    if find_damage(paths):
        with hold_lock(paths.rebuild):
            if damage := find_damage(paths):  # else another process has repaired it
                switch_build(paths.folder, begin_build(paths.folder, keep=lambda store: False))
                # the damaged store recorded whether an erasure was due
                _request_vector_deletion(paths.folder.parent)
                sentences.append(
                    f"The index in {paths.folder} cannot be read ({damage}). It will be rebuilt "
                    "from the notes."
                )
    return " ".join(filter(None, sentences))


def begin_build(folder: Path, keep: Callable[[Store], bool]) -> int:
    """Create an empty build after the current build, and return the number of the new build.

    If an earlier run left an unfinished build, `keep` decides whether to continue with that build
    instead. The caller holds the `rebuild` lock.
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
    """Return the current build's number and the generation of its last change to documents.

    Returns "" if the build cannot be read.
    """
    paths = IndexPaths(folder).of_build()
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return f"{paths.build} {store.meta('words')}"
    except StorageError:
        return ""


def switch_build(folder: Path, build: int, words: str | None = None) -> bool:
    """Make `build` the current build, and delete all other builds.

    Changes nothing and returns False if `build` does not exist or `words` is outdated. `words` is
    an earlier result of `words_generation`, or None to skip this check. The caller holds the
    `rebuild` lock.
    """
    with hold_lock(IndexPaths(folder).lock):
        paths = IndexPaths(folder).of_build()
        exists = build == paths.build + 1 and paths.of_build(build).store.exists()
        if not exists or (words is not None and words != words_generation(folder)):
            return False
        if paths.of_build(build).segments_folder.exists():
            fsync_files(paths.of_build(build).segments_folder)
        paths.set_current_build(build)
        IndexPaths(folder).delete_other_builds()
        return True


def build_in_progress(paths: IndexPaths) -> int:
    """Return the number of the build that a process is writing now, or 0."""
    following = paths.of_build(paths.current_build + 1)
    return following.build if following.build_folder.exists() and is_held(paths.rebuild) else 0


def _carried_meta(paths: IndexPaths) -> dict[str, str]:
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return {key: value for key in CARRIED_META if (value := store.meta(key))}
    except StorageError:
        return {}


# ------------------------------------------------------------------ deletion


_DELETION_DUE = "deletion_due"
"""Name of a file in the vectors' folder that exists while a deletion of unused vectors is due."""


def delete_unused_vectors(indexes: Path) -> bool:
    """Delete the vectors that no index in this directory uses.

    Returns True if no unused vectors remain on disk. While any index is unreadable or incomplete,
    deletes nothing and returns False.
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
                        "Unused vectors were not deleted: the index in %s is incomplete.",
                        folder,
                    )
                    return False
                used.setdefault(store.meta("fingerprint"), set()).update(embedded_keys(store))
        except StorageError as error:
            _LOG.info("Unused vectors were not deleted: %s", error)
            return False
    vector_files = sorted((indexes / VECTORS_FOLDER).glob("*.sqlite3"))
    is_clean = [_delete_unused(path, used) for path in vector_files]
    if all(is_clean):
        (indexes / VECTORS_FOLDER / _DELETION_DUE).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (indexes / VECTORS_FOLDER).rmdir()
    return all(is_clean)


def _request_vector_deletion(indexes: Path) -> bool:
    """Record that a deletion of unused vectors is due; return False if there are no vectors."""
    if not (indexes / VECTORS_FOLDER).is_dir():
        return False
    with as_storage_errors(indexes):
        (indexes / VECTORS_FOLDER / _DELETION_DUE).touch()
        fsync_folder(indexes / VECTORS_FOLDER)
    return True


def _delete_unused(path: Path, used: Mapping[str, set[bytes]]) -> bool:
    with closing(VectorStore.open(path)) as vectors:
        texts = used.get(fingerprint := vectors.fingerprint)
        vectors.remove_unused(texts or ())
        is_clean = vectors.truncate_log()
    if texts is None and fingerprint:
        with suppress(StorageError):  # no index uses this model; the file may be open elsewhere
            delete_sqlite_file(path)
    return is_clean


def finish_deleting_vectors(indexes: Path) -> None:
    """Delete unused vectors if an earlier deletion was not completed."""
    if (indexes / VECTORS_FOLDER / _DELETION_DUE).exists():
        delete_unused_vectors(indexes)


def delete_index(paths: IndexPaths) -> None:
    """Delete one folder's index, and the vectors that no other folder uses.

    Raises IndexBusyError if another process is writing.
    """

    def busy() -> None:
        raise IndexBusyError(
            f"Another process is writing the index in {paths.folder}: try again when it has "
            "finished."
        )

    if not paths.folder.is_dir():
        return
    _request_vector_deletion(paths.folder.parent)
    with as_storage_errors(paths.folder), hold_lock(paths.lock, busy):
        # Windows cannot delete open files: with the store deleted last, `forget` can be repeated
        present = paths.of_build()
        if present.segments_folder.exists():
            shutil.rmtree(present.segments_folder)
        excluded = (paths.lock, *_files_of_active_runs(paths))
        for path in sorted(
            paths.folder.iterdir(), key=lambda path: (path.is_file(), path == present.build_folder)
        ):
            if path.name == REQUESTS:
                with suppress(OSError):  # deleted request files would signal success to readers
                    path.rmdir()
            elif path.is_dir():
                shutil.rmtree(path)
            elif path in excluded:
                continue
            elif path.suffix == ".lock":
                delete_lock(path)  # a server creates a new one
            else:
                path.unlink(missing_ok=True)
        is_deleted = delete_lock(paths.lock)
    with suppress(OSError):  # another writer may have started
        if not is_deleted:
            paths.lock.unlink()
        paths.folder.rmdir()
    with as_storage_errors(paths.folder.parent):  # a power cut must not restore the index
        for folder in filter(Path.is_dir, (paths.folder, paths.folder.parent)):
            fsync_folder(folder)
    if not delete_unused_vectors(paths.folder.parent):
        _LOG.warning(
            "Vectors of %s may remain in %s, because another index there is unreadable, incomplete "
            "or in use.",
            paths.folder.name,
            paths.folder.parent,
        )


def _files_of_active_runs(paths: IndexPaths) -> tuple[Path, ...]:
    """Return the lock and progress files of active runs. These runs will recreate the index."""
    locks = (paths.rebuild,), run_files(paths.folder)
    return tuple(path for files in locks if is_held(files[0]) for path in files)


def indexed_root(paths: IndexPaths) -> Path | None:
    """Return the folder that an index was built from, or None if there is no index.

    If the index cannot be read, returns the name of the index folder.
    """
    if not paths.store.is_file():
        return None
    try:
        with closing(Store(paths.store, read_only=True)) as store:
            return Path(store.meta("root") or paths.folder.name)
    except StorageError:
        return Path(paths.folder.name)
