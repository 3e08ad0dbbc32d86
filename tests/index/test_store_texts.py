"""Texts of chunks are stored as parts of their section's text, and read back unchanged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.errors import IndexDamagedError
from thumbindex.index.store import Store
from thumbindex.model import BlockKind, Chunk, Document, FileState, ParsedDocument, Section


def parsed_of(text: str, *parts: str) -> ParsedDocument:
    chunks = tuple(
        Chunk(n, 0, BlockKind.PROSE, ("a",) if n < 2 else ("a", "b"), 1, 1, part)
        for n, part in enumerate(parts)
    )
    return ParsedDocument(Document("a.md", "a"), (Section(0, 1, 1, text),), chunks, ())


def stored(path: Path, parsed: ParsedDocument) -> Store:
    store = Store(path)
    with store.transaction():
        store.add_document(FileState("a.md", 1, 1, 1, "digest"), parsed)
    return store


def text_columns(path: Path) -> list[tuple[str | None, str | None]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT text, heading_path FROM chunks ORDER BY ordinal").fetchall()


def test_chunk_stores_its_text_only_if_it_is_not_part_of_its_section(tmp_path):
    parsed = parsed_of(
        "Äpfel 🍎 grow.\n\nPears ripen.", "Äpfel 🍎 grow.", "Pears ripen.", "| head |\nPears"
    )
    store = stored(tmp_path / "s", parsed)
    assert tuple(store.chunks([2, 3, 4]).values()) == parsed.chunks
    assert text_columns(tmp_path / "s") == [
        (None, None),
        (None, None),
        ("| head |\nPears", '["a", "b"]'),
    ]
    store.verify()


def test_chunk_after_a_nul_is_stored_in_full(tmp_path):
    parsed = parsed_of("apples\0pears", "pears")
    assert stored(tmp_path / "s", parsed).chunks([2])[2].text == "pears"
    assert text_columns(tmp_path / "s")[0][0] == "pears"


@pytest.mark.parametrize(
    "change", ["text_offset = text_offset + 1", "text_length = 3", "section = 7"]
)
def test_corrupted_offset_is_damage(tmp_path, change):
    stored(tmp_path / "s", parsed_of("apples, pears", "pears")).close()
    with closing(sqlite3.connect(tmp_path / "s", isolation_level=None)) as db:
        db.execute(f"UPDATE chunks SET {change}")
    with closing(Store(tmp_path / "s")) as store, pytest.raises(IndexDamagedError):
        store.chunks([2])


@settings(max_examples=30, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_any_part_of_any_text_is_restored(tmp_path_factory, text, at, size):
    parsed = parsed_of(text, text[at : at + size])
    with closing(stored(tmp_path_factory.mktemp("part") / "s", parsed)) as store:
        assert tuple(store.chunks([2]).values()) == parsed.chunks
