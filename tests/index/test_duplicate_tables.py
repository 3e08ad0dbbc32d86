"""What is known of duplicates goes with its chunks; what the owner decided outlives the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thumbindex.errors import StorageError
from thumbindex.index.duplicate_tables import DuplicateFindings, read_decisions, write_decisions
from thumbindex.index.store import Store
from thumbindex.index.writer import Writer
from thumbindex.model import Decision
from thumbindex.text import text_key

DECISION = Decision("a" * 32, "b" * 32, "apart", "two drugs", 1700000000.5, "a.md:1", "b.md:3")


@pytest.fixture
def store(tmp_path, note) -> Store:
    """Return a store of two notes with two chunks each: rows 2, 3 and 5, 6."""
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("a.md", "apples", "pears"))
        store.add_document(*note("b.md", "apples", "plums"))
    return store


def test_a_decision_is_found_again_and_replaced_whichever_text_comes_first(tmp_path):
    path = tmp_path / "decisions.json"
    write_decisions(path, [DECISION])
    write_decisions(path, [Decision("b" * 32, "a" * 32, "same", "", 1.0, "b.md:3", "a.md:1")])
    assert read_decisions(path) == (
        Decision("a" * 32, "b" * 32, "same", "", 1.0, "a.md:1", "b.md:3"),
    )
    assert [
        write_decisions(path, (), [("b" * 32, "a" * 32)]),
        write_decisions(path, (), [("b" * 32, "a" * 32)]),
    ] == [1, 0]
    assert read_decisions(path) == ()


def test_decisions_come_sorted(tmp_path):
    write_decisions(
        tmp_path / "d", [replace(DECISION, first=first * 32, second="e" * 32) for first in "dac"]
    )
    assert [each.first[0] for each in read_decisions(tmp_path / "d")] == ["a", "c", "d"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"decisions": [{"first": "a"}]}', '{"version": 1}', "\0"]
)
def test_a_file_of_decisions_that_cannot_be_read_is_told_of_and_never_written_over(text, tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(text, encoding="utf-8")
    for attempt in (lambda: read_decisions(path), lambda: write_decisions(path, [DECISION])):
        with pytest.raises(StorageError, match="mend it, or delete it"):
            attempt()
    assert path.read_text(encoding="utf-8") == text


def test_decisions_outlive_every_edition_of_an_index(build, note, tmp_path):
    _, places = build(note("a.md", "apples"))
    with Writer.open(places.folder) as writer:
        writer.decide([DECISION])
    places.switch(2)
    with Writer.open(places.folder) as writer:
        assert (writer.store.documents(), writer.store.decisions()) == ([], (DECISION,))


def test_a_texts_digest_is_of_its_exact_bytes():
    assert len({text_key(text).hex() for text in ("a", "a ", "A", "\ufeffa")}) == 4
    assert len(text_key("a").hex()) == 32


def test_pairs_come_sorted_once_each_the_lesser_row_first(store):
    with store.transaction():
        store.duplicates.put_alike(
            [
                (6, 3, 0.9, "grey", "cosine 0.90", "`3` against `4`"),
                (2, 5, 1.0, "same", "equal texts", ""),
            ]
        )
        store.duplicates.put_alike(
            [(5, 2, 0.5, "grey", "is there already", ""), (2, 99, 1.0, "same", "is gone", "")]
        )
    assert store.duplicates.alike() == [
        (2, 5, 1.0, "same", "equal texts", ""),
        (3, 6, 0.9, "grey", "cosine 0.90", "`3` against `4`"),
    ]


def test_pairs_go_with_either_chunk_and_who_is_left_alone_is_looked_at_again(store, note):
    with store.transaction():
        store.duplicates.put_alike(
            [(2, 5, 1.0, "same", "equal texts", ""), (3, 6, 0.9, "grey", "cosine 0.90", "")]
        )
    with store.transaction():
        store.add_document(*note("b.md", "quinces"))
    assert (store.duplicates.alike(), store.duplicates.lonely()) == ([], [2, 3])


def test_chunks_of_other_documents_with_the_same_words_are_found_newest_first(store):
    words, others = text_key("apples"), text_key("pears")
    with store.transaction():
        store.duplicates.keep_findings(
            DuplicateFindings(
                "mark 6",
                [
                    (2, b"a" * 16, words),
                    (3, b"b" * 16, others),
                    (5, b"a" * 16, words),
                    (6, b"c" * 16, words),
                ],
            )
        )
    found = [
        store.duplicates.rows_of_words(*asked)
        for asked in ((words, 1, 9), (words, 1, 1), (others, 1, 9))
    ]
    assert found == [[6, 5], [6], []]
    assert store.duplicates.rows_of_texts([(b"a" * 16).hex(), (b"z" * 16).hex()]) == {
        2: "61" * 16,
        5: "61" * 16,
    }


def test_repeats_and_boosts_of_chunks_that_are_gone_are_not_kept(store):
    with store.transaction():
        digests = [(row, bytes([row]) * 16, text_key(str(row))) for row in (2, 3, 99)]
        found = DuplicateFindings(
            "mark 6", digests, [(3, 2, 1), (99, 2, 0)], [(2, 0.15, 0.65), (99, 0.1, 0.2)]
        )
        store.duplicates.keep_findings(found)
    assert (store.duplicates.repeats(), store.duplicates.boosts()) == (
        [(3, 2, True)],
        {2: (0.15, 0.65)},
    )


def test_a_chunk_whose_pair_has_lost_the_other_one_before_it_was_kept_is_looked_at_again(store):
    pairs = [
        (2, 99, 1.0, "same", "is gone", ""),
        (98, 99, 1.0, "same", "are gone", ""),
        (3, 6, 1.0, "same", "equal texts", ""),
    ]
    with store.transaction():
        store.duplicates.put_alike(pairs)
        store.duplicates.keep_findings(DuplicateFindings("mark 6", alike=pairs, again=[2]))
    assert ([row[:2] for row in store.duplicates.alike()], store.duplicates.lonely()) == (
        [(3, 6)],
        [2],
    )
