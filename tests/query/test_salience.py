from thumbindex.model import Hit, Query, RankedList
from thumbindex.query.rank import by_salience, salience
from thumbindex.query.stage import Search, Tools
from thumbindex.testing import document, memory_snapshot


def test_what_matters_most_comes_first_and_its_document_matters_as_much() -> None:
    ranked = by_salience({0: 0, 1: 0, 2: 1}, {0: 0.2, 1: 0.9, 2: 0.5})
    assert [(hit.chunk, hit.rank, hit.score) for hit in ranked.hits] == [
        (1, 1, 0.9),
        (2, 2, 0.5),
        (0, 3, 0.2),
    ]
    assert ranked.documents == {0: 0.9, 1: 0.5}


def test_equals_stand_in_the_order_of_their_positions() -> None:
    assert [
        hit.chunk for hit in by_salience({2: 0, 0: 0, 1: 0}, {0: 0.5, 1: 0.5, 2: 0.5}).hits
    ] == [0, 1, 2]


def test_it_ranks_what_was_found_and_finds_nothing(knowing) -> None:
    snapshot = knowing(
        memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")]), saliences={2: 1.0}
    )
    found = {"search_keyword": RankedList((Hit(0, 0, 1, 3.0), Hit(1, 0, 2, 2.0)))}
    after = salience(Search(Query("x"), "x", lists=found), Tools(snapshot))
    assert [hit.chunk for hit in after.lists["salience"].hits] == [0, 1]
    assert salience(Search(Query("x"), "x"), Tools(snapshot)).lists == {}


def test_a_text_that_its_document_repeats_comes_before_its_equal(ask, knowing) -> None:
    notes = [
        document("a.md", "# A\n\nSync runs at noon."),
        document("b.md", "# B\n\nSync runs at midnight."),
    ]
    snapshot = knowing(memory_snapshot(notes), saliences={0: 0.3, 1: 0.8})
    on, off = (
        [passage.path for passage in ask(snapshot, "sync runs", off=name)[0].passages]
        for name in ("", "salience")
    )
    assert (on, off) == (["b.md", "a.md"], ["a.md", "b.md"])
