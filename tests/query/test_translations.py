"""A page and its translation are told by outline, numbers and code: a model of one language sees no
likeness.
"""

import pytest

from thumbindex.model import DocumentId, Query
from thumbindex.query.stage import Search, Tools
from thumbindex.query.versions import counterparts, translations, variants
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

ENGLISH = """# Install the server

This page tells you how to install the server on your machine.

## Requirements

You need Python 3.11 and 200 MB of free space, and the server runs on every system.

## Begin

Download the package and run `pip install thing-server` on the machine. \
It will be ready after 30 seconds.
"""

GERMAN = """# Den Server installieren

Diese Seite erklärt, wie man den Server auf dem eigenen Rechner installiert.

## Voraussetzungen

Sie brauchen Python 3.11 und 200 MB freien Platz, und der Server läuft auf jedem System.

## Beginnen

Laden Sie das Paket herunter und führen Sie `pip install thing-server` auf dem Rechner aus. \
Er ist nach 30 Sekunden bereit.
"""


def same_places(english: str, german: str) -> list[tuple[int, int]]:
    snapshot = memory_snapshot([document("de/x.md", german), document("en/x.md", english)])
    found = translations(DocumentId(0), DocumentId(1), snapshot.catalog)
    lines = snapshot.catalog.chunks(sorted({n for pair in found for n in pair}))
    return sorted((lines[a].start_line, lines[b].start_line) for a, b in found)


def found(candidates, english: str, german: str, query: str) -> list[tuple[str, tuple[str, ...]]]:
    snapshot = memory_snapshot([document("de/x.md", german), document("x.md", english)])
    search = variants(Search(Query(query), query, candidates=candidates(snapshot)), Tools(snapshot))
    path = [each.path for each in snapshot.catalog.documents]
    return [
        (path[each.document], tuple(path[snapshot.catalog.document_of(n)] for n in each.also_in))
        for each in search.candidates
    ]


def test_chunks_in_the_same_place_say_the_same() -> None:
    assert same_places(ENGLISH, GERMAN) == [(3, 3), (7, 7), (11, 11)]


def test_a_heading_that_only_one_page_has_leaves_the_others_as_they_are() -> None:
    assert same_places(
        ENGLISH + "\n## Remove\n\nUse the command of your system for it.\n", GERMAN
    ) == [(3, 3), (7, 7), (11, 11)]


@pytest.mark.parametrize(
    "german",
    [
        GERMAN.replace("thing-server", "other-tool")
        .replace("3.11", "2.7")
        .replace("200", "512")
        .replace("30", "45"),
        GERMAN.replace("## ", "### "),
        ENGLISH.replace("machine", "computer"),
        "# T\n\n",
    ],
    ids=["other numbers and code", "another outline", "the same language", "nothing but a heading"],
)
def test_any_other_page_is_no_translation(german: str) -> None:
    assert same_places(ENGLISH, german) == []


@pytest.mark.parametrize(("headings", "together"), [(3, True), (2, False)])
def test_without_numbers_and_code_it_takes_three_headings(headings: int, together: bool) -> None:
    english = "".join(
        f"## {n}\n\nThis is the text that you have to read before all of it.\n\n"
        for n in "abc"[:headings]
    )
    german = "".join(
        f"## {n}\n\nDas ist der Text, den man vor dem Rest lesen muss, und er ist gut.\n\n"
        for n in "abc"[:headings]
    )
    assert bool(same_places(english, german)) is together


@pytest.mark.parametrize(
    ("query", "shown", "other"),
    [
        ("the free space of the server", "x.md", "de/x.md"),
        ("wie viel freien Platz", "de/x.md", "x.md"),
    ],
)
def test_the_query_s_language_is_shown_and_the_other_one_named(
    candidates, query: str, shown: str, other: str
) -> None:
    assert found(candidates, ENGLISH, GERMAN, query)[1] == (shown, (other,))


def test_a_number_that_differs_in_a_translation_keeps_both(candidates) -> None:
    alone = [
        path
        for path, others in found(candidates, ENGLISH, GERMAN.replace("30", "90"), "x")
        if not others
    ]
    assert alone == ["de/x.md", "x.md"]


@pytest.mark.parametrize(("headings", "compared"), [(20, 20), (1500, 0)])
def test_huge_pages_are_not_compared_chunk_by_chunk_while_somebody_waits(headings, compared):
    text = "\n\n".join(f"# Step {n}\n\nTurn screw {n}." for n in range(headings))
    tools = Tools(
        memory_snapshot([document("v1/x.md", text), document("v2/x.md", text)], FakeEmbedder(64))
    )
    assert len(counterparts(DocumentId(0), DocumentId(1), tools)) == compared
