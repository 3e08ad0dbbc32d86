"""Reads a query and a passage together, with a cross-encoder."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from thumbindex.encode.models import locate, open_in_torch, require_extra
from thumbindex.errors import ModelError

LEAVE_OUT = "leave `rerank` out with `query.skip`"


class CrossEncoderReranker:
    """Scores with a sentence-transformers CrossEncoder of one output, through a sigmoid."""

    def __init__(self, model: str, *, offline: bool) -> None:
        if model in {"", "late-interaction"}:  # the latter was the default, without a model
            raise ModelError(
                "The stage `rerank` needs a model: name a CrossEncoder in `encode.rerank.model`, "
                f"or {LEAVE_OUT}."
            )
        self.name = model
        require_extra(f"The reranker {model}")
        folder = locate(model, offline=offline, remedy=LEAVE_OUT, proof="config.json", torch=True)
        self._model = open_in_torch(
            "CrossEncoder",
            folder,
            f"reranker {model}",
            f"Name another, or {LEAVE_OUT}.",
        )
        if self._model.num_labels != 1:
            raise ModelError(
                f"{model} is no reranker: it has {self._model.num_labels} outputs, not one. "
                f"Name another, or {LEAVE_OUT}."
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
