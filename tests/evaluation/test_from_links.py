"""Queries from a vault's own notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.errors import UsageError
from thumbindex.evaluation.from_links import queries_from_links, read_own_queries, without_sources
from thumbindex.evaluation.queries import Label, LabeledQuery
from thumbindex.library import Library

NOTES = {
    "bread.md": (
        "---\ndescription: how a loaf came to be what it is\n---\n# Bread\n\n"
        "## Feeding the starter\n\nFlour and water, daily.\n"
    ),
    "oven.md": "# Oven\n\nFor a "
    "[crisp crust](bread.md#feeding-the-starter) use steam. See [here](bread.md), [[bread]] and "
    "[[oven|this very page]].\n",
    "steam.md": (
        "# Steam\n\nMakes a [[bread|crisp crust]], as [[oven|the hot box]] does.\n\n## Notes\n\n"
        "None.\n"
    ),
    "tins.md": "---\ndescription: Tins hold the dough well.\n---\n# Tins\n\n"
    "Tins hold the dough well.\n\n## Notes\n\n"
    "[[oven|steam]] ![[bread|the loaf]]\n",
}


@pytest.fixture
def library(tmp_path: Path):
    with open_library(write_notes(tmp_path / "vault", NOTES)) as library:
        library.index()
        yield library


def queries_by_text(library: Library) -> dict[str, LabeledQuery]:
    return {query.query: query for query in queries_from_links(library.all_notes())}


def test_link_text_becomes_a_query_that_ignores_the_linking_notes(library: Library) -> None:
    query = queries_by_text(library)["crisp crust"]
    assert (query.kind, query.ignore) == ("link", ("oven.md", "steam.md"))
    assert set(query.relevant) == {
        Label("bread.md", "Feeding the starter", 2),
        Label("bread.md", None, 2),
    }


def test_queries_have_a_kind(library: Library) -> None:
    kinds = {text: query.kind for text, query in queries_by_text(library).items()}
    assert kinds == {
        "crisp crust": "link",
        "the hot box": "link",
        "how a loaf came to be what it is": "description",
        "bread": "title",
    }


def test_linking_notes_are_hidden_from_the_search(library: Library) -> None:
    query = LabeledQuery(
        "q", "crisp crust", "link", (Label("bread.md", None, 2),), ("oven.md", "steam.md")
    )
    assert library.query("crisp crust").passages[0].path in query.ignore
    blind, without = without_sources(library, query)
    answer = blind.query("crisp crust", without=without)
    assert {passage.path for passage in answer.passages}.isdisjoint(query.ignore)


def test_notes_without_queries_are_an_error(tmp_path: Path) -> None:
    with open_library(write_notes(tmp_path / "vault", {})) as library:
        library.index()
        with pytest.raises(UsageError, match="No queries can be made"):
            read_own_queries(library)
