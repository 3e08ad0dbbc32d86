"""What is measured: a folder with its index, and how to open others beside it.

Nothing is written into the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from thumbindex.encode.embed import open_embedder
from thumbindex.encode.models import BUNDLED_NAMES
from thumbindex.library import Library
from thumbindex.library.reader import Reader
from thumbindex.model import Chunk, ChunkId
from thumbindex.ports import Embedder, Matrix, Vector
from thumbindex.process import offline
from thumbindex.serve.opening import Opening
from thumbindex.testing import FakeEmbedder
from thumbindex.text import visible
from weights import published_weights

TRUSTED_SECONDS = 2.1
"""A file that was written less long ago is read again, whatever its time says."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A folder with its index."""

    opening: Opening
    scratch: Path  # a folder for what a measurement makes
    given: argparse.Namespace  # the options of the command line
    embedder: Embedder | None = None  # a test's, in place of the configured one

    @property
    def folder(self) -> Path:
        return Path(*self.opening.folder)

    @property
    def arguments(self) -> list[str]:
        """A server's options."""
        return self.opening.arguments()

    def open(self, *overrides: str, embedder: Embedder | None = None) -> Library:
        """Open the folder, by another model where one is given."""
        opening, model = Opening(overrides=overrides).over(self.opening), embedder or self.embedder
        return Library.open(
            opening.folder,
            index=opening.index,
            config=opening.load(),
            embedder=model,
            wait_for_models=False,
        )

    def at(self, folder: Path, index: Path, *overrides: str) -> Subject:
        """Return another folder with its index in another place, and the same options else."""
        return replace(
            self, opening=Opening((str(folder),), index, None, overrides).over(self.opening)
        )

    def empty(self, name: str) -> Path:
        """Make an empty folder."""
        made = self.scratch / f"{name} {len(list(self.scratch.iterdir()))}"
        made.mkdir()
        return made

    def model(self) -> Embedder:
        """Open the model that new indexes are made with, by itself."""
        return self.embedder or open_embedder(self.opening.load().encode.embed, offline=offline())

    def model_in_torch(self) -> Embedder:
        """Open it in torch, the bundled one from the published weights where they are installed."""
        settings = self.opening.load().encode.embed
        weights = published_weights() if settings.model in BUNDLED_NAMES else None
        named = replace(
            settings, runtime="torch", model=str(weights) if weights else settings.model
        )
        return self.embedder or open_embedder(named, offline=offline())

    def chunks(self, most: int = sys.maxsize) -> list[tuple[str, Chunk]]:
        """Return every chunk with its document's title, in the order of paths; every so manieth
        where there are more than `most`.
        """
        with self.open() as library, closing(Reader(library.opened[0])) as reader:
            catalog = reader.snapshot().catalog
            found = catalog.chunks(
                [ChunkId(n) for n in range(0, len(catalog), 1 + len(catalog) // most)]
            )
            return [
                (catalog.documents[catalog.document_of(n)].title, found[n]) for n in sorted(found)
            ]

    def texts(self) -> list[tuple[str, str]]:
        """Return path and text of every note."""
        with self.open() as library:
            return [
                (entry.path, (self.folder / entry.path).read_text("utf-8", "replace"))
                for entry in library.outline()
            ]

    def copy_some(self, most_bytes: int) -> Path:
        """Copy notes, the same each time, to a folder of their own until they have so many bytes;
        at least one.

        Return the folder.
        """
        with self.open() as library:
            paths = sorted(entry.path for entry in library.outline())
        random.Random(1).shuffle(paths)
        target, size = self.empty("notes"), 0
        for path in paths:
            length = (self.folder / path).stat().st_size
            if not size or size + length <= most_bytes:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / path, target / path)
                size += length
        return target


class RandomEmbedder(FakeEmbedder):
    """Gives each passage a random unit vector, the same for the same text, and each question the
    real model's where there is one.

    What is compared, and embedded for a question, costs as much as in earnest; what is alike is
    found by chance.
    """

    def __init__(self, real: Embedder | None = None) -> None:
        super().__init__(real.dimensions if real else 384)
        self._real = real

    def embed_query(self, text: str) -> Vector:
        return self._real.embed_query(text) if self._real else self._embed(text)

    def embed_tokens(self, text: str) -> Matrix:
        return self._real.embed_tokens(text) if self._real else self._embed(text)[None]

    def _embed(self, text: str) -> Vector:
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        vector = np.random.default_rng(seed).standard_normal(self.dimensions, dtype=np.float32)
        unit: Vector = vector / np.linalg.norm(vector)
        return unit


def draw_questions(chunks: Sequence[tuple[str, Chunk]], wanted: int) -> list[str]:
    """Draw questions, the same each time: a title, a heading and three to eight words of a chunk by
    turns; each once where there are enough.
    """
    chance = random.Random(1)
    found: dict[str, None] = {}
    for number in range(20 * wanted):  # a few titles may be all there are
        title, chunk = chance.choice(chunks)
        words = visible(chunk.text).split()
        start = chance.randrange(max(1, len(words) - 3))
        phrase = " ".join(words[start : start + chance.randint(3, 8)])
        found |= dict.fromkeys(
            each for each in [(title, chunk.heading_path[-1], phrase)[number % 3].strip()] if each
        )
        if len(found) == wanted:
            break
    drawn = list(found)
    return [drawn[n % len(drawn)] for n in range(wanted)]


def program(module: str, options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs a module of the tests in a process of its own, and its
    environment.
    """
    # -P: the working directory may be a vault, whose files must never be imported. Threads: as in a
    # server.
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
    )
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return [sys.executable, "-P", "-m", module, *options], {
        **one_thread,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
    }


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
