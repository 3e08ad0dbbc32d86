"""The regression guard: what is counted and not timed must not grow unnoticed. A change that is meant changes the number here."""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from thumbindex.library import Library
from thumbindex.library.answering import answer
from thumbindex.library.reader import Reader
from thumbindex.model import Filters, Query
from thumbindex.study.bench.counts import files_read, statements
from thumbindex.study.bench.greeted import count_modules
from thumbindex.study.bench.subject import Subject, Where
from thumbindex.study.vault import make_vault
from thumbindex.testing import FakeEmbedder

MODULES = 320
"""Loaded when the tools are listed: 309 today; the interpreter's own differ from version to version."""

TRUSTED_SECONDS = 2.1
"""A file that was written just before is read again, whatever its time says."""

READ_AGAIN = 0.4
"""The share of an index that is read where nothing changed: 0.32 of a hundred notes' today, documents' rows and which chunks have vectors."""

OTHERS = 7
"""Commits beside those of vectors: the model, calibration, copies, the view; one only where notes are too new for their times to be kept."""

Open = Callable[..., Library]


def asked(library: Library, embedder: FakeEmbedder | None) -> list[int]:
    """Return how many statements each of three questions takes."""
    found = []
    with closing(Reader(library.opened[0])) as reader:
        for text in ("green button", "newer note", "dots and lines"):
            with statements() as told:
                answer(Query(text, 5, Filters()), [reader], library.config.query, embedder, None)
            found.append(told.count)
    return found


def test_no_more_modules_are_loaded_before_the_tools_are_listed(subject: Subject) -> None:
    assert count_modules(subject.arguments(subject.where)) <= MODULES


def test_a_question_takes_no_more_statements(subject: Subject) -> None:
    with subject.open(subject.where) as library:
        first, *others = asked(library, FakeEmbedder())
    assert (first <= 10, max(others) <= 6) == (True, True)


def test_a_question_is_embedded_once(subject: Subject) -> None:
    embedder = FakeEmbedder()
    with subject.open(subject.where) as library:
        asked(library, embedder)
    assert embedder.embedded == 3


def test_a_hundred_notes_take_no_more_commits(open_fake: Open, tmp_path: Path) -> None:
    make_vault(tmp_path / "many", 100, 1500)
    with open_fake(Where(tmp_path / "many", tmp_path / "many's index")) as library:
        words = library.index(words_only=True)
        whole = library.index()
    batches = -(-words.chunks // library.config.encode.embed.batch)
    assert (words.generation <= 3, whole.generation - words.generation <= batches + OTHERS) == (True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many bytes a process has read")
def test_where_nothing_changed_nothing_is_written_and_no_more_bytes_are_read(open_fake: Open, tmp_path: Path) -> None:
    make_vault(tmp_path / "many", 100, 1500)
    time.sleep(TRUSTED_SECONDS)
    with open_fake(Where(tmp_path / "many", tmp_path / "many's index")) as library:
        library.index()
        library.index()  # finds out that nothing changed, and notes by what the next one can tell
        folder = library.opened[0].places.folder
        before, files = bytes_read(), facts(folder)
        library.index()
        share = (bytes_read() - before) / sum(size for size, _ in files.values())
        assert (share <= READ_AGAIN, facts(folder)) == (True, files)


def bytes_read() -> int:
    """Return how many bytes this process has read so far, from files and pipes."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def facts(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the files of an index, its locks aside."""
    found = {path.name: path.stat() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}
    return {name: (each.st_size, each.st_mtime_ns) for name, each in found.items()}


def test_indexing_again_reads_what_changed_twice_and_no_other_note(subject: Subject) -> None:
    time.sleep(TRUSTED_SECONDS)
    names = frozenset({"sync.md", "canvas.md", "graph.md"})
    with subject.open(subject.where) as library:
        before = library.index()
        with files_read(names) as read:
            again = library.index()
        assert (again.embedded, again.generation - before.generation, read.count) == (0, 0, 0)
        (subject.where.folder / "graph.md").write_text("# Graph view\n\nShows hubs and islands, too.\n", encoding="utf-8")
        with files_read(names) as read:
            library.index()
        assert read.count == 2  # for its digest, then to be parsed
