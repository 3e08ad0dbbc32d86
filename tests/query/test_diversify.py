from fakes import document, memory_snapshot
from thumbindex.query.reorder import apply_order, discounted_order


def test_each_further_chunk_of_a_document_counts_for_less_and_another_document_comes_up(
    candidates,
) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree"), document("b.md", "four")])
    made = candidates(snapshot, 1.0, 0.9, 0.8, 0.7)  # of a.md: 1, 0.72, 0.512
    assert discounted_order(made, 0.8, {}) == [0, 1, 3, 2]
    assert discounted_order(made, 0.6, {}) == [0, 3, 1, 2]
    assert discounted_order(made, 1.0, {}) == [0, 1, 2, 3]


def test_a_document_that_is_named_has_had_its_first_turn(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo"), document("b.md", "three")])
    first, *others = candidates(snapshot, 1.0, 0.9, 0.8)
    assert discounted_order(others, 0.8, {first.document: 1}) == [1, 0]


def test_scores_follow_the_new_order(candidates) -> None:
    made = candidates(memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")]), 0.9, 0.8, 0.7)
    assert [(each.id, each.score) for each in apply_order(made, [0, 2, 1])] == [
        (0, 0.9),
        (2, 0.7),
        (1, 0.7),
    ]
