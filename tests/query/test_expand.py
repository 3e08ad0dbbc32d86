import numpy as np

from thumbindex.model import Term
from thumbindex.query.expansion import nearest_terms
from thumbindex.settings import ExpandSettings

VOCABULARY = ("money", "refund", "cash", "tree")
MATRIX = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)


def nearest(*asked: str, **keys: float) -> tuple[Term, ...]:
    return nearest_terms(asked, VOCABULARY, MATRIX, ExpandSettings(**keys))  # type: ignore[arg-type]


def test_the_nearest_terms_join_at_a_lower_weight() -> None:
    assert nearest("money", nearest=2) == (Term("refund", 0.1), Term("cash", 0.1))


def test_terms_below_the_similarity_stay_out() -> None:
    assert nearest("money", nearest=3, similarity=0.7) == (Term("refund", 0.1),)


def test_a_word_that_the_vocabulary_lacks_brings_none() -> None:
    assert nearest("unheard", nearest=3) == ()
