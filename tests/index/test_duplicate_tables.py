"""Records of duplicates are deleted with their chunks; decisions outlive the store."""

from __future__ import annotations

import pytest

from thumbindex.errors import StorageError
from thumbindex.index.duplicate_tables import DuplicateFindings, read_decisions, write_decisions
from thumbindex.index.store import Store
from thumbindex.model import Decision, IngestionCounts

DECISION = Decision("a" * 32, "b" * 32, "apart", "two drugs", 1700000000.5, "a.md:1", "b.md:3")


@pytest.fixture
def store(tmp_path, note) -> Store:
    """Return a store of two notes with two chunks each: rows 2, 3 and 5, 6."""
    store = Store(tmp_path / "s")
    with store.transaction():
        store.add_document(*note("a.md", "apples", "pears"))
        store.add_document(*note("b.md", "apples", "plums"))
    return store


def test_decision_is_replaced_in_either_order_of_texts(tmp_path):
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


@pytest.mark.parametrize("text", ["{", '{"decisions": [{"first": "a"}]}', '{"version": 1}'])
def test_unreadable_decisions_are_reported_and_never_overwritten(text, tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(text, encoding="utf-8")
    for attempt in (lambda: read_decisions(path), lambda: write_decisions(path, [DECISION])):
        with pytest.raises(StorageError, match="Repair the file, or delete it"):
            attempt()
    assert path.read_text(encoding="utf-8") == text


def test_pairs_are_deleted_with_either_chunk(store, note):
    pairs = [
        (2, 5, 1.0, "same", "equal texts", ""),
        (3, 6, 0.9, "grey", "cosine 0.90", ""),
        (2, 99, 1.0, "same", "is gone", ""),
    ]
    with store.transaction():
        store.duplicates.add_pairs(pairs)
    assert [row[:2] for row in store.duplicates.pairs()] == [(2, 5), (3, 6)]
    with store.transaction():
        store.add_document(*note("b.md", "quinces"))
    assert store.duplicates.pairs() == []


def test_ingestion_is_counted_by_type(store, note):
    findings = DuplicateFindings("", [(2, b""), (3, b"")], [(3, 2, 0)], [(2, 0.15, 0.65)])
    with store.transaction():
        store.duplicates.save_findings(findings)
    assert store.duplicates.ingestion() == (IngestionCounts("", 4, 1, 1, 0.15, 0.15),)
