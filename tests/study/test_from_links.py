"""Queries that notes hold: what is taken, what is left out, and that nothing gives its own answer
away.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.study.evaluate import evaluate
from thumbindex.study.from_links import (
    ask_unseen,
    heading_of,
    held_queries,
    names_subject,
    queries_from_links,
    shares,
    write_queries,
)
from thumbindex.study.queries import Label, LabeledQuery, load_queries
from thumbindex.testing import FakeEmbedder

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
    root = tmp_path / "vault"
    root.mkdir()
    for path, text in NOTES.items():
        (root / path).write_text(text, encoding="utf-8")
    with Library.open(
        [root],
        index=tmp_path / "index",
        config=load_config(user_file=root / "none"),
        embedder=FakeEmbedder(),
    ) as library:
        library.index()
        yield library


def found(library: Library) -> dict[str, LabeledQuery]:
    return {query.query: query for query in queries_from_links(library.notes())}


def test_what_a_link_is_called_asks_for_what_it_leads_to_and_ignores_all_who_link_so(
    library: Library,
) -> None:
    query = found(library)["crisp crust"]
    assert (query.kind, query.ignore) == ("link", ("oven.md", "steam.md"))
    assert set(query.relevant) == {
        Label("bread.md", "Feeding the starter", 2),
        Label("bread.md", None, 2),
    }


def test_names_headings_and_descriptions_are_kinds_of_their_own(library: Library) -> None:
    kinds = {text: query.kind for text, query in found(library).items()}
    assert kinds == {
        "crisp crust": "link",
        "the hot box": "link",
        "how a loaf came to be what it is": "description",
        "bread": "title",
        "Feeding the starter": "heading",
    }


def test_a_description_that_stands_in_the_text_is_no_question(library: Library) -> None:
    assert "Tins hold the dough well." not in found(library)


def test_a_text_that_is_another_pages_name_is_left_out(library: Library) -> None:
    assert "steam" not in found(library)


@pytest.mark.parametrize(
    "text",
    [
        "here",
        "click here",
        "this page",
        "Read more…",
        "https://example.org/a",
        "www.example.org",
        "2024",
        "to",
        "[1]",
    ],
)
def test_what_only_points_somewhere_says_nothing(text: str) -> None:
    assert not names_subject(text)


@pytest.mark.parametrize("text", ["here be dragons", "vim", "C++ linking", "設定"])
def test_what_names_a_subject_says_something(text: str) -> None:
    assert names_subject(text)


@pytest.mark.parametrize(
    "fragment", ["Feeding the starter", "feeding-the-starter", "Bread#Feeding the starter"]
)
def test_an_anchor_means_a_heading_however_it_is_written(fragment: str) -> None:
    assert heading_of(fragment, ["Bread", "Feeding the starter"]) == "Feeding the starter"


def test_a_block_or_an_unknown_anchor_means_no_heading() -> None:
    assert [heading_of(fragment, ["Bread"]) for fragment in ("^b1", "", "crust")] == [
        None,
        None,
        None,
    ]


def test_kinds_are_balanced_and_what_one_lacks_goes_to_the_others() -> None:
    assert shares({"link": 100, "title": 10, "heading": 100}, 90) == {
        "link": 40,
        "title": 10,
        "heading": 40,
    }
    assert shares({"link": 1, "title": 0}, 90) == {"link": 1, "title": 0}
    assert sum(shares({"a": 50, "b": 50, "c": 50}, 100).values()) == 100


def test_the_draw_is_the_same_each_time_and_a_smaller_one_is_part_of_it(library: Library) -> None:
    few, all_of_them = (queries_from_links(library.notes(), most) for most in (3, 5))
    assert [query.kind for query in few] == ["link", "description", "title"]
    assert set(few) < set(all_of_them) == set(queries_from_links(library.notes()))


def test_the_queries_are_read_as_they_were_written(library: Library, tmp_path: Path) -> None:
    queries = queries_from_links(library.notes())
    write_queries(tmp_path / "q.jsonl", queries)
    assert load_queries(tmp_path / "q.jsonl") == queries
    with pytest.raises(UsageError, match="--write-queries"):
        write_queries(tmp_path / "none" / "q.jsonl", queries)


def test_notes_that_link_by_the_text_are_no_way_to_the_answer(library: Library) -> None:
    query = LabeledQuery(
        "q", "crisp crust", "link", (Label("bread.md", None, 2),), ("oven.md", "steam.md")
    )
    assert library.query("crisp crust").passages[0].path in query.ignore
    assert {each.path for each in ask_unseen(library, query, 10)} & set(query.ignore) == set()


def test_a_description_is_not_found_by_itself(library: Library) -> None:
    text = "how a loaf came to be what it is"
    stages = ("search_vector", "search_graph", "confidence")
    by_words = library.answering_with(
        load_config(user_file=Path("/none")).query.without_stages(*stages)
    )
    assert [each.path for each in by_words.query("loaf").passages] == ["tins.md", "bread.md"]
    query = LabeledQuery("q", "loaf", "description", (Label("bread.md", None, 2),))
    assert [each.path for each in ask_unseen(by_words, query, 5)] == ["tins.md"]
    assert text in found(library)


def test_a_vault_is_measured_by_its_own_queries(library: Library, tmp_path: Path) -> None:
    evaluation = evaluate(library, held_queries(library), 10, own=True)
    assert evaluation.counts == {"ALL": 5, "description": 1, "heading": 1, "link": 2, "title": 1}
    assert evaluation.scores["title"]["S@1"] == 1.0


def test_notes_that_ask_nothing_say_so(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    with Library.open(
        [tmp_path / "vault"], index=tmp_path / "index", embedder=FakeEmbedder()
    ) as library:
        library.index()
        with pytest.raises(UsageError, match="hold no query"):
            held_queries(library)
