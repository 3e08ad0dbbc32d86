"""The editions of an index: opened to write, read whole, built anew beside the present one and
switched to; and what is deleted of them.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from thumbindex.errors import IndexBusyError, IndexDamagedError, IndexTooNewError, StorageError
from thumbindex.index.asks import ASKS
from thumbindex.index.files import (
    VECTORS,
    Places,
    delete_database,
    make_durable,
    sync_folder,
    writing,
)
from thumbindex.index.locks import drop_lock, is_held, locked, work_files
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore, mend_vectors
from thumbindex.index.words import verify_words

_LOG = logging.getLogger(__name__)

BUILDING = "building"
"""The fact that an edition does not show all notes yet: until then its texts are not all there
is.
"""

KEPT_FACTS = ("model", "fingerprint", "dimensions", "model_setting", "root")
"""Facts that cannot be read from the notes, or that only a model can measure again."""


def open_store(places: Places) -> Store:
    """Open the store of an edition to write; raise IndexDamagedError."""
    with writing(places.folder):
        places.made.mkdir(exist_ok=True)
    return Store(places.store)


def damage(places: Places) -> str:
    """Read an index whole, without the lock, and say what is damaged; raise StorageError where it
    cannot be read for another reason.
    """
    places = places.at()
    if not places.store.exists():
        return ""
    try:
        with closing(Store(places.store, read_only=True)) as store:
            store.verify()
            if store.vectors:
                store.vectors.verify()
            while True:
                generation = store.generation
                try:
                    verify_words(store, from_disk=True)
                    return ""
                except IndexDamagedError:
                    if store.generation == generation:  # else a commit has taken files away
                        raise
    except IndexDamagedError as error:
        return str(error).partition(" (")[2].partition("): run")[0]


def mend(places: Places) -> str:
    """Make an index that is damaged, or of another schema, usable again: vectors alone are taken
    away, all else begins anew in an edition beside it.

    Return what was done, in words, empty where nothing was. The next run reads the notes.
    """
    sentences = []
    for path in sorted(places.folder.with_name(VECTORS).glob("*.sqlite3")):
        with suppress(IndexTooNewError):
            sentences.append(mend_vectors(path))
    if damage(places):
        with locked(places.rebuild):
            if what := damage(places):  # else another process was faster
                switch(places.folder, next_edition(places.folder, keep=lambda store: False))
                # what was to be wiped of it is not known any more
                _mark_unswept(places.folder.parent)
                sentences.append(
                    f"The index in {places.folder} was damaged ({what}): it is built anew "
                    "from the notes."
                )
    return " ".join(filter(None, sentences))


def next_edition(folder: Path, keep: Callable[[Store], bool]) -> int:
    """Make the edition that is to come after the present one, and return its number; one that was
    begun already goes on where `keep` says so.

    This and `switch` are for who holds the lock `rebuild`.
    """
    with locked(Places(folder).lock):
        places = Places(folder).at()
        following = places.at(places.present + 1)
        try:
            with closing(Store(following.store, read_only=True)) as store:
                if keep(store):
                    return following.edition
        except StorageError:
            pass
        places.sweep()
        facts = _kept_facts(places)
        with closing(open_store(following)) as store, store.transaction():
            for key, value in {**facts, BUILDING: "yes"}.items():
                store.set_meta(key, value)
        return following.edition


def present_words(folder: Path) -> str:
    """Return what changes when documents of the present edition do; empty where it cannot be
    read.
    """
    places = Places(folder).at()
    try:
        with closing(Store(places.store, read_only=True)) as store:
            return f"{places.edition} {store.meta('words')}"
    except StorageError:
        return ""


def switch(folder: Path, edition: int, words: str | None = None) -> bool:
    """Make an edition the present one, and delete the others as far as nobody has them open; tell
    whether it was done.

    Nothing is done where the present one's documents are not those of `words` (`present_words`) any
    more, or the edition is not there.
    """
    with locked(Places(folder).lock):
        places = Places(folder).at()
        is_there = edition == places.edition + 1 and places.at(edition).store.exists()
        if not is_there or (words is not None and words != present_words(folder)):
            return False
        if places.at(edition).keyword.exists():
            # before the other one goes, which has all that this one has
            make_durable(places.at(edition).keyword)
        places.switch(edition)
        Places(folder).sweep()
        return True


def being_built(places: Places) -> int:
    """Return the number of the edition that somebody builds just now; 0 where nobody does: what was
    begun and left is swept.
    """
    following = places.at(places.present + 1)
    return following.edition if following.made.exists() and is_held(places.rebuild) else 0


def _kept_facts(places: Places) -> dict[str, str]:
    """Return what is known of the model and of the folder, as far as that can be read."""
    try:
        with closing(Store(places.store, read_only=True)) as store:
            return {key: value for key in KEPT_FACTS if (value := store.meta(key))}
    except StorageError:
        return {}


# ------------------------------------------------------------------ what is deleted


_UNSWEPT = "unswept"
"""The file that stays among the vectors until what was to be deleted of them is deleted."""


def sweep_vectors(indexes: Path) -> bool:
    """Delete the vectors of texts that no index of this directory holds, from the log too; tell
    whether all of them are out.

    An index that cannot be read, or is not complete yet, counts as holding every text.
    """
    if not _mark_unswept(indexes):
        return True
    used: dict[str, set[bytes]] = {}
    for folder in sorted(indexes.iterdir()):
        places = Places(folder).at()
        if not places.store.exists():
            continue
        try:
            with closing(Store(places.store, read_only=True)) as store:
                if store.meta(BUILDING):
                    _LOG.info("Vectors are not swept: the index in %s is not complete yet.", folder)
                    return False
                used.setdefault(store.meta("fingerprint"), set()).update(store.texts())
        except StorageError as error:
            _LOG.info("Vectors are not swept: %s", error)
            return False
    swept = [_sweep(path, used) for path in sorted((indexes / VECTORS).glob("*.sqlite3"))]
    if all(swept):
        (indexes / VECTORS / _UNSWEPT).unlink(missing_ok=True)
        with suppress(OSError):  # there are vectors
            (indexes / VECTORS).rmdir()
    return all(swept)


def _mark_unswept(indexes: Path) -> bool:
    """Take note that vectors are to be swept; tell whether there are any."""
    if not (indexes / VECTORS).is_dir():
        return False
    with writing(indexes):
        (indexes / VECTORS / _UNSWEPT).touch()
        sync_folder(indexes / VECTORS)
    return True


def _sweep(path: Path, used: Mapping[str, set[bytes]]) -> bool:
    with closing(VectorStore.open(path)) as vectors:
        texts = used.get(fingerprint := vectors.fingerprint)
        vectors.remove(vectors.keys() - (texts or set()))
        with vectors.transaction():
            vectors.set_meta("swept", str(vectors.count()))
        is_clean = vectors.clean_log()
    if texts is None and fingerprint:
        with suppress(StorageError):  # no index is of this model; somebody may have the file open
            delete_database(path)
    return is_clean


def finish_sweep(indexes: Path) -> None:
    """Delete the vectors that were to be deleted and could not be."""
    if (indexes / VECTORS / _UNSWEPT).exists():
        sweep_vectors(indexes)


def delete_index(places: Places) -> None:
    """Delete one folder's index with the vectors that no other folder needs, the lock last; raise
    IndexBusyError where another process is writing.
    """

    def busy() -> None:
        raise IndexBusyError(
            f"The index in {places.folder} is being written by another process: try again "
            "when it is done."
        )

    if not places.folder.is_dir():
        return
    _mark_unswept(places.folder.parent)
    with writing(places.folder), locked(places.lock, busy):
        # Windows deletes no file that is open: what tells that there is an index goes last, so that
        # `forget` finds it again.
        present = places.at()
        if present.keyword.exists():
            shutil.rmtree(present.keyword)
        kept = (places.lock, *_signs_of_runs(places))
        for path in sorted(
            places.folder.iterdir(), key=lambda each: (each.is_file(), each == present.made)
        ):
            if path.name == ASKS:
                with suppress(OSError):  # a deleted file would tell its reader that it is answered
                    path.rmdir()
            elif path.is_dir():
                shutil.rmtree(path)
            elif path in kept:
                continue
            elif path.suffix == ".lock":
                # a server's, which stands for election anew: where it stays, it holds no word of
                # any note
                drop_lock(path)
            else:
                path.unlink(missing_ok=True)  # what was seen is written without a lock
        is_gone = drop_lock(places.lock)
    # another writer has begun there since: what it has open, or made, stays
    with suppress(OSError):
        if not is_gone:
            places.lock.unlink()
        places.folder.rmdir()
    with writing(places.folder.parent):  # what is forgotten does not come back after a power cut
        for each in filter(Path.is_dir, (places.folder, places.folder.parent)):
            sync_folder(each)
    if not sweep_vectors(places.folder.parent):
        _LOG.warning(
            "Vectors of %s may still lie in %s: another index there cannot be read, or is in use.",
            places.folder.name,
            places.folder.parent,
        )


def _signs_of_runs(places: Places) -> tuple[Path, ...]:
    """Return by what others see a run that goes on: it makes the index again, and is to be waited
    for.

    It holds no word of any note.
    """
    locks = (places.rebuild,), work_files(places.folder)
    return tuple(path for lock, *rest in locks if is_held(lock) for path in (lock, *rest))


def indexed_root(places: Places) -> Path | None:
    """Return the folder that an index was made of; None where there is no index, a damaged one's
    name where it cannot say.
    """
    if not places.store.is_file():
        return None
    try:
        with closing(Store(places.store, read_only=True)) as store:
            return Path(store.meta("root") or places.folder.name)
    except StorageError:
        return Path(places.folder.name)
