import pytest

from thumbindex.model import Term
from thumbindex.query.understand import code_terms, is_identifier, keyword_terms


def test_keyword_terms_are_unique_without_stop_words() -> None:
    assert keyword_terms("How do I sync, and how often does sync run?") == (
        Term("sync"),
        Term("often"),
        Term("run"),
    )


def test_stop_words_count_if_they_are_all() -> None:
    assert keyword_terms("what is this") == (Term("what"), Term("is"), Term("this"))


def test_weak_word_has_low_weight() -> None:
    assert keyword_terms("the old sync", {"the": 0.0, "old": 0.25}) == (
        Term("old", 0.25),
        Term("sync"),
    )


def test_quoted_phrase_is_one_term() -> None:
    assert keyword_terms("“live preview” mode") == (Term("mode"), Term("live preview", phrase=True))


def test_korean_syllable_is_also_looked_up_without_particle() -> None:
    assert keyword_terms("책을 데이터를") == (
        Term("책을"),
        Term("데이"),
        Term("이터"),
        Term("터를"),
        Term("책", 0.5),
    )


def test_whole_identifier_outweighs_its_parts() -> None:
    expected = (
        Term("getuserbyid", 3.0),
        *(Term(part, 0.25) for part in ("get", "user", "by", "id")),
        Term("fails"),
    )
    assert code_terms("getUserById fails", 3.0) == expected


@pytest.mark.parametrize(
    "token", ["parse_json", "getUserById", "--force", "a::b", "1.13.5", "E0308", "{%"]
)
def test_code_is_an_identifier(token: str) -> None:
    assert is_identifier(token)


@pytest.mark.parametrize("token", ["GitHub", "e.g", "PDFs", "to-do", "well-known", "and/or"])
def test_brands_and_hyphenated_words_are_not_identifiers(token: str) -> None:
    assert not is_identifier(token)
