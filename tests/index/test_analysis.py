"""Where a text is found by a query's words, to be marked."""

import unicodedata
from itertools import pairwise

import pytest

from thumbindex.index.analysis import highlight_spans
from thumbindex.model import Term


def marked(text: str, *terms: Term | str, languages: tuple[str, ...] = ()) -> list[str]:
    found = highlight_spans(
        text, [term if isinstance(term, Term) else Term(term) for term in terms], languages
    )
    return [text[start:end] for start, end in found]


def test_endings_and_capitals_are_no_difference() -> None:
    assert marked("Ada decided. Deciding is hard; a decade is long.", "decide") == [
        "decided",
        "Deciding",
    ]


def test_accents_are_none_however_they_are_written() -> None:
    assert marked("Two cafés, one cafe.", "café") == ["cafés", "cafe"]
    apart = unicodedata.normalize("NFD", "Two cafés, one cafe.")
    assert marked(apart, "café") == [unicodedata.normalize("NFD", "cafés"), "cafe"]


def test_words_of_a_phrase_stand_one_after_the_other() -> None:
    assert marked("To be or not to be: that is to see.", Term("to be", phrase=True)) == [
        "To be",
        "to be",
    ]


@pytest.mark.parametrize("name", ["parse_json", "--dry-run"])
def test_an_identifier_is_marked_whole(name: str) -> None:
    assert marked(f"Call {name} here; {name}x is another.", name)[0] == name


def test_another_languages_endings_are_known_where_the_index_has_it() -> None:
    assert marked("Die Häuser am Fluss", "haus", languages=("de",)) == ["Häuser"]


def test_chinese_is_marked_by_pairs_of_characters() -> None:
    assert marked("我们选择数据库。", "数据", "据库") == ["数据库"]


def test_marks_come_in_order_and_never_overlap() -> None:
    text = "parse_json parses json: json.parse"
    found = highlight_spans(text, [Term(each) for each in ("parse", "json", "parse_json")], ())
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert text[slice(*found[0])] == "parse_json"
