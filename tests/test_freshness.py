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
from thumbindex.errors import UsageError
from thumbindex.index.locks import at_work, locked
from thumbindex.index.store import Store
from thumbindex.library import Library
from thumbindex.library.freshness import UNTENDED_SECONDS, is_tended
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


def ask(library: Library, text: str = "plums", seconds: float = 0.15) -> Answer:
    return library.query(text, wait_fresh=seconds)


def paths(answer: Answer) -> set[str]:
    return {each.path for each in answer.passages}


def test_without_being_asked_an_answer_says_nothing_of_the_disk(reader: Library) -> None:
    assert reader.query("apples").freshness is None


def test_an_index_that_shows_the_disk_is_fresh_at_once(reader: Library) -> None:
    began = time.monotonic()
    assert ask(reader, "apples", 60).freshness == FRESH
    assert time.monotonic() - began < 10


def test_what_nobody_indexes_is_named_when_the_time_is_up(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    write(vault / "apples.md", "# Apples\n\nApples are red.\n")
    (vault / "pears.md").unlink()
    answer = ask(reader)
    assert answer.freshness == Freshness(
        (("vault", "apples.md"), ("vault", "pears.md"), ("vault", "plums.md"))
    )
    assert not answer.freshness.fresh


def test_an_answer_waits_for_whoever_indexes_and_then_knows_it(
    reader: Library, writer: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")
    later = threading.Timer(0.3, lambda: writer.index(words_only=True))
    later.start()
    answer = ask(reader, seconds=30)
    later.join()
    assert answer.freshness == FRESH
    assert "plums.md" in paths(answer)


def test_a_file_that_has_changed_again_does_not_hold_up_what_is_indexed(
    reader: Library, writer: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n\nPlums have stones.\n")

    def index_and_edit(progress: Progress) -> None:
        if not (vault / "later.md").exists():
            writer.index(words_only=True)
            write(vault / "later.md", "# Later\n\nOf this nobody asked.\n")
            write(vault / "plums.md", "# Plums\n\nPlums are blue and this is not indexed.\n")

    # the time of the first text is old enough to be kept: what was indexed is known by it
    os.utime(vault / "plums.md", ns=(10**18, 10**18))
    assert reader.query("plums", wait_fresh=10, progress=index_and_edit).freshness == FRESH


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="nothing is unreadable here")
def test_what_cannot_be_read_is_not_waited_for(
    reader: Library, writer: Library, vault: Path
) -> None:
    write(vault / "locked.md", "# Locked\n")
    (vault / "locked.md").chmod(0)
    writer.index(words_only=True)
    assert ask(reader, "apples").freshness == FRESH


def test_a_folder_that_is_gone_is_named_and_not_waited_for(reader: Library, vault: Path) -> None:
    vault.rename(vault.with_name("elsewhere"))
    began = time.monotonic()
    answer = ask(reader, "apples", 30)
    assert time.monotonic() - began < 10
    assert answer.freshness == Freshness(gone=("vault",))
    assert "apples.md" in paths(answer)


def test_words_that_are_read_and_cannot_be_searched_yet_are_waited_for(reader: Library) -> None:
    store = Store(reader.opened[0].places.store)
    with store.transaction():
        store.set_meta("words", str(store.generation + 1))
    store.close()
    assert ask(reader, "apples").freshness == Freshness(behind=("vault",))


def test_only_the_folders_that_are_asked_are_waited_for(vault: Path, tmp_path: Path) -> None:
    write(tmp_path / "other" / "plums.md", "# Plums\n\nPlums have stones.\n")
    with open_library(vault, tmp_path / "other") as library:
        library.index()
        write(tmp_path / "other" / "more.md", "# More\n")
        assert library.query("apples", folder=["vault"], wait_fresh=0.15).freshness == FRESH
        assert library.query("apples", wait_fresh=0.15).freshness == Freshness(
            (("other", "more.md"),)
        )


def test_without_an_index_every_file_is_missing_and_without_files_nothing(
    vault: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with (
        open_library(vault) as library,
        open_library(tmp_path / "empty") as empty,
    ):
        assert ask(library).freshness == Freshness((("vault", "apples.md"), ("vault", "pears.md")))
        assert ask(empty, seconds=30).freshness == FRESH


def test_whoever_has_gone_is_not_waited_for(reader: Library, vault: Path) -> None:
    write(vault / "plums.md", "# Plums\n")
    told: list[Progress] = []
    began = time.monotonic()
    reader.query("plums", wait_fresh=60, progress=told.append, interrupted=lambda: len(told) > 2)
    assert time.monotonic() - began < 10
    assert told[0] == Progress("vault", "words", 0, 1)


@pytest.mark.parametrize("seconds", [-1, 60.5, float("nan")])
def test_a_time_that_is_none_is_refused(reader: Library, seconds: float) -> None:
    with pytest.raises(UsageError, match="give seconds, from 0 to 60"):
        reader.query("apples", wait_fresh=seconds)


def test_news_are_what_came_went_and_changed_since_the_last_look(
    reader: Library, writer: Library, vault: Path
) -> None:
    news = reader.news()
    assert news.look() == {}
    write(vault / "plums.md", "# Plums\n")
    write(vault / "apples.md", "# Apples\n\nChanged.\n")
    (vault / "pears.md").unlink()
    writer.index(words_only=True)
    reader.query("plums")  # opens what is new: the news are not lost to it
    assert news.look() == {"vault": Changes(("plums.md",), ("apples.md",), ("pears.md",), 0)}
    assert news.look() == {}


def test_a_note_that_is_touched_or_embedded_is_no_news(
    reader: Library, writer: Library, vault: Path
) -> None:
    news = reader.news()
    news.look()
    os.utime(vault / "apples.md", ns=(10**18, 10**18))
    writer.index(rebuild=True)
    assert news.look() == {}


def test_what_nobody_writes_or_is_about_to_write_is_not_waited_for_to_the_end(
    reader: Library, vault: Path
) -> None:
    write(vault / "plums.md", "# Plums\n")
    began = time.monotonic()
    answer = reader.query(
        "plums", wait_fresh=60, attended=lambda: time.monotonic() - began < UNTENDED_SECONDS + 0.5
    )
    assert answer.freshness == Freshness((("vault", "plums.md"),), untended=("vault",))
    assert UNTENDED_SECONDS + 0.5 <= time.monotonic() - began < UNTENDED_SECONDS + 10


@pytest.mark.parametrize("sign", ["watch", "lock", "work"])
def test_whoever_watches_writes_or_works_is_seen(reader: Library, sign: str) -> None:
    folder = reader.opened[0]
    places = folder.places
    with {
        "watch": FileLock(places.watch),
        "lock": locked(places.lock),
        "work": at_work(places.folder),
    }[sign]:
        assert is_tended(folder)
    assert not is_tended(folder)
