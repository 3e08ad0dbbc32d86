"""A chunk's text lies in its section's once, and is read as it was written or not at all."""

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


def parsed_of(text: str, *pieces: str) -> ParsedDocument:
    chunks = tuple(
        Chunk(n, 0, BlockKind.PROSE, ("a",) if n < 2 else ("a", "b"), 1, 1, piece)
        for n, piece in enumerate(pieces)
    )
    return ParsedDocument(Document("a.md", "a"), (Section(0, 1, 1, text),), chunks, ())


def keep(path: Path, parsed: ParsedDocument) -> Store:
    store = Store(path)
    with store.transaction():
        store.add_document(FileState("a.md", 1, 1, 1, "digest"), parsed)
    return store


def own_texts(path: Path) -> list[tuple[str | None, str | None]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT text, heading_path FROM chunks ORDER BY ordinal").fetchall()


def test_a_piece_of_its_section_has_no_text_of_its_own_and_anything_else_has(tmp_path):
    parsed = parsed_of(
        "Äpfel 🍎 grow.\n\nPears ripen.", "Äpfel 🍎 grow.", "Pears ripen.", "| head |\nPears"
    )
    store = keep(tmp_path / "s", parsed)
    assert tuple(store.chunks([2, 3, 4]).values()) == parsed.chunks
    assert own_texts(tmp_path / "s") == [
        (None, None),
        (None, None),
        ("| head |\nPears", '["a", "b"]'),
    ]
    store.verify()


def test_what_stands_in_a_text_with_a_nul_is_kept_whole(tmp_path):
    parsed = parsed_of("apples\0pears", "pears")
    assert keep(tmp_path / "s", parsed).chunks([2])[2].text == "pears"
    assert own_texts(tmp_path / "s")[0][0] == "pears"


@pytest.mark.parametrize(
    "change", ["text_offset = text_offset + 1", "text_length = 3", "section = 7"]
)
def test_a_place_that_was_flipped_is_damage_and_not_another_text(tmp_path, change):
    keep(tmp_path / "s", parsed_of("apples, pears", "pears")).close()
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
def test_any_piece_of_any_text_is_read_as_it_was_written(tmp_path_factory, text, at, size):
    parsed = parsed_of(text, text[at : at + size])
    with closing(keep(tmp_path_factory.mktemp("piece") / "s", parsed)) as store:
        assert tuple(store.chunks([2]).values()) == parsed.chunks
