"""Reads a query and a passage together: token by token with the embedder's own vectors, or with a
cross-encoder.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from thumbindex.encode.embed import default_workers
from thumbindex.encode.models import locate, open_in_torch, require_extra
from thumbindex.errors import ModelError
from thumbindex.ports import Embedder, Matrix, Reranker, inner_products
from thumbindex.settings import RerankModelSettings

LATE_INTERACTION = "late-interaction"
TAKE_LATE_INTERACTION = (
    f"rerank without a further model with `--set encode.rerank.model={LATE_INTERACTION}`"
)

REMEMBERED_PASSAGES = 64
"""Passages whose token vectors are kept: at most 25 MB at 384 dimensions, and the passages of a
refined question are mostly the same.
"""


def open_reranker(settings: RerankModelSettings, embedder: Embedder, *, offline: bool) -> Reranker:
    """Open the reranker that is set; raise ModelError where its model cannot be had."""
    if settings.model == LATE_INTERACTION:
        return LateInteractionReranker(embedder)
    return CrossEncoderReranker(settings.model, offline=offline)


class LateInteractionReranker:
    """Scores by MaxSim (Khattab & Zaharia 2020, ColBERT) over an embedder's token vectors, all
    query tokens alike.
    """

    name = LATE_INTERACTION

    def __init__(self, embedder: Embedder) -> None:
        self._embed = embedder.embed_tokens
        self._remember = lru_cache(maxsize=REMEMBERED_PASSAGES)(embedder.embed_tokens)

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage for the query, in the passages' order: 0 to 1."""
        wanted = self._embed(query)
        with ThreadPoolExecutor(default_workers()) as pool:
            return [max_similarity(wanted, tokens) for tokens in pool.map(self._remember, passages)]


def max_similarity(query: Matrix, passage: Matrix) -> float:
    """Return the mean over the query's tokens of the highest cosine to a passage's token, 0 to 1; 0
    where either has none.
    """
    if not len(query) or not len(passage):
        return 0.0
    best = inner_products(query, passage).max(axis=1)
    return float(np.clip(best.mean(), 0.0, 1.0))


class CrossEncoderReranker:
    """Scores with a sentence-transformers CrossEncoder of one output, through a sigmoid."""

    def __init__(self, model: str, *, offline: bool) -> None:
        self.name = model
        require_extra(f"The reranker {model}")
        folder = locate(
            model, offline=offline, remedy=TAKE_LATE_INTERACTION, proof="config.json", torch=True
        )
        self._model = open_in_torch(
            "CrossEncoder",
            folder,
            f"reranker {model}",
            f"Name another, or {TAKE_LATE_INTERACTION}.",
        )
        if self._model.num_labels != 1:
            raise ModelError(
                f"{model} is no reranker: it has {self._model.num_labels} outputs, not one. "
                f"Name another, or {TAKE_LATE_INTERACTION}."
            )
        self._lock = threading.Lock()  # its tokenizer cannot be borrowed by two threads

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage for the query, in the passages' order: 0 to 1."""
        if not passages:
            return []
        from torch.nn import Sigmoid

        pairs = [(query, passage) for passage in passages]
        with self._lock:
            scores = self._model.predict(pairs, activation_fn=Sigmoid(), show_progress_bar=False)
        return [float(score) for score in scores]
