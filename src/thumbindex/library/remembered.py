"""Models that remember what they were asked: the same questions under other settings are read once."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.ports import Embedder, Matrix, Reranker, Vector


class RememberedQueries(Embedder):
    """An Embedder that embeds each query once, for as long as it lives."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return self._embedder.name

    @property
    def fingerprint(self) -> str:
        """What must be equal for vectors to be comparable."""
        return self._embedder.fingerprint

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        return self._embedder.dimensions

    @property
    def window(self) -> int:
        """The most tokens that the model reads of a text."""
        return self._embedder.window

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts that are searched."""
        return self._embedder.embed_passages(texts)

    def embed_query(self, text: str) -> Vector:
        """Return a query's vector, the one of before where it was asked for before."""
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]

    def embed_tokens(self, text: str) -> Matrix:
        """Return one vector a token."""
        return self._embedder.embed_tokens(text)

    def knows(self, word: str) -> bool:
        """Tell whether a word is one token of the model's vocabulary."""
        return self._embedder.knows(word)

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than the window."""
        return self._embedder.count_truncated(texts)


class RememberedScores(Reranker):
    """A Reranker that reads each query with each passage once, for as long as it lives."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._known: dict[tuple[str, str], float] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return self._reranker.name

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage for the query; those that were scored before are not read again."""
        new = [text for text in dict.fromkeys(passages) if (query, text) not in self._known]
        if new:
            scores = self._reranker.score(query, new)
            self._known.update({(query, text): score for text, score in zip(new, scores, strict=True)})
        return [self._known[query, text] for text in passages]
