"""What other processes do with the same folders: who keeps them up to the disk, how far that is, and waiting for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from thumbindex.index.at_work import Work, at_work, work_in
from thumbindex.index.locking import is_held, is_writing
from thumbindex.library.folders import Folder
from thumbindex.model import Progress

Tell = Callable[[Progress], None]

_POLL_SECONDS = 0.1


@contextmanager
def announced(folders: Sequence[Folder], tell: Tell) -> Iterator[Tell]:
    """Let other processes see a run over these folders; what this gives tells them how far it is, and whoever is to be told here, too."""
    with ExitStack() as runs:
        told = {folder.name: runs.enter_context(at_work(folder.places.folder)) for folder in folders}
        places = {folder.name: folder.places.folder for folder in folders}

        def tell_all(progress: Progress) -> None:
            if progress.phase == "waiting":
                work = work_in(places[progress.folder])
                progress = replace(progress, pid=work.pid if work and _is_anothers(work) else 0)
            else:
                told[progress.folder](progress.phase, progress.done, progress.total)
            tell(progress)

        yield tell_all


def await_others(folder: Folder, tell: Tell, interrupted: Callable[[], bool], *, words_only: bool) -> None:
    """Wait for the run that another process has going in a folder, as far as it does what is to be done here: nothing is done twice."""
    begun = work = work_in(folder.places.folder)
    while begun and work and _is_anothers(work) and work.run == begun.run and not interrupted():
        if words_only and work.phase == "vectors":
            return
        tell(Progress(folder.name, "waiting", work.done, work.total, work.pid))
        time.sleep(_POLL_SECONDS)
        work = work_in(folder.places.folder)


def progress_of(folder: Folder) -> Progress | None:
    """Return how far whoever indexes a folder is, in this process or another; None where nobody does."""
    work = work_in(folder.places.folder)
    return Progress(folder.name, work.phase, work.done, work.total, work.pid) if work else None


def is_tended(folder: Folder) -> bool:
    """Tell whether a process writes a folder's index, or watches the folder to do so."""
    return is_writing(folder.places.lock) or is_held(folder.places.watch) or work_in(folder.places.folder) is not None


def _is_anothers(work: Work) -> bool:
    return work.pid != os.getpid()
