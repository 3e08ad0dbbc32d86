"""A reader follows the index while another process writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from fakes import FakeEmbedder
from folders import open_library
from thumbindex.errors import IndexDamagedError
from thumbindex.library import Library
from thumbindex.library.reader import DiskReader


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    write(tmp_path / "vault", "a.md", "# A\n\nApples grow.\n")
    write(tmp_path / "vault", "b.md", "# B\n\nPears ripen.\n")
    return tmp_path / "vault"


@pytest.fixture
def library(vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        library.index()
        yield library


@pytest.fixture
def reader(library: Library) -> Iterator[DiskReader]:
    reader = DiskReader(library.opened[0])
    yield reader
    reader.close()


def write(root: Path, path: str, text: str) -> None:
    """Write a file with an old time that depends on its text."""
    (root / path).write_text(text, encoding="utf-8")
    at = 10**18 + crc32(text.encode())
    os.utime(root / path, ns=(at, at))


def paths(reader: DiskReader) -> list[str]:
    return [document.path for document in reader.folder_snapshot().snapshot.catalog.documents]


def test_failed_snapshot_raises_and_is_retried(reader):
    (contents,) = reader.folder.index_paths.segments_folder.glob("*.seg")
    away = contents.rename(contents.with_suffix(".away"))
    for _ in range(2):
        with pytest.raises(IndexDamagedError, match="thumbindex index"):
            reader.folder_snapshot().snapshot
    away.rename(contents)
    assert paths(reader) == ["a.md", "b.md"]


def test_pinned_reader_survives_a_rebuild(library, reader):
    with reader.pinned():
        assert reader.store.generation
        library.index(rebuild=True)
        assert [paths(reader) for _ in range(2)] == [["a.md", "b.md"]] * 2


def test_query_reads_the_generation_at_its_start(vault, library):
    embedder = EditingEmbedder(vault)
    with open_library(vault, embedder=embedder) as reading:
        reading.query("pears")
        embedder.armed = True
        first, second = (reading.query("how do apples grow").passages[0] for _ in range(2))
    assert (first.path, first.match) == ("a.md", "Apples grow.")
    assert (second.path, second.match) == ("a.md", "Apples grow tall.")


class EditingEmbedder(FakeEmbedder):
    """Changes and indexes a note during a query."""

    def __init__(self, vault: Path) -> None:
        super().__init__()
        self.vault = vault
        self.armed = False

    def embed_query(self, text):
        if self.armed:
            self.armed = False
            write(self.vault, "a.md", "# A\n\nApples grow tall.\n")
            with open_library(self.vault) as library:
                library.index()
        return super().embed_query(text)


def test_note_is_always_found_during_edits(library, vault):
    write(vault, "a.md", "# A\n\nText.\n\n## Kept\n\nApples grow.\n")
    library.index()
    with open_library(vault) as reading:
        writing = threading.Thread(target=edit_repeatedly, args=(vault, library))
        writing.start()
        missed = query_count = 0
        while writing.is_alive():
            passages = reading.query("how do apples grow").passages
            missed, query_count = (
                missed + ("Apples grow." not in [passage.match for passage in passages]),
                query_count + 1,
            )
        writing.join()
    assert (missed, query_count > 8) == (0, True)


def edit_repeatedly(vault: Path, library: Library) -> None:
    """Change the text above a paragraph that stays."""
    for number in range(10):
        lines = "\n".join(f"Line {n} of {number}." for n in range(number % 4 + 1))
        write(vault, "a.md", f"# A\n\n{lines}\n\n## Kept\n\nApples grow.\n")
        library.index(complete=False)
