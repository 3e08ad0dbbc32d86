"""Limits on countable costs: commits, statements and files read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counting import files_read, statements
from fakes import FakeEmbedder
from notes import make_vault
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.library.answering import answer_query
from thumbindex.library.reader import DiskReader
from thumbindex.model import Filters, Query
from waiting import TRUSTED_SECONDS

OTHER_COMMITS = 7
"""Maximum commits besides those of vectors, such as for the model and duplicates."""


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    make_vault(tmp_path / "vault", 100, 1500)
    config = load_config(user_file=tmp_path / "none")
    with Library.open(
        [tmp_path / "vault"], index=tmp_path / "index", config=config, embedder=FakeEmbedder()
    ) as library:
        yield library


def test_number_of_commits_and_statements_is_limited(library: Library) -> None:
    words = library.index(complete=False)
    complete = library.index()
    batches = -(-words.chunks // library.config.encode.embed.batch)
    commits = (words.generation, complete.generation - words.generation)
    assert (commits[0] <= 3, commits[1] <= batches + OTHER_COMMITS) == (True, True), commits

    embedder, counts = FakeEmbedder(), []
    with closing(DiskReader(library.opened[0])) as reader:
        for text in ("note 7", "folder of notes", "see note 30"):
            with statements() as counted:
                answer_query(
                    Query(text, 5, Filters()), [reader], library.config.query, embedder, None
                )
            counts.append(counted.total())
    first, *others = counts  # the first opens the index
    # each query is embedded as typed, and without each of its words
    assert (first <= 37, max(others) <= 8, embedder.embedded) == (True, True, 8), counts


def test_reindexing_reads_only_changed_notes_and_writes_nothing_without_changes(
    library: Library,
) -> None:
    time.sleep(TRUSTED_SECONDS)
    before = library.index()
    library.index()
    index, root = library.opened[0].index_paths.folder, library.folders[0][1]
    names, files = frozenset(f"note {n}.md" for n in range(100)), file_states(index)
    with files_read(names) as read:
        again = library.index()
    assert (again.embedded, again.generation - before.generation, read.total()) == (0, 0, 0)
    assert file_states(index) == files

    (root / "folder 7/note 7.md").write_text("# Note 7\n\nHubs and islands.\n", encoding="utf-8")
    with files_read(names) as read:
        library.index()
    assert read == {"note 7.md": 2}  # once for its digest, once to parse it


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of an index's files, without locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
