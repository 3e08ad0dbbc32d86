"""What is measured: a folder with an index, and how to open others beside it; nothing is written into the folder."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from thumbindex.library import Library
from thumbindex.library.reader import Reader
from thumbindex.model import Chunk, ChunkId, Progress
from thumbindex.ports import Catalog, Embedder
from thumbindex.study.bench.row import Row


@dataclass(frozen=True, slots=True)
class Where:
    """A folder and the directory of its index; no directory is the one that the caller's options name."""

    folder: Path
    index: Path | None = None
    overrides: tuple[str, ...] = ()


class Open(Protocol):
    """Opens a folder as the caller's options say, by a model that is given or by the configured one."""

    def __call__(self, where: Where, embedder: Embedder | None = None) -> Library:
        """Return the library."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What every measurement is given."""

    where: Where  # with an index that is complete
    rounds: int
    scratch: Path  # an empty folder for what a measurement makes
    open: Open
    arguments: Callable[[Where], Sequence[str]]  # of a server
    tell: Callable[[Progress], None]
    most_chunks: int = 10_000  # of what is grown

    def begin(self, name: str) -> Path:
        """Make an empty folder."""
        made = self.scratch / f"{name} {len(list(self.scratch.iterdir()))}"
        made.mkdir()
        return made


TRUSTED_SECONDS = 2.1
"""A file that was written less long ago is read again, whatever its time says."""


Measure = Callable[[Subject], tuple[Row, ...]]
"""Measures one thing: a row a figure."""


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def read_chunks(library: Library) -> tuple[tuple[str, Chunk], ...]:
    """Return every chunk of the first folder with its document's title, in the order of paths."""
    (folder, *_) = library.opened
    with closing(Reader(folder)) as reader:
        catalog = reader.snapshot().catalog
        every = [ChunkId(n) for n in range(len(catalog))]
        found = catalog.chunks(every)
        return tuple((_title(catalog, n), found[n]) for n in every)


def _title(catalog: Catalog, chunk: ChunkId) -> str:
    return catalog.documents[catalog.document_of(chunk)].title


def copy_some(subject: Subject, most_bytes: int, seed: int = 1) -> Path:
    """Copy notes of the folder, drawn by the seed, to a folder of their own until they have so many bytes; return it."""
    with subject.open(subject.where) as library:
        paths = sorted(entry.path for entry in library.outline())
    random.Random(seed).shuffle(paths)
    target, size = subject.begin("notes"), 0
    for path in paths:
        source = subject.where.folder / path
        length = source.stat().st_size
        if size and size + length > most_bytes:
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / path)
        size += length
    return target
