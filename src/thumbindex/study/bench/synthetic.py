"""A model for a hundred thousand chunks: it gives passages random vectors, and leaves questions to a real one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thumbindex.ports import Embedder, Matrix, Vector
from thumbindex.study.duplicates import RandomEmbedder


class SyntheticEmbedder(RandomEmbedder):
    """Random unit vectors for passages, always the same for the same text; what a question costs is what the real model takes."""

    name, fingerprint = "synthetic", "synthetic-384"

    def __init__(self, real: Embedder) -> None:
        self._real = real
        self.dimensions = real.dimensions

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Return a random vector a text: shape (len(texts), dimensions)."""
        return np.stack([RandomEmbedder.embed_query(self, text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the real model's vector."""
        return self._real.embed_query(text)

    def embed_tokens(self, text: str) -> Matrix:
        """Return the real model's vectors, a token each."""
        return self._real.embed_tokens(text)
