"""What is known of duplicates goes with its chunks; what the owner decided outlives the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import IndexDamagedError
from thumbindex.index.repair import mend
from thumbindex.index.salvage import salvage
from thumbindex.index.store import Store
from thumbindex.index.stored_duplicates import Looked
from thumbindex.model import Decision
from thumbindex.text import text_key

DECISION = Decision("a" * 32, "b" * 32, "apart", "two drugs", 1700000000.5, "a.md:1", "b.md:3")


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.fixture
def store(tmp_path, note) -> Store:
    """Return a store of two notes with two chunks each: rows 2, 3 and 5, 6."""
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("a.md", "apples", "pears"))
        store.add_document(*note("b.md", "apples", "plums"))
    return store


def test_a_decision_is_found_again_and_replaced_whichever_text_comes_first(store):
    with store.transaction():
        store.put_decision(DECISION)
        store.put_decision(Decision("b" * 32, "a" * 32, "same", "", 1.0, "b.md:3", "a.md:1"))
    assert store.decisions() == (Decision("a" * 32, "b" * 32, "same", "", 1.0, "a.md:1", "b.md:3"),)
    with store.transaction():
        assert [store.drop_decision("b" * 32, "a" * 32), store.drop_decision("b" * 32, "a" * 32)] == [True, False]
    assert store.decisions() == ()
    store.scrub()


def test_decisions_come_sorted(store):
    with store.transaction():
        for first in "dac":
            store.put_decision(replace(DECISION, first=first * 32, second="e" * 32))
    assert [each.first[0] for each in store.decisions()] == ["a", "c", "d"]


def test_a_texts_digest_is_of_its_exact_bytes():
    assert len({text_key(text).hex() for text in ("a", "a ", "A", "\ufeffa")}) == 4
    assert len(text_key("a").hex()) == 32


def test_pairs_come_sorted_once_each_the_lesser_row_first(store):
    with store.transaction():
        store.put_alike([(6, 3, 0.9, "grey", "cosine 0.90", "`3` against `4`"), (2, 5, 1.0, "same", "equal texts", "")])
        store.put_alike([(5, 2, 0.5, "grey", "is there already", ""), (2, 99, 1.0, "same", "is gone", "")])
    assert store.alike() == [(2, 5, 1.0, "same", "equal texts", ""), (3, 6, 0.9, "grey", "cosine 0.90", "`3` against `4`")]
    store.scrub()


def test_pairs_go_with_either_chunk_and_who_is_left_alone_is_looked_at_again(store, note):
    with store.transaction():
        store.put_alike([(2, 5, 1.0, "same", "equal texts", ""), (3, 6, 0.9, "grey", "cosine 0.90", "")])
    with store.transaction():
        store.add_document(*note("b.md", "quinces"))
    assert (store.alike(), store.lonely()) == ([], [2, 3])
    store.scrub()


def test_a_row_that_was_flipped_or_that_vanished_is_damage(store, tmp_path):
    with store.transaction():
        store.put_alike([(2, 5, 1.0, "same", "equal texts", "")])
        store.put_decision(DECISION)
    for statement in ("UPDATE alike SET zone = 'grey'", "DELETE FROM alike", "UPDATE decisions SET verdict = 'same'", "DELETE FROM decisions"):
        copy = tmp_path / "copy"
        execute(tmp_path / "s", f"VACUUM INTO '{copy}'")
        execute(copy, statement)
        with pytest.raises(IndexDamagedError):
            Store(copy, read_only=True).scrub()
        copy.unlink()


def test_decisions_are_salvaged_and_counted(store, tmp_path):
    with store.transaction():
        store.put_decision(DECISION)
    store.close()
    new = Store(tmp_path / "new")
    assert salvage(tmp_path / "s", new).rows == 1
    assert new.decisions() == (DECISION,)
    new.scrub()


def test_decisions_survive_a_store_that_is_damaged(build, note, tmp_path):
    store, places = build(note("a.md", "apples"))
    store.close()
    with closing(Store(places.store)) as store, store.transaction():
        store.put_decision(DECISION)
    execute(places.store, "UPDATE chunks SET text = 'b'")
    assert "built anew" in mend(places)
    with closing(Store(places.store)) as store:
        assert store.decisions() == (DECISION,)


def test_chunks_of_other_documents_with_the_same_words_are_found_newest_first(store):
    words, others = text_key("apples"), text_key("pears")
    with store.transaction():
        store.keep_looked(Looked("mark 6", [(2, b"a" * 16, words), (3, b"b" * 16, others), (5, b"a" * 16, words), (6, b"c" * 16, words)]))
    assert (store.rows_of_words(words, 1, 9), store.rows_of_words(words, 1, 1), store.rows_of_words(others, 1, 9)) == ([6, 5], [6], [])
    assert store.rows_of_texts([(b"a" * 16).hex(), (b"z" * 16).hex()]) == {2: "61" * 16, 5: "61" * 16}
    store.scrub()
