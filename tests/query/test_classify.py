import pytest

from thumbindex.model import QueryKind
from thumbindex.query.names import documents_named
from thumbindex.query.understand import FACTORS, kind_of
from thumbindex.testing import MemoryCatalog, document

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
        "decode_uri filter",
        "what does --site do",
        "`retry`",
        "release 1.13.5",
        "error E0308",
        'the "daily note" action',
        "GraphQL",
        "84,210",
        "policy 77120",
        "who was called on 2026-01-06?",
        "did the car have 84,210 km at its last service?",
        "budget 2026",
    ],
)
def test_what_must_be_found_as_written_is_factual(text: str) -> None:
    assert kind_of(text, bool(documents_named(text, NOTES))) is FACTUAL


@pytest.mark.parametrize(
    "text",
    [
        "see the Style guide",
        "FastAPI lifespan events page",
        "[[Some note]]",
        "introduction to bases",
        "help page about the license",
        "where is the sync section",
    ],
)
def test_a_place_in_the_documentation_is_navigational(text: str) -> None:
    assert kind_of(text, bool(documents_named(text, NOTES))) is NAVIGATIONAL


@pytest.mark.parametrize(
    "text",
    ["unique note creator", "Unique Note Creator?", "zettelkasten-prefixer", "help/unique notes"],
)
def test_a_document_s_own_name_is_navigational(text: str) -> None:
    assert kind_of(text, bool(documents_named(text, NOTES))) is NAVIGATIONAL


@pytest.mark.parametrize(
    "text",
    [
        "how do I stop a folder from being uploaded",
        "can I publish my notes from an iPhone to GitHub Pages?",
        "what happens to attachments, e.g. pictures, when I move a note",
        "transclude a page inside another",
        "old web address of a moved page should send visitors to the new one",
        "does the app run on macOS and in JavaScript sandboxes",
        "what was decided about the website in 2026",
        "top 10 tips for 3 people",
        "",
    ],
)
def test_questions_that_mention_a_brand_or_a_page_are_exploratory(text: str) -> None:
    assert kind_of(text, bool(documents_named(text, NOTES))) is EXPLORATORY


def test_the_first_match_wins() -> None:
    assert kind_of("release notes page for v1.4.5", named=True) is FACTUAL


def test_each_kind_raises_its_own_retrievers() -> None:
    assert FACTORS == {
        FACTUAL: {"search_keyword": 1.5, "search_code": 3.0, "search_vector": 0.75},
        NAVIGATIONAL: {"search_keyword": 1.5, "search_graph": 1.5},
        EXPLORATORY: {"search_vector": 1.3},
    }
