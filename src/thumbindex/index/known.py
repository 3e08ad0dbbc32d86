"""What an index knows of the files, as it was at one moment: what a walk through the folder is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from thumbindex.index.snapshot import Places
from thumbindex.index.store import Store
from thumbindex.index.withheld import Withheld, is_wiped, read_withheld
from thumbindex.index.words import KeywordView
from thumbindex.model import FileState, Problem


@dataclass(frozen=True, slots=True)
class Known:
    """The manifest, and whether anything was left undone."""

    manifest: Mapping[str, FileState]
    corpus: str  # how the files were cut
    problems: frozenset[Problem]  # about files that are no documents
    is_settled: bool  # links are resolved, the keyword view shows every row, and nothing is left to be wiped
    generation: int  # in which all this was so
    withheld: Withheld = field(default_factory=Withheld)  # files that were read and are private: nothing else is kept of them

    def is_complete(self, problems: Sequence[Problem]) -> bool:
        """Tell whether nothing is left to do for words where no file differs: problems as they were, nothing left undone."""
        return self.is_settled and self.problems == set(problems)


def read_known(places: Places) -> Known:
    """Read it without the writer's lock; raises StorageError where there is no index, or none that can be read."""
    with closing(Store(places.store, read_only=True)) as store:
        return known_of(store, places)


def known_of(store: Store, places: Places) -> Known:
    """Read it from an open store."""
    with store.reading():
        manifest = store.manifest()
        problems = frozenset(problem for problem in store.problems() if problem.path not in manifest)
        shown = KeywordView(places.keyword).is_whole(int(store.meta("words", "0")))
        settled = shown and store.meta("links") == "resolved" and is_wiped(store)
        return Known(manifest, store.meta("corpus"), problems, settled, store.generation, read_withheld(store))
