"""Build the table of token vectors: `python scripts/build_table.py TARGET FOLDER...`.

Each folder is one source: Markdown, or prose in files that end with `.txt`. `ORIGINS.md` beside the
table lists the folders of the bundled one. The same folders always give the same bytes.

A text's vector is a sum of token vectors, so the best table is the solution of a linear least
squares problem. Conjugate gradients find it, and a penalty keeps rare tokens near a first table.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: the sums of several threads may differ

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thumbindex.corpus.parse import parse_document
from thumbindex.encode.embed import open_embedder
from thumbindex.encode.models import file_digest
from thumbindex.encode.provisional import TABLE_ROW, TokenCounter
from thumbindex.settings import CorpusSettings, EmbedSettings
from thumbindex.visible_text import embedded_text

TEXTS = 25_000
"""Maximum number of texts."""

TEXTS_PER_FILE = 12
"""Texts that are taken from a file before the next file is read."""

SUFFIXES = {".md", ".mdx", ".markdown", ".txt"}

COMMON = 1e-3
"""A token with this share of all tokens is halved in the first table."""

MAP_PENALTY = 10.0
"""Penalty of the linear map in the first table."""

PENALTY = np.float32(30)
"""Penalty of a token's distance from the first table."""

ROUNDS, STEPS = 2, 8
"""Rounds with new lengths of sums, and steps of the conjugate gradients in each."""

TINY = np.float32(1e-9)

Embed = Callable[[Sequence[str]], np.ndarray]
"""Returns the vectors of texts as rows."""


def read_texts(folders: Sequence[Path], count: int) -> list[str]:
    """Return at most `count` different texts, one of each folder in turn."""
    sources = [_texts_of(folder) for folder in folders]
    texts: dict[str, None] = {}
    while sources and len(texts) < count:
        for source in tuple(sources):
            text = next((text for text in source if text not in texts), None)
            if text is None:
                sources.remove(source)
            else:
                texts[text] = None
    return list(texts)[:count]


def _texts_of(folder: Path) -> Iterator[str]:
    """Yield the texts of a folder's chunks: some of each file, then the rest."""
    rng, rest, settings = random.Random(folder.name), [], CorpusSettings()
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    rng.shuffle(files)
    for path in files:
        content = path.read_bytes()
        if not _is_utf8(content):
            continue
        document = parse_document(path.relative_to(folder).as_posix(), content, settings)
        texts = [embedded_text(chunk.heading_path, chunk.text) for chunk in document.chunks]
        rng.shuffle(texts)
        yield from texts[:TEXTS_PER_FILE]
        rest += texts[TEXTS_PER_FILE:]
    rng.shuffle(rest)
    yield from rest


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def build_table(texts: Sequence[str], embed: Embed) -> np.ndarray:
    """Return the table, as it is stored, whose sums are near the vectors of the texts."""
    counter = TokenCounter()
    alone, vectors = embed(counter.vocabulary()), embed(texts)
    show("vectors of the model")
    weights = count_tokens(counter, texts)
    return pack(fit_table(weights, vectors, first_table(weights, vectors, alone)))


class Sparse(NamedTuple):
    """A sparse matrix. Row i has the columns and values from `starts[i]` to `starts[i + 1]`."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def __matmul__(self, dense: np.ndarray) -> np.ndarray:
        """Return the product with a dense matrix."""
        product = np.zeros((len(self.starts) - 1, dense.shape[1]), dtype=np.float32)
        for row, first, last in zip(product, self.starts[:-1], self.starts[1:], strict=True):
            np.dot(self.values[first:last], dense[self.columns[first:last]], out=row)
        return product

    def transposed(self, width: int) -> Sparse:
        """Return the transposed matrix, which has `width` rows."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        sizes = np.bincount(self.columns, minlength=width)
        return Sparse(np.append(0, np.cumsum(sizes)), rows[order], self.values[order])

    def scaled(self, factors: np.ndarray) -> Sparse:
        """Return the matrix with each row multiplied by its factor."""
        return self._replace(values=self.values * np.repeat(factors, np.diff(self.starts)))


