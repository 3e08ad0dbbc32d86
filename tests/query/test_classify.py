import pytest

from fakes import MemoryCatalog, document
from thumbindex.model import QueryKind
from thumbindex.query.match_names import find_by_reference
from thumbindex.query.understand import kind_of

FACTUAL, NAVIGATIONAL, EXPLORATORY = (
    QueryKind.FACTUAL,
    QueryKind.NAVIGATIONAL,
    QueryKind.EXPLORATORY,
)
NOTES = MemoryCatalog(
    [document("help/Unique notes.md", "# Unique note creator", aliases=("Zettelkasten prefixer",))]
)


@pytest.mark.parametrize(
    "text",
    [
        "setSpellCheckerLanguages",
        "what does --site do",
        "`retry`",
        "release 1.13.5",
        "error E0308",
        'the "daily note" action',
        "84,210",
        "who was called on 2026-01-06?",
    ],
)
def test_identifiers_numbers_and_quotes_are_factual(text: str) -> None:
    assert kind_of(text, bool(find_by_reference(text, NOTES))) is FACTUAL


@pytest.mark.parametrize(
    "text",
    ["see the Style guide", "[[Some note]]", "introduction to bases", "where is the sync section"],
)
def test_part_of_documentation_is_navigational(text: str) -> None:
    assert kind_of(text, bool(find_by_reference(text, NOTES))) is NAVIGATIONAL


@pytest.mark.parametrize(
    "text", ["unique note creator", "zettelkasten-prefixer", "help/unique notes"]
)
def test_document_name_is_navigational(text: str) -> None:
    assert kind_of(text, bool(find_by_reference(text, NOTES))) is NAVIGATIONAL


@pytest.mark.parametrize(
    "text",
    [
        "how do I stop a folder from being uploaded",
        "what happens to attachments, e.g. pictures, when I move a note",
        "what was decided about the website in 2026",
        "top 10 tips for 3 people",
        "",
    ],
)
def test_plain_questions_are_exploratory(text: str) -> None:
    assert kind_of(text, bool(find_by_reference(text, NOTES))) is EXPLORATORY


def test_bare_word_that_notes_have_is_weighed_as_a_fact(ask) -> None:
    notes = [document("a.md", "# Notes\n\nThe prefixer names notes, `as_code`.")]
    weighed = {
        text: ask(notes, text)[0].weight_factors for text in ("prefixer", "gnomes", "as_code")
    }
    assert weighed["prefixer"] == weighed["as_code"] != weighed["gnomes"]
