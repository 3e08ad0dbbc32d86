from fakes import document, memory_snapshot
from thumbindex.query.reorder import apply_order, discounted_order


def test_discount_lowers_further_chunks_of_a_document(
    candidates,
) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree"), document("b.md", "four")])
    ranked = candidates(snapshot, 1.0, 0.9, 0.8, 0.7)  # of a.md: 1, 0.72, 0.512
    assert discounted_order(ranked, 0.8, {}) == [0, 1, 3, 2]
    assert discounted_order(ranked, 0.6, {}) == [0, 3, 1, 2]
    assert discounted_order(ranked, 1.0, {}) == [0, 1, 2, 3]


def test_discount_counts_chunks_shown_before(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo"), document("b.md", "three")])
    first, *others = candidates(snapshot, 1.0, 0.9, 0.8)
    assert discounted_order(others, 0.8, {first.document: 1}) == [1, 0]


def test_apply_order_lowers_scores(candidates) -> None:
    ranked = candidates(memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")]), 0.9, 0.8, 0.7)
    assert [(candidate.id, candidate.score) for candidate in apply_order(ranked, [0, 2, 1])] == [
        (0, 0.9),
        (2, 0.7),
        (1, 0.7),
    ]
