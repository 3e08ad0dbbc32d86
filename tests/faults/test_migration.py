"""An index of the first schema becomes one of today's in place: with its vectors, with progress, on every way that leads there."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from thumbindex.index.database import SCHEMA_VERSION
from thumbindex.index.stored_vectors import unpacked
from thumbindex.model import Progress
from thumbindex.serve.child import PROGRESS
from thumbindex.serve.cli import app
from thumbindex.serve.live import Live
from thumbindex.serve.sentences import how_far
from thumbindex.testing import FakeEmbedder

FIRST_SCHEMA = Path(__file__).with_name("first_schema.sql")
TABLES = ("documents", "sections", "chunks", "links", "problems")


WHOLE_CHUNKS = (
    "UPDATE now.chunks AS c SET heading_path = coalesce(c.heading_path, s.heading_path), text = coalesce(c.text, substr(s.text, c.at + 1, c.size))"
    " FROM now.sections s WHERE s.document = c.document AND s.ordinal = c.section"
)
"""What chunks leave to their sections, they had themselves."""


def make_first(store: Path) -> None:
    """Put a store of the first schema in place of one of today's: the same rows, as far as it had columns for them."""
    now = store.with_name("now")
    store.replace(now)
    with closing(sqlite3.connect(store)) as first:
        first.executescript(FIRST_SCHEMA.read_text(encoding="utf-8"))
        first.execute("ATTACH ? AS now", (str(now),))
        first.execute(WHOLE_CHUNKS)
        for table in (*TABLES, "meta"):
            columns = ", ".join(row[1] for row in first.execute(f"PRAGMA main.table_info({table})"))
            first.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM now.{table}")
        fingerprint = first.execute("SELECT value FROM now.meta WHERE key = 'fingerprint'").fetchone()[0]
        for key, vector in first.execute("SELECT key, vector FROM now.vectors").fetchall():
            first.execute("INSERT INTO main.vectors VALUES (?, ?, ?)", (fingerprint, key, unpacked([vector]).tobytes()))
        first.execute("DELETE FROM meta WHERE key IN ('schema', 'census', 'last_row')")
        first.commit()
        first.execute("PRAGMA user_version = 1")
    now.unlink()


@pytest.fixture
def first(old, scratch) -> Path:
    """Return a directory with one index, of the first schema."""
    index = old.copy(scratch / "index")
    make_first(old.folder(index) / "index.sqlite3")
    return index


def vectors_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "index.sqlite3")) as store:
        return int(store.execute("SELECT count(*) FROM vectors").fetchone()[0])


def migrating(total: int) -> list[tuple[str, int, int]]:
    return [("migrating", 0, total), ("migrating", total, total)]


def test_an_index_of_the_first_schema_is_migrated_in_place_and_tells_how_far_it_is(faults, old, first):
    told: list[Progress] = []
    embedder = FakeEmbedder()
    with faults.open_library(old.root, first, embedder) as library:
        report = library.index(progress=told.append)
        assert ("earlier version" in report.mended[0], embedder.embedded, faults.dump(library)) == (True, 0, old.dump)
        assert faults.answers(library) == old.answers
    steps = [(each.phase, each.done, each.total) for each in told]
    assert (steps[:2], steps[-1]) == (migrating(vectors_of(old.folder(first))), ("words", 24, 24))
    with closing(sqlite3.connect(old.folder(first) / "index.sqlite3")) as store:
        assert store.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_the_command_line_says_that_it_migrates(faults, old, first):
    opener = lambda opening: faults.open_library(old.root, first)  # noqa: E731
    result = CliRunner().invoke(app, ["index"], obj=opener)
    assert result.exit_code == 0
    total = vectors_of(old.folder(first))
    said = [line for line in result.stderr.splitlines() if "migrating" in line]
    assert said == [f"vault: migrating {done}/{total}" for done in (0, total)]


def test_a_server_says_that_it_migrates_and_then_that_it_did(faults, old, first):
    lines: list[str] = []
    with faults.open_library(old.root, first) as worker, faults.open_library(old.root, first) as reader:
        live = Live(worker, lines.append)
        thread = threading.Thread(target=live.run)
        thread.start()
        until = time.monotonic() + 20
        while not live.is_idle and time.monotonic() < until:
            time.sleep(0.02)
        live.stop()
        thread.join()
        assert faults.dump(reader) == old.dump
    first_step = Progress(**json.loads(lines[0].removeprefix(PROGRESS)))
    assert how_far(first_step) == f"migrating the index: looked at 0 of {first_step.total} old vectors"
    assert any(line.startswith("note in ") and "earlier version" in line for line in lines)


def test_an_index_of_a_later_schema_is_refused_and_stays_as_it_was(child, old, scratch):
    index = old.copy(scratch / "index")
    store = old.folder(index) / "index.sqlite3"
    with closing(sqlite3.connect(store)) as later:
        later.execute("DROP TABLE meta")  # what a later version may well do
        later.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = store.read_bytes()
    told = child.do(root=old.root, index=index)
    assert (told["outcome"], told["error"], "upgrade thumbindex" in told["message"]) == ("refused", "IndexTooNewError", True)
    assert store.read_bytes() == before
