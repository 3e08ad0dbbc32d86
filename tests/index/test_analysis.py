"""Stems, and highlighting of a query's terms in a text."""

import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from whoosh.lang.porter2 import stem as porter2

from thumbindex.index.analysis import highlight_spans, stem
from thumbindex.model import Term
from thumbindex.text import words


def highlighted(text: str, *terms: Term | str, languages: tuple[str, ...] = ()) -> list[str]:
    spans = highlight_spans(
        text, [term if isinstance(term, Term) else Term(term) for term in terms], languages
    )
    return [text[start:end] for start, end in spans]


def test_highlighting_ignores_endings_and_case() -> None:
    assert highlighted("Ada decided. Deciding is hard; a decade is long.", "decide") == [
        "decided",
        "Deciding",
    ]


def test_highlighting_ignores_composed_and_decomposed_accents() -> None:
    assert highlighted("Two cafés, one cafe.", "café") == ["cafés", "cafe"]
    decomposed = unicodedata.normalize("NFD", "Two cafés, one cafe.")
    assert highlighted(decomposed, "café") == [unicodedata.normalize("NFD", "cafés"), "cafe"]


def test_words_of_a_phrase_are_adjacent() -> None:
    assert highlighted("To be or not to be: that is to see.", Term("to be", phrase=True)) == [
        "To be",
        "to be",
    ]


@pytest.mark.parametrize("name", ["parse_json", "--dry-run"])
def test_identifier_is_highlighted_as_a_whole(name: str) -> None:
    assert highlighted(f"Call {name} here; {name}x is another.", name)[0] == name


def test_endings_of_the_indexs_languages_are_ignored() -> None:
    assert highlighted("Die Häuser am Fluss", "haus", languages=("de",)) == ["Häuser"]


def test_stop_word_is_no_form_of_a_word_of_another_language() -> None:
    assert highlighted("Themes, and try them.", "theme", languages=("de",)) == ["Themes"]


def test_chinese_is_highlighted_by_character_pairs() -> None:
    assert highlighted("我们选择数据库。", "数据", "据库") == ["数据库"]


def test_spans_are_ordered_and_never_overlap() -> None:
    text = "parse_json parses json: json.parse"
    spans = highlight_spans(text, [Term(word) for word in ("parse", "json", "parse_json")], ())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert text[slice(*spans[0])] == "parse_json"


def test_words_that_skip_the_stemmer_are_their_own_stems() -> None:
    docs = Path(__file__).parents[2].glob("docs/**/*.md")
    vocabulary = {word for path in docs for word in words(path.read_text("utf-8"))}
    assert len(vocabulary) > 1_000
    assert {word for word in vocabulary if stem(word) != porter2(word)} == set()
