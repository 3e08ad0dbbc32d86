"""The background work of a server: indexer, models, repairs."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from notes import write
from thumbindex.background.host import MODEL_WAIT_SECONDS, LibraryHost
from thumbindex.background.supervisor import Message, indexer_command, postponed_message
from thumbindex.errors import IndexDamagedError, ModelError, StorageError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.mcp.query_reply import reply_query
from thumbindex.opening import OpenOptions, open_library
from waiting import until


def test_failed_indexer_leaves_its_last_message_in_the_notes(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(),
        lambda opening: library,
        command=[sys.executable, "-c", "raise SystemExit('The disk is full.')"],
    )
    assert background.library() is library
    assert until(lambda: bool(background.notes()))
    assert until(lambda: any("(The disk is full.)" in note for note in background.notes()))
    background.stop()


def test_indexer_that_cannot_start_is_reported_at_once(vault: Path, tmp_path: Path) -> None:
    opening = OpenOptions((str(vault),), tmp_path / "index")
    background = LibraryHost(opening, open_library, command=["/nowhere/program"])
    background.start()
    assert until(lambda: bool(background.notes()))
    assert background.notes()[0].startswith(
        "Cannot start indexing ([Errno 2] No such file or directory: '/nowhere/program')"
    )
    started = time.monotonic()
    with pytest.raises(StorageError, match="Cannot start indexing"):
        background.await_words(60)
    assert time.monotonic() - started < 10
    background.stop()


def failing_indexer(folder: str, then: str) -> list[str]:
    """Return the command of a child that reports that it cannot write an index."""
    reason = StorageError("The index folder cannot be written.")
    line = Message(folder, "words", postponed_message(folder, reason)).line()
    return [
        sys.executable,
        "-c",
        f"import sys; sys.stderr.write({line!r}); sys.stderr.flush(); {then}",
    ]


def test_query_without_an_index_reports_why_none_can_be_made(vault: Path, tmp_path: Path) -> None:
    command = failing_indexer("vault", "sys.exit(1)")
    background = LibraryHost(
        OpenOptions((str(vault),), tmp_path / "index"), open_library, command=command
    )
    background.start()
    assert until(lambda: any("cannot be written" in note for note in background.notes()))
    with pytest.raises(StorageError, match="The index folder cannot be written"):
        background.await_words(0.3)
    background.stop()


def test_answer_names_the_folder_without_an_index_and_the_reason(
    vault: Path, tmp_path: Path
) -> None:
    write(tmp_path / "other/b.md", "# B\n\nSyncing.\n")
    with open_library(OpenOptions((str(vault),), tmp_path / "index")) as writer:
        writer.index(complete=False)
    both = OpenOptions((str(vault), str(tmp_path / "other")), tmp_path / "index")
    background = LibraryHost(both, open_library, command=failing_indexer("other", "input()"))
    background.start()
    assert until(lambda: background.notes() != ())
    answer = reply_query(
        background.library(),
        {"query": "begin syncing your vault"},
        index_failures=background.index_failures(),
    )
    assert "sync.md" in answer.text
    assert "other: cannot index changes (The index folder cannot be written.)" in answer.text
    background.stop()


def test_missing_model_is_reported_in_the_notes(library: Library) -> None:
    class WithoutModel(Library):
        def load_models(self) -> None:
            raise ModelError("Name another.")

    background = LibraryHost(
        OpenOptions(), lambda opening: WithoutModel.open([library.folders[0][1]]), command=[]
    )
    background.start()
    assert until(lambda: background.notes() == ("Name another. Queries run without the model.",))


def test_first_query_waits_briefly_for_the_embedding_model(
    library: Library, vault: Path, indexes: Path
) -> None:
    class Slow(Library):
        seconds = 0.3

        def load_models(self) -> None:
            time.sleep(self.seconds)
            self._embedder = FakeEmbedder()

    def wait(seconds: float, index: Path) -> tuple[bool, float]:
        background = LibraryHost(OpenOptions(), lambda opening: slow, command=[])
        slow = Slow.open([vault], index=index, wait_for_models=False)
        slow.seconds = seconds
        started = time.monotonic()
        background.await_model()
        return slow.has_model, time.monotonic() - started

    assert wait(0.3, indexes)[0]
    ready, seconds = wait(10, indexes)
    assert (ready, MODEL_WAIT_SECONDS <= seconds < 10) == (False, True)
    assert wait(10, indexes / "none")[1] < MODEL_WAIT_SECONDS  # no vectors, no reason to wait


def test_library_that_cannot_open_raises_the_error_each_time() -> None:
    background = LibraryHost(OpenOptions(("/nowhere",)), open_library, command=[])
    for _ in range(2):
        with pytest.raises(UnknownFolderError, match="/nowhere"):
            background.library()


def test_query_waits_for_a_first_index_for_a_limited_time(vault: Path, tmp_path: Path) -> None:
    opening = OpenOptions((str(vault),), tmp_path / "index")
    background = LibraryHost(opening, open_library, command=[])
    started = time.monotonic()
    background.await_words(0.3)
    assert 0.3 <= time.monotonic() - started < 10
    with open_library(opening) as writer:
        writer.index(complete=False)
    started = time.monotonic()
    background.await_words(60)
    assert time.monotonic() - started < 10


def test_indexer_command_passes_all_options_and_ignores_modules_in_the_working_directory() -> None:
    opening = OpenOptions(("notes", "-odd"), Path("/ix"), Path("/c.toml"), ("query.limit=3",))
    command = indexer_command(opening, ["notes", "-odd"])
    assert command[1:5] == ["-P", "-m", "thumbindex.background.indexer", "--folder=notes"]
    assert command[-3:] == ["--", "notes", "-odd"]
    assert opening.arguments() == [
        "--folder=notes",
        "--folder=-odd",
        "--set=query.limit=3",
        "--index=/ix",
        "--config=/c.toml",
    ]
    assert OpenOptions.from_arguments(opening.arguments()) == opening
    assert OpenOptions.from_arguments(()) == OpenOptions()


def test_indexer_without_watch_indexes_everything_once_and_exits(
    vault: Path, tmp_path: Path
) -> None:
    script = (
        "import sys\nfrom thumbindex.library import Library\n"
        "from thumbindex.background.indexer import keep_up_to_date\n"
        "from thumbindex.config import load_config\nfrom fakes import FakeEmbedder\n"
        "config = load_config(overrides=['serve.watch.enabled=false'])\n"
        "keep_up_to_date(lambda: Library.open([sys.argv[1]], index=sys.argv[2], config=config, "
        "embedder=FakeEmbedder()))\n"
    )
    command = [sys.executable, "-c", script, str(vault), str(tmp_path / "index")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert (child.wait(30), child.stderr and child.stderr.read()) == (0, "")
    with open_library(OpenOptions((str(vault),), tmp_path / "index")) as library:
        assert (library.status()[0].index.documents, library.status()[0].index.pending) == (3, 0)


NOTES = (
    Message("vault", "watch", "Something is up."),
    Message("vault", "vectors", "A model is\nmissing."),
    Message("vault", "watch", ""),
)


def test_indexer_messages_stay_until_withdrawn_and_are_logged(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(note.line() for note in NOTES)
    script = f"import sys; sys.stderr.write({lines!r}); sys.stderr.flush(); input()"
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", script]
    )
    background.start()
    assert until(lambda: background.notes() == ("A model is\nmissing.",))
    background.stop()
    assert capsys.readouterr().err == (
        "note: Something is up.\nnote: A model is missing.\nnote: resolved: Something is up.\n"
    )


def test_disconnected_client_is_dropped_without_waiting_for_indexing(
    vault: Path, tmp_path: Path
) -> None:
    background = LibraryHost(
        OpenOptions((str(vault),), tmp_path / "index"), open_library, command=[]
    )
    started = time.monotonic()
    background.await_words(60, interrupted=lambda: True)
    assert time.monotonic() - started < 10


def test_query_on_a_damaged_index_is_retried_after_the_repair(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", "input()"]
    )
    repair = library.opened[0].index_paths.repair

    def ask() -> str:
        if not repair.exists():
            raise IndexDamagedError("A page is broken.")
        repair.unlink()
        return "repaired"

    background.library()
    assert background.answer_after_repair(ask) == "repaired"
    background.stop()


def test_damage_without_an_indexer_is_reported_at_once(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", "pass"]
    )
    background.library()
    assert until(lambda: not background.has_indexer)

    def ask() -> None:
        raise IndexDamagedError("A page is broken.")

    started = time.monotonic()
    with pytest.raises(IndexDamagedError, match="A page is broken"):
        background.answer_after_repair(ask)
    assert time.monotonic() - started < 10
    background.stop()