def count_tokens(counter: TokenCounter, texts: Sequence[str]) -> Sparse:
    """Return the weight of each token in each text."""
    rows = [counter.weights(text) for text in texts]
    tokens, weights = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return Sparse(np.append(0, np.cumsum([len(row) for row, _ in rows])), tokens, weights)


def first_table(weights: Sparse, vectors: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """Return a table that is not fitted to single tokens.

    It has the model's vectors of the tokens alone. Common tokens are scaled down, and one linear
    map brings the sums near the vectors of texts.
    """
    shares = np.bincount(weights.columns, weights.values, minlength=len(alone))
    shares /= shares.sum()
    scales = (COMMON / (COMMON + shares)).astype(np.float32)
    table = (alone - alone.mean(axis=0)) * scales[:, None]
    sums = unit(weights @ table)
    square = sums.T @ sums + MAP_PENALTY * np.eye(sums.shape[1], dtype=np.float32)
    table = table @ np.linalg.solve(square, sums.T @ vectors)
    return table / np.linalg.norm(weights @ table, axis=1).mean()


def fit_table(weights: Sparse, vectors: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return a table near the first one, with sums in the directions of the vectors."""
    table = first
    for _ in range(ROUNDS):
        sums = weights @ table
        # the factor that brings a sum nearest to its vector
        factors = (sums * vectors).sum(axis=1) / np.maximum((sums**2).sum(axis=1), TINY)
        table = descend(weights.scaled(np.maximum(factors, 0)), vectors, table, first)
    return table


def descend(
    weights: Sparse, vectors: np.ndarray, table: np.ndarray, first: np.ndarray
) -> np.ndarray:
    """Return the table after some steps of conjugate gradients, for each dimension by itself.

    They reduce `|weights @ table - vectors|² + PENALTY * |table - first|²`.
    """
    columns = weights.transposed(len(table))
    sizes = np.bincount(weights.columns, weights.values**2, minlength=len(table))
    preconditioner = (1 / (sizes + PENALTY)).astype(np.float32)[:, None]
    residual = columns @ (vectors - weights @ table) - PENALTY * (table - first)
    scaled = preconditioner * residual
    direction, size = scaled, (residual * scaled).sum(axis=0)
    for _ in range(STEPS):
        image = columns @ (weights @ direction) + PENALTY * direction
        step = size / np.maximum((direction * image).sum(axis=0), TINY)
        table = table + step * direction
        residual = residual - step * image
        scaled = preconditioner * residual
        last, size = size, (residual * scaled).sum(axis=0)
        direction = scaled + size / np.maximum(last, TINY) * direction
    return table


def pack(table: np.ndarray) -> np.ndarray:
    """Return the table as it is stored: int8, with one scale for each row."""
    packed = np.zeros(len(table), dtype=TABLE_ROW)
    scales = np.abs(table).max(axis=1, keepdims=True) / 127
    packed["scale"] = scales[:, 0]
    packed["vector"] = np.rint(table / np.maximum(scales, TINY))
    return packed


def unit(rows: np.ndarray) -> np.ndarray:
    """Return the rows with length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY)


def show(step: str) -> None:
    """Print a finished step, with the wall and processor time so far."""
    wall, processor = time.perf_counter() - STARTED, time.process_time()
    print(f"{wall:4.0f} s, {processor:4.0f} s of processor time: {step}", flush=True)


STARTED = time.perf_counter()

if __name__ == "__main__":
    sources = [Path(folder) for folder in sys.argv[2:]]
    found = read_texts(sources, TEXTS)
    show(f"{len(found):,} texts of {len(sources)} folders")
    model = open_embedder(EmbedSettings(), offline=True)
    np.save(sys.argv[1], build_table(found, model.embed_passages))
    show(f"fitted, {file_digest(Path(sys.argv[1]))}")
