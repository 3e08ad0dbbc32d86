import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.model import Query
from thumbindex.query.dedup_hash import dedup_hash, exact_copies
from thumbindex.query.stage import Search, Tools
from thumbindex.testing import document, memory_snapshot

groups = st.lists(st.tuples(st.sampled_from(["a", "a ", "A", ""]), st.sampled_from([0.1, 0.5, 0.9])))


@pytest.mark.parametrize(
    ("first", "second"),
    [("text", "text "), ("text", "\ufefftext"), ("é", "e\u0301"), ("Text", "text"), ("a b", "a  b"), ("a\nb", "a\r\nb")],
)
def test_one_other_byte_makes_another_text(first: str, second: str) -> None:
    assert exact_copies([first, second], [1.0, 1.0]) == {}


def test_the_highest_score_survives_wherever_it_stands() -> None:
    assert exact_copies(["x", "x", "x"], [0.2, 0.9, 0.9]) == {0: 1, 2: 1}


def test_equal_scores_keep_the_earlier_one() -> None:
    assert exact_copies(["x", "y", "x"], [0.5, 0.5, 0.5]) == {2: 0}


def test_nothing_in_nothing_out() -> None:
    assert exact_copies([], []) == {}


def test_other_paths_tags_and_headings_do_not_make_another_text(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "# A\n\nsame", tags=("x",)), document("b.md", "# B\n\nsame")])
    merged = dedup_hash(Search(Query("x"), "x", candidates=candidates(snapshot, 0.1, 0.9)), Tools(snapshot))
    assert [(each.id, each.chunk.heading_path, each.also_in) for each in merged.candidates] == [(1, ("B",), (0,))]


@given(groups)
def test_one_of_each_text_survives_in_order(group: list[tuple[str, float]]) -> None:
    texts, scores = [text for text, _ in group], [score for _, score in group]
    kept = [at for at in range(len(group)) if at not in exact_copies(texts, scores)]
    assert sorted(texts[at] for at in kept) == sorted(set(texts))
    assert [scores[at] for at in kept] == [max(score for text, score in group if text == texts[at]) for at in kept]
    assert exact_copies([texts[at] for at in kept], [scores[at] for at in kept]) == {}
