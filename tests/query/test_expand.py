import numpy as np

from thumbindex.model import Term
from thumbindex.query.expansion import nearest_terms
from thumbindex.settings import ExpandSettings

VOCABULARY = ("money", "refund", "cash", "tree")
MATRIX = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)


def nearest(*query_words: str, **keys: float) -> tuple[Term, ...]:
    return nearest_terms(query_words, VOCABULARY, MATRIX, ExpandSettings(**keys))  # type: ignore[arg-type]


def test_nearest_terms_are_added_at_lower_weight() -> None:
    assert nearest("money", nearest=2) == (Term("refund", 0.1), Term("cash", 0.1))


def test_terms_below_similarity_are_not_added() -> None:
    assert nearest("money", nearest=3, similarity=0.7) == (Term("refund", 0.1),)


def test_unknown_word_adds_no_terms() -> None:
    assert nearest("unheard", nearest=3) == ()
