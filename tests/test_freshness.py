"""An answer that waits for what is on disk, or says what is missing; and the news of what came,
went and changed.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from folders import open_library, write
from thumbindex.index.locks import hold_lock, publish_run
from thumbindex.index.refresh_requests import MAX_WAIT_SECONDS, pending_requests
from thumbindex.index.refresh_requests import request_refresh as ask_indexer
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


def request_refresh(library: Library, text: str = "plums", seconds: float = 0.15) -> Answer:
    return library.query(text, wait_fresh=seconds)


def paths(answer: Answer) -> set[str]:
    return {passage.path for passage in answer.passages}


def test_without_being_asked_an_answer_says_nothing_of_the_disk(reader: Library) -> None:
    assert reader.query("apples").freshness is None


def test_a_folder_that_nobody_indexes_is_indexed_by_the_question(
    reader: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    (vault / "pears.md").unlink()
    answer = request_refresh(reader, "plums pears", 30)
    assert answer.freshness == FRESH
    assert "plums.md" in paths(answer)
    assert "pears.md" not in paths(answer)


def test_a_server_leaves_indexing_to_its_child(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    answer = reader.query("plums", wait_fresh=0.15, indexer_starting=lambda: True)
    assert answer.freshness == Freshness(behind=("vault",))
    assert "plums.md" not in paths(answer)


def test_an_answer_waits_for_whoever_indexes_and_then_knows_it(
    reader: Library, writer: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    later = threading.Timer(0.3, lambda: writer.index(words_only=True))
    later.start()
    answer = reader.query("plums", wait_fresh=30, indexer_starting=lambda: True)
    later.join()
    assert answer.freshness == FRESH
    assert "plums.md" in paths(answer)


def test_a_run_that_began_before_the_question_does_not_answer_it(
    reader: Library, writer: Library, vault: Path
) -> None:
    def ask_in_the_middle(progress: Progress) -> None:
        asks.append(ask_indexer(reader.opened[0].index_paths.folder))

    asks: list[Path] = []
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    writer.index(words_only=True, progress=ask_in_the_middle)
    assert asks[0].exists()
    writer.index(words_only=True)
    assert not any(path.exists() for path in asks)


def test_an_index_that_is_forgotten_meanwhile_is_behind(
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


def test_a_run_that_was_cut_short_answers_nobody(
    reader: Library, writer: Library, vault: Path
) -> None:
    for number in range(3 * FIRST_BATCH_BYTES // 100_000):
        write(vault / f"{number}.md", "plums have stones " * 6_000)
    path = ask_indexer(reader.opened[0].index_paths.folder)
    assert writer.index(words_only=True, interrupted=lambda: True).deferred
    assert path.exists()


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="nothing is unreadable here")
def test_what_cannot_be_read_is_not_waited_for(
    reader: Library, writer: Library, vault: Path
) -> None:
    write(vault / "locked.md", "# Locked\n")
    (vault / "locked.md").chmod(0)
    writer.index(words_only=True)
    assert request_refresh(reader, "apples").freshness == FRESH


def test_an_empty_folder_without_an_index_is_fresh(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with open_library(tmp_path / "empty") as empty:
        assert request_refresh(empty, seconds=30).freshness == FRESH


def test_whoever_has_gone_is_not_waited_for(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n")
    began = time.monotonic()
    reader.query(
        "plums",
        wait_fresh=60,
        interrupted=lambda: time.monotonic() > began + 0.2,
        indexer_starting=lambda: True,
    )
    assert time.monotonic() - began < 10
    assert pending_requests(reader.opened[0].index_paths.folder) == []


def test_an_old_ask_that_nobody_could_delete_is_passed_over(reader: Library) -> None:
    folder = reader.opened[0].index_paths.folder
    asked = ask_indexer(folder)
    assert pending_requests(folder) == [asked]
    long_ago = time.time() - MAX_WAIT_SECONDS
    os.utime(asked, (long_ago, long_ago))
    assert pending_requests(folder) == []


def test_news_are_what_came_went_and_changed_since_the_last_look(
    reader: Library, writer: Library, vault: Path
) -> None:
    changes = reader.track_changes()
    assert changes.poll() == {}
    write(vault / "plums.md", "# Plums\n")
    write(vault / "apples.md", "# Apples\n\nChanged.\n")
    (vault / "pears.md").unlink()
    writer.index(words_only=True)
    reader.query("plums")  # opens what is new: the news are not lost to it
    assert changes.poll() == {"vault": Changes(("plums.md",), ("apples.md",), ("pears.md",), 0)}
    assert changes.poll() == {}


def test_a_note_that_is_touched_or_embedded_is_no_news(
    reader: Library, writer: Library, vault: Path
) -> None:
    changes = reader.track_changes()
    changes.poll()
    os.utime(vault / "apples.md", ns=(10**18, 10**18))
    writer.index(rebuild=True)
    assert changes.poll() == {}


def test_what_nobody_writes_or_is_about_to_write_is_not_waited_for_to_the_end(
    reader: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n")
    began = time.monotonic()
    answer = reader.query(
        "plums",
        wait_fresh=60,
        indexer_starting=lambda: time.monotonic() - began < TAKEOVER_SECONDS + 0.5,
    )
    assert answer.freshness == Freshness(behind=("vault",), without_indexer=("vault",))
    assert TAKEOVER_SECONDS + 0.5 <= time.monotonic() - began < TAKEOVER_SECONDS + 10


@pytest.mark.parametrize("sign", ["watch", "lock", "work"])
def test_whoever_watches_writes_or_works_is_seen(reader: Library, sign: str) -> None:
    folder = reader.opened[0]
    places = folder.index_paths
    with {
        "watch": FileLock(places.watch),
        "lock": hold_lock(places.lock),
        "work": publish_run(places.folder),
    }[sign]:
        assert has_indexer(folder)
    assert not has_indexer(folder)
