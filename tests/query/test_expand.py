import numpy as np

from fakes import FakeEmbedder
from thumbindex.model import Term
from thumbindex.query.understand import nearest_terms, term_vectors
from thumbindex.settings import ExpandSettings

VOCABULARY = ("money", "refund", "cash", "tree")
MATRIX = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)


def nearest(*asked: str, **keys: float) -> tuple[Term, ...]:
    rows = term_vectors(asked, VOCABULARY, MATRIX, None)
    return nearest_terms(asked, rows, VOCABULARY, MATRIX, ExpandSettings(**keys))  # type: ignore[arg-type]


def test_the_nearest_terms_join_at_a_lower_weight() -> None:
    assert nearest("money", nearest=2) == (Term("refund", 0.1), Term("cash", 0.1))


def test_terms_below_the_similarity_stay_out() -> None:
    assert nearest("money", nearest=3, similarity=0.7) == (Term("refund", 0.1),)


def test_an_unknown_word_is_embedded_where_there_is_a_model() -> None:
    embedder = FakeEmbedder(2)
    with_model, without = (
        term_vectors(["unheard"], VOCABULARY, MATRIX, model) for model in (embedder, None)
    )
    assert (with_model == embedder.embed_passages(["unheard"])).all()
    assert np.isnan(without).all()
