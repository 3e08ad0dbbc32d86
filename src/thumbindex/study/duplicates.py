"""What it costs to look for duplicates: of a whole vault, and of a note that is edited; random vectors stand for a model's."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from thumbindex.library.embedding import embed_group
from thumbindex.library.looking import look_at_new
from thumbindex.library.reader import Reader
from thumbindex.model import Progress
from thumbindex.ports import Matrix, Vector
from thumbindex.study.vault import make_vault, note_path

if TYPE_CHECKING:
    from thumbindex.library import Library

COPIED = 0.2
"""Share of the notes that hold sections of another one."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Seconds that looking for duplicates took: at all chunks, and after each edit of a note."""

    chunks: int
    pairs: int
    whole: float
    edits: tuple[float, ...]


class RandomEmbedder:
    """Gives each text a random unit vector, always the same: what is alike is found by its words, and what comparing costs is the same."""

    name, fingerprint, dimensions, window = "random", "random-384", 384, 256

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Return a vector a text: shape (len(texts), 384)."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return a text's vector."""
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        vector = np.random.default_rng(seed).standard_normal(self.dimensions, dtype=np.float32)
        unit: Vector = vector / np.linalg.norm(vector)
        return unit

    def embed_tokens(self, text: str) -> Matrix:
        """Return the text's vector alone."""
        return self.embed_query(text)[None]

    def knows(self, word: str) -> bool:
        """Return False: words mean nothing to it."""
        return False

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return 0."""
        return 0


Open = Callable[[RandomEmbedder, Sequence[str]], "Library"]
"""Opens the vault with a model and settings."""


def measure_looks(root: Path, notes: int, characters: int, edits: int, open_library: Open, tell: Callable[[Progress], None]) -> Looks:
    """Fill `root` with notes of which some copy others, index them without looking for duplicates, then look; edit notes and look again."""
    author = make_vault(root, notes, characters)
    chosen = random.Random(2)
    for number in chosen.sample(range(notes), round(notes * COPIED)):
        _copy_section(note_path(root, chosen.randrange(notes)), note_path(root, number))
    embedder = RandomEmbedder()
    with open_library(embedder, ("index.ingest.enabled=false", "index.duplicates.enabled=false")) as library:
        chunks = library.index(progress=tell).chunks
    with open_library(embedder, ()) as library:
        (folder,) = library.opened
        whole = _timed(lambda: look_at_new(folder))
        delays = []
        for number in chosen.choices(range(notes), k=edits):
            note_path(root, number).write_text(author.write_note(number, notes, characters), encoding="utf-8")
            library.index(words_only=True)
            with closing(Reader(folder)) as reader:
                pending = reader.store.pending(embedder.fingerprint)
            embed_group(folder, embedder, pending, last=True)
            delays.append(_timed(lambda: look_at_new(folder)))
        with closing(Reader(folder)) as reader:
            return Looks(chunks, len(reader.store.alike()), whole, tuple(delays))


def _copy_section(source: Path, target: Path) -> None:
    """Put a section of one note at the end of another."""
    section = source.read_text(encoding="utf-8").split("\n## ")[-1]
    target.write_text(f"{target.read_text(encoding='utf-8')}\n## {section}", encoding="utf-8")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
