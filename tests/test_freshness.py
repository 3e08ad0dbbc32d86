"""Queries that wait for current files, and changes since the last poll."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from folders import open_library, write
from thumbindex.index.locks import hold_lock, publish_run
from thumbindex.index.refresh_requests import MAX_WAIT_SECONDS, pending_requests, request_refresh
from thumbindex.library import Library
from thumbindex.library.freshness import TAKEOVER_SECONDS, has_indexer
from thumbindex.library.indexing import FIRST_BATCH_BYTES
from thumbindex.model import Answer, Changes, Freshness, Progress

FRESH = Freshness()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    write(tmp_path / "vault" / "apples.md", "# Apples\n\nApples grow on trees.\n")
    write(tmp_path / "vault" / "pears.md", "# Pears\n\nPears ripen off the tree.\n")
    return tmp_path / "vault"


@pytest.fixture
def writer(vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        library.index()
        yield library


@pytest.fixture
def reader(writer: Library, vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        yield library


def query_fresh(library: Library, text: str = "plums", seconds: float = 0.15) -> Answer:
    return library.query(text, wait_fresh=seconds)


def paths(answer: Answer) -> set[str]:
    return {passage.path for passage in answer.passages}


def test_answer_has_no_freshness_unless_requested(reader: Library) -> None:
    assert reader.query("apples").freshness is None


def test_query_indexes_a_folder_without_an_indexer(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    (vault / "pears.md").unlink()
    answer = query_fresh(reader, "plums pears", 30)
    assert answer.freshness == FRESH
    assert "plums.md" in paths(answer)
    assert "pears.md" not in paths(answer)


def test_server_query_leaves_indexing_to_the_indexer(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    answer = reader.query("plums", wait_fresh=0.15, indexer_starting=lambda: True)
    assert answer.freshness == Freshness(behind=("vault",))
    assert "plums.md" not in paths(answer)


def test_query_waits_for_a_running_indexer(reader: Library, writer: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    later = threading.Timer(0.3, lambda: writer.index(complete=False))
    later.start()
    answer = reader.query("plums", wait_fresh=30, indexer_starting=lambda: True)
    later.join()
    assert answer.freshness == FRESH
    assert "plums.md" in paths(answer)


def test_run_that_began_before_the_request_does_not_complete_it(
    reader: Library, writer: Library, vault: Path
) -> None:
    def request_during_run(progress: Progress) -> None:
        requests.append(request_refresh(reader.opened[0].index_paths.folder))

    requests: list[Path] = []
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    writer.index(complete=False, progress=request_during_run)
    assert requests[0].exists()
    writer.index(complete=False)
    assert not any(path.exists() for path in requests)


def test_index_forgotten_during_the_wait_is_behind(
    reader: Library, writer: Library, vault: Path
) -> None:
    def forget() -> bool:
        writer.forget()
        return False

    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    answer = reader.query(
        "plums", wait_fresh=0.5, interrupted=forget, indexer_starting=lambda: True
    )
    assert answer.freshness == Freshness(behind=("vault",))


def test_interrupted_run_completes_no_request(
    reader: Library, writer: Library, vault: Path
) -> None:
    for number in range(3 * FIRST_BATCH_BYTES // 100_000):
        write(vault / f"{number}.md", "plums have stones " * 6_000)
    path = request_refresh(reader.opened[0].index_paths.folder)
    assert writer.index(complete=False, interrupted=lambda: True).deferred
    assert path.exists()


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="nothing is unreadable here")
def test_unreadable_note_is_not_waited_for(reader: Library, writer: Library, vault: Path) -> None:
    write(vault / "locked.md", "# Locked\n")
    (vault / "locked.md").chmod(0)
    writer.index(complete=False)
    assert query_fresh(reader, "apples").freshness == FRESH


def test_empty_folder_without_an_index_is_fresh(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with open_library(tmp_path / "empty") as empty:
        assert query_fresh(empty, seconds=30).freshness == FRESH


def test_interrupted_query_stops_waiting(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n")
    started = time.monotonic()
    reader.query(
        "plums",
        wait_fresh=60,
        interrupted=lambda: time.monotonic() > started + 0.2,
        indexer_starting=lambda: True,
    )
    assert time.monotonic() - started < 10
    assert pending_requests(reader.opened[0].index_paths.folder) == []


def test_stale_refresh_request_is_ignored(reader: Library) -> None:
    folder = reader.opened[0].index_paths.folder
    request = request_refresh(folder)
    assert pending_requests(folder) == [request]
    long_ago = time.time() - MAX_WAIT_SECONDS
    os.utime(request, (long_ago, long_ago))
    assert pending_requests(folder) == []


def test_poll_returns_changes_since_the_last_poll(
    reader: Library, writer: Library, vault: Path
) -> None:
    changes = reader.track_changes()
    assert changes.poll() == {}
    write(vault / "plums.md", "# Plums\n")
    write(vault / "apples.md", "# Apples\n\nChanged.\n")
    (vault / "pears.md").unlink()
    writer.index(complete=False)
    reader.query("plums")  # opens the new generation without hiding it from `poll`
    assert changes.poll() == {"vault": Changes(("plums.md",), ("apples.md",), ("pears.md",), 0)}
    assert changes.poll() == {}


def test_touched_or_rebuilt_note_is_no_change(
    reader: Library, writer: Library, vault: Path
) -> None:
    changes = reader.track_changes()
    changes.poll()
    os.utime(vault / "apples.md", ns=(10**18, 10**18))
    writer.index(rebuild=True)
    assert changes.poll() == {}


def test_query_stops_waiting_without_an_indexer(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n")
    started = time.monotonic()
    answer = reader.query(
        "plums",
        wait_fresh=60,
        indexer_starting=lambda: time.monotonic() - started < TAKEOVER_SECONDS + 0.5,
    )
    assert answer.freshness == Freshness(behind=("vault",), without_indexer=("vault",))
    assert TAKEOVER_SECONDS + 0.5 <= time.monotonic() - started < TAKEOVER_SECONDS + 10


@pytest.mark.parametrize("sign", ["watch", "lock", "work"])
def test_watcher_writer_or_run_counts_as_indexer(reader: Library, sign: str) -> None:
    folder = reader.opened[0]
    index_paths = folder.index_paths
    with {
        "watch": FileLock(index_paths.watch),
        "lock": hold_lock(index_paths.lock),
        "work": publish_run(index_paths.folder),
    }[sign]:
        assert has_indexer(folder)
    assert not has_indexer(folder)
