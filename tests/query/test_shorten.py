"""An answer without a limit leaves out weaker passages."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from notes import write
from thumbindex.library import Library
from thumbindex.mcp.query_reply import reply_query
from thumbindex.model import Disagreement, Passage, Query
from thumbindex.present.as_json import answer_payload
from thumbindex.query.shorten import shorten
from thumbindex.query.stage import Search

TAIL = (0.5,) * 20
"""Scores of passages that have nothing to do with the question."""


def passages_with(scores: Sequence[float]) -> tuple[Passage, ...]:
    return tuple(
        Passage(n, "notes", f"{n}.md", "", (), 1, 1, 1, 1, score, "")
        for n, score in enumerate(scores, 1)
    )


def contradicting(passage: Passage, other: Passage) -> Passage:
    pair = Disagreement("notes", other.path, 1, 1, "", "`1` vs. `2`")
    return Passage(
        passage.rank,
        "notes",
        passage.path,
        "",
        (),
        1,
        1,
        1,
        1,
        passage.score,
        "",
        disagrees=(pair,),
    )


def shown(passages: Sequence[Passage], limit: int | None = None, level: str = "high") -> list[str]:
    search = Search(Query("q", limit), "q", passages=tuple(passages), confidence_level=level)
    answer = shorten(search, limit or 5)
    assert [passage.rank for passage in answer.passages] == list(range(1, len(answer.passages) + 1))
    if limit is None:
        assert len(answer.passages) + len(answer.weaker) == min(5, len(passages))
    return [passage.path.removesuffix(".md") for passage in answer.passages]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ((0.9, *TAIL), ["1"]),
        ((0.9, 0.8, 0.6, *TAIL), ["1", "2"]),
        ((0.9, 0.88, 0.86, 0.84, 0.82, 0.8, *TAIL), ["1", "2", "3", "4", "5"]),
        ((0.5, *TAIL), ["1", "2", "3", "4", "5"]),  # none stands out
        ((0.9, 0.5, 0.3), ["1", "2"]),  # few notes: there is no tail
        ((1.0, 1.0, 1.0, *TAIL), ["1", "2", "3"]),  # notes of one name
        ((), []),
    ],
)
def test_passages_that_do_not_stand_out_are_left_out(
    scores: Sequence[float], kept: list[str]
) -> None:
    assert shown(passages_with(scores)) == kept


def test_low_confidence_shows_two_at_most() -> None:
    assert shown(passages_with((0.9, 0.88, 0.86, *TAIL)), level="low") == ["1", "2"]


@pytest.mark.parametrize("level", ["high", "low"])
def test_contradicting_pair_stays_together(level: str) -> None:
    first, second, third, *others = passages_with((0.9, 0.85, 0.55, *TAIL))
    pair = [contradicting(second, third), contradicting(third, second)]
    assert shown([first, *pair, *others], level=level) == ["1", "2", "3"]


QUESTION = "who paints the lighthouse in spring"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    write(tmp_path / "coast/paint.md", "# Paint\n\nIn spring Ada paints the lighthouse white.\n")
    for n, tree in enumerate(("oak", "elm", "birch", "larch", "willow", "alder", "lime", "pine")):
        name, other = ("coast", "town")[n % 2], ("leaf", "root", "bark")[n % 3]
        write(tmp_path / f"{name}/{tree}.md", f"# The {tree}\n\nIn spring its {other} grows.\n")
    folders = [tmp_path / "coast", tmp_path / "town"]
    library = Library.open(folders, index=tmp_path / "index", embedder=FakeEmbedder())
    library.index()
    return library


def test_weaker_passages_are_counted_and_come_with_a_limit(library: Library) -> None:
    answer, whole = library.query(QUESTION), library.query(QUESTION, limit=5)
    reply = reply_query(library, {"query": QUESTION})
    assert answer.weaker > 0 == whole.weaker
    assert len(answer.passages) + answer.weaker == len(whole.passages)
    assert answer_payload(answer)["weaker"] == reply.structured["weaker"] == answer.weaker
    assert re.search(r"\n\n\d weaker ones?: `limit` \d", reply.text)


def test_explicit_limit_is_met(tmp_path: Path) -> None:
    write(tmp_path / "notes/paint.md", "Ada paints the white lighthouse by the sea.")
    for n, rest in enumerate(
        ("bread", "of Bo", "on a hill far away", "for two", "and a tree", "!")
    ):
        write(tmp_path / f"notes/{n}.md", f"A white house {rest} " + f"{rest[::-1]} is there " * n)
    library = Library.open([tmp_path / "notes"], index=tmp_path / "index", embedder=FakeEmbedder())
    library.index()
    assert len(library.query("who paints the white lighthouse", limit=6).passages) == 6


def test_first_sentence_names_the_folder_of_the_best_passage(library: Library) -> None:
    assert reply_query(library, {"query": QUESTION}).text.split("\n")[0].endswith(", best in coast")


def test_private_notes_are_not_counted_as_weaker(library: Library, tmp_path: Path) -> None:
    weaker = library.query(QUESTION).weaker
    (*_, last) = library.query(QUESTION, limit=5).passages
    path = tmp_path / last.folder / last.path
    write(path, f"---\nprivate: true\n---\n{path.read_text()}")
    assert library.query(QUESTION).weaker == weaker - 1
