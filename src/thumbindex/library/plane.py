"""The door to scikit-learn: vectors laid out in the plane so that what is near stays near (t-SNE;
van der Maaten & Hinton 2008).

Run as a program it reads vectors on standard input and writes places on standard output: what takes
seconds is done beside a server, not in it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np

from thumbindex.ports import Matrix
from thumbindex.process import end_with_parent

FEWEST = 8
"""Notes that are laid out by their meaning: fewer stand in a circle."""

_PERPLEXITY = 20.0
"""Neighbors that each note is held near to, about."""

_JITTER = 1e-4
"""By which equal vectors are moved apart: t-SNE divides by their distance."""


def can_lay_out() -> bool:
    """Tell whether scikit-learn is there, without importing it."""
    return find_spec("sklearn") is not None


def plane(vectors: Matrix) -> Matrix:
    """Return places from -1 to 1, shape (n, 2), of unit vectors, shape (n, d); the same for the
    same.
    """
    count = len(vectors)
    if count < FEWEST:
        angles = 2 * np.pi * np.arange(count) / max(1, count)
        return np.asarray(
            0.7 * np.stack([np.cos(angles), np.sin(angles)], axis=1), dtype=np.float32
        )
    # Imported here: a server, and a command that finds the map laid out, do without its 60 MB.
    from sklearn.manifold import TSNE

    moved = vectors + np.random.default_rng(0).normal(0, _JITTER, vectors.shape)
    perplexity = min(_PERPLEXITY, (count - 1) / 3)
    tsne: Any = TSNE(
        2, perplexity=perplexity, init="pca", metric="cosine", random_state=0, n_jobs=1
    )
    return unit(np.asarray(tsne.fit_transform(moved.astype(np.float32)), dtype=np.float32))


def unit(places: Matrix) -> Matrix:
    """Return places around 0, nearly all of them from -1 to 1; those that lie far out are brought
    in.
    """
    centered = places - np.median(places, axis=0)
    reach = float(np.quantile(np.abs(centered), 0.99)) or 1.0
    return np.asarray(np.clip(centered / reach, -1.1, 1.1) / 1.1, dtype=np.float32)


def main() -> int:
    """Read the numbers of rows and columns in a line and the vectors behind it; write the
    places.
    """
    with suppress(OSError, AttributeError):
        os.nice(15)
    rows, columns = map(int, sys.stdin.buffer.readline().split())
    data = sys.stdin.buffer.read(4 * rows * columns)
    end_with_parent()
    found = plane(np.frombuffer(data, dtype=np.float32).reshape(rows, columns))
    sys.stdout.buffer.write(found.astype(np.float32).tobytes())
    sys.stdout.buffer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
