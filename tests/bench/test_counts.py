"""The regression guard: what is counted and not timed must not grow unnoticed.

A change that is meant changes the number here.
"""

import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from bench.subject import TRUSTED_SECONDS, Subject
from counting import count_modules, files_read, statements
from notes import make_vault
from thumbindex.library import Library
from thumbindex.library.answering import answer
from thumbindex.library.reader import Reader
from thumbindex.model import Filters, Query
from thumbindex.testing import FakeEmbedder

MODULES = 320
"""Loaded when the tools are listed: 303 today; the interpreter's own differ from version to
version.
"""

READ_AGAIN = 0.4
"""The share of an index that is read where nothing changed: 0.32 of a hundred notes' today,
documents' rows and which chunks have vectors.
"""

OTHERS = 7
"""Commits beside those of vectors: the model, copies, the view; one only where notes are too new
for their times to be kept.
"""


@pytest.fixture
def many(subject: Subject) -> Subject:
    made = subject.at(subject.empty("many"), subject.empty("many's index"))
    make_vault(made.folder, 100, 1500)
    return made


def asked(library: Library, embedder: FakeEmbedder) -> list[int]:
    """Return how many statements each of three questions takes."""
    found = []
    with closing(Reader(library.opened[0])) as reader:
        for text in ("green button", "newer note", "dots and lines"):
            with statements() as counted:
                answer(Query(text, 5, Filters()), [reader], library.config.query, embedder, None)
            found.append(counted.total())
    return found


def test_no_more_modules_are_loaded_before_the_tools_are_listed(subject: Subject) -> None:
    assert count_modules(subject.arguments) <= MODULES


def test_a_question_takes_no_more_statements_and_is_embedded_once(subject: Subject) -> None:
    embedder = FakeEmbedder()
    with subject.open() as library:
        first, *others = asked(library, embedder)
    assert (first <= 10, max(others) <= 7, embedder.embedded) == (True, True, 3)


def test_a_hundred_notes_take_no_more_commits(many: Subject) -> None:
    with many.open() as library:
        words = library.index(words_only=True)
        whole = library.index()
    batches = -(-words.chunks // library.config.encode.embed.batch)
    assert (words.generation <= 3, whole.generation - words.generation <= batches + OTHERS) == (
        True,
        True,
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says how many bytes a process has read"
)
def test_where_nothing_changed_nothing_is_written_and_no_more_bytes_are_read(many: Subject) -> None:
    time.sleep(TRUSTED_SECONDS)
    with many.open() as library:
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
    found = {
        path.name: path.stat()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }
    return {name: (each.st_size, each.st_mtime_ns) for name, each in found.items()}


def test_indexing_again_reads_what_changed_twice_and_no_other_note(subject: Subject) -> None:
    time.sleep(TRUSTED_SECONDS)
    names = frozenset({"sync.md", "canvas.md", "graph.md"})
    with subject.open() as library:
        before = library.index()
        with files_read(names) as read:
            again = library.index()
        assert (again.embedded, again.generation - before.generation, read.total()) == (0, 0, 0)
        (subject.folder / "graph.md").write_text(
            "# Graph view\n\nShows hubs and islands, too.\n", encoding="utf-8"
        )
        with files_read(names) as read:
            library.index()
        assert read == {"graph.md": 2}  # for its digest, then to be parsed
