"""Stage expand: the corpus's own terms that are nearest in meaning to the query's words join the keyword query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thumbindex.model import Term
from thumbindex.ports import Embedder, Matrix
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import ExpandSettings


def expand(search: Search, tools: Tools) -> Search:
    """Add the nearest terms of the vocabulary at a lower weight; without a vocabulary, add none."""
    if tools.snapshot.vocabulary is None:
        return search
    vocabulary, matrix = tools.snapshot.vocabulary
    asked = [term.text for term in search.terms if not term.phrase]
    rows = term_vectors(asked, vocabulary, matrix, tools.embedder)
    added = nearest_terms(asked, rows, vocabulary, matrix, tools.settings.expand)
    return replace(search, terms=(*search.terms, *added))


def term_vectors(asked: Sequence[str], vocabulary: Sequence[str], matrix: Matrix, embedder: Embedder | None) -> Matrix:
    """Return a vector a word, shape (words, dimensions): the stored one, else the embedder's, else NaN."""
    stored = {term: row for row, term in enumerate(vocabulary)}
    vectors = np.full((len(asked), matrix.shape[1]), np.nan, dtype=np.float32)
    missing = [at for at, word in enumerate(asked) if word not in stored]
    for at, word in enumerate(asked):
        if word in stored:
            vectors[at] = matrix[stored[word]]
    if missing and embedder is not None:
        vectors[missing] = embedder.embed_passages([asked[at] for at in missing])
    return vectors


def nearest_terms(asked: Sequence[str], rows: Matrix, vocabulary: Sequence[str], matrix: Matrix, settings: ExpandSettings) -> tuple[Term, ...]:
    """Return, for each word in turn, the nearest terms by cosine that are not there yet; ties in the vocabulary's order."""
    found = dict.fromkeys(asked)
    for cosines in np.nan_to_num(rows @ matrix.T, nan=-1.0):
        near = (int(n) for n in np.argsort(-cosines, kind="stable")[: settings.nearest + len(found)] if cosines[n] >= settings.similarity)
        fresh = [vocabulary[n] for n in near if vocabulary[n] not in found]
        found.update(dict.fromkeys(fresh[: settings.nearest]))
    return tuple(Term(word, settings.weight) for word in list(found)[len(dict.fromkeys(asked)) :])
