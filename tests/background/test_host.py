"""What goes on behind a server's answers."""

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


def test_a_failed_child_leaves_its_last_words_and_the_server_goes_on(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(),
        lambda opening: library,
        command=[sys.executable, "-c", "raise SystemExit('The disk is full.')"],
    )
    assert background.library() is library
    assert until(lambda: bool(background.notes()))
    assert until(lambda: any("(The disk is full.)" in note for note in background.notes()))
    background.stop()


def test_a_child_that_cannot_be_started_is_named_and_the_server_goes_on(
    vault: Path, tmp_path: Path
) -> None:
    opening = OpenOptions((str(vault),), tmp_path / "index")
    background = LibraryHost(opening, open_library, command=["/nowhere/program"])
    background.start()
    assert until(lambda: bool(background.notes()))
    assert background.notes()[0].startswith(
        "Indexing cannot be started ([Errno 2] No such file or directory: '/nowhere/program')"
    )
    began = time.monotonic()
    with pytest.raises(StorageError, match="Indexing cannot be started"):
        background.await_words(60)
    assert time.monotonic() - began < 10
    background.stop()


def noting(folder: str, then: str) -> list[str]:
    """Return a child that says why it cannot write an index."""
    reason = StorageError("The index folder cannot be written.")
    said = Message(folder, "words", postponed_message(folder, reason)).line()
    return [
        sys.executable,
        "-c",
        f"import sys; sys.stderr.write({said!r}); sys.stderr.flush(); {then}",
    ]


def test_where_no_index_can_be_made_whoever_asks_is_told_why(vault: Path, tmp_path: Path) -> None:
    command = noting("vault", "sys.exit(1)")
    background = LibraryHost(
        OpenOptions((str(vault),), tmp_path / "index"), open_library, command=command
    )
    background.start()
    assert until(lambda: any("cannot be written" in note for note in background.notes()))
    with pytest.raises(StorageError, match="The index folder cannot be written"):
        background.await_words(0.3)
    background.stop()


def test_an_answer_says_of_which_folder_there_is_no_index_and_why(
    vault: Path, tmp_path: Path
) -> None:
    write(tmp_path / "other/b.md", "# B\n\nSyncing.\n")
    with open_library(OpenOptions((str(vault),), tmp_path / "index")) as writer:
        writer.index(words_only=True)
    both = OpenOptions((str(vault), str(tmp_path / "other")), tmp_path / "index")
    background = LibraryHost(both, open_library, command=noting("other", "input()"))
    background.start()
    assert until(lambda: background.notes() != ())
    answer = reply_query(
        background.library(),
        {"query": "begin syncing your vault"},
        index_failures=background.index_failures(),
    )
    assert "sync.md" in answer.text
    assert "other: changes wait (The index folder cannot be written.)" in answer.text
    background.stop()


def test_without_a_model_the_notes_say_what_to_do(library: Library) -> None:
    class WithoutModel(Library):
        def load_models(self) -> None:
            raise ModelError("Name another.")

    background = LibraryHost(
        OpenOptions(), lambda opening: WithoutModel.open([library.folders[0][1]]), command=[]
    )
    background.start()
    assert until(lambda: background.notes() == ("Name another. Answers go on without it.",))


def test_a_first_query_waits_for_the_model_of_vectors_but_not_for_long(
    library: Library, vault: Path, indexes: Path
) -> None:
    class Slow(Library):
        seconds = 0.3

        def load_models(self) -> None:
            time.sleep(self.seconds)
            self._embedder = FakeEmbedder()

    def waited(seconds: float, index: Path) -> tuple[bool, float]:
        background = LibraryHost(OpenOptions(), lambda opening: found, command=[])
        found = Slow.open([vault], index=index, wait_for_models=False)
        found.seconds = seconds
        began = time.monotonic()
        background.await_model()
        return found.has_model, time.monotonic() - began

    assert waited(0.3, indexes)[0]
    ready, seconds = waited(10, indexes)
    assert (ready, MODEL_WAIT_SECONDS <= seconds < 10) == (False, True)
    assert waited(10, indexes / "none")[1] < MODEL_WAIT_SECONDS  # no vectors, no reason to wait


def test_who_asks_for_a_library_that_cannot_open_gets_the_reason_each_time() -> None:
    background = LibraryHost(OpenOptions(("/nowhere",)), open_library, command=[])
    for _ in range(2):
        with pytest.raises(UnknownFolderError, match="/nowhere"):
            background.library()


def test_a_query_waits_for_the_first_words_but_not_forever(vault: Path, tmp_path: Path) -> None:
    opening = OpenOptions((str(vault),), tmp_path / "index")
    background = LibraryHost(opening, open_library, command=[])
    began = time.monotonic()
    background.await_words(0.3)
    assert 0.3 <= time.monotonic() - began < 10
    with open_library(opening) as writer:
        writer.index(words_only=True)
    began = time.monotonic()
    background.await_words(60)
    assert time.monotonic() - began < 10


def test_the_child_has_the_same_options_and_imports_nothing_from_the_working_directory() -> None:
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


def test_a_child_that_is_not_to_watch_indexes_everything_and_ends_well(
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


def test_the_notes_of_a_child_hold_until_it_takes_them_back_and_the_log_is_readable(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "".join(note.line() for note in NOTES)
    talker = f"import sys; sys.stderr.write({said!r}); sys.stderr.flush(); input()"
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", talker]
    )
    background.start()
    assert until(lambda: background.notes() == ("A model is\nmissing.",))
    background.stop()
    assert capsys.readouterr().err == (
        "note: Something is up.\nnote: A model is missing.\nnote: no longer so: Something is up.\n"
    )


def test_disconnected_client_is_dropped_without_waiting_for_indexing(
    vault: Path, tmp_path: Path
) -> None:
    background = LibraryHost(
        OpenOptions((str(vault),), tmp_path / "index"), open_library, command=[]
    )
    began = time.monotonic()
    background.await_words(60, interrupted=lambda: True)
    assert time.monotonic() - began < 10


def test_damage_is_repaired_by_the_child_and_asked_again(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", "input()"]
    )
    repair = library.opened[0].index_paths.repair

    def ask() -> str:
        if not repair.exists():
            raise IndexDamagedError("A page is broken.")
        repair.unlink()
        return "mended"

    background.library()
    assert background.answer_after_repair(ask) == "mended"
    background.stop()


def test_damage_that_nobody_can_repair_is_told_at_once(library: Library) -> None:
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", "pass"]
    )
    background.library()
    assert until(lambda: not background.has_indexer)

    def ask() -> None:
        raise IndexDamagedError("A page is broken.")

    began = time.monotonic()
    with pytest.raises(IndexDamagedError, match="A page is broken"):
        background.answer_after_repair(ask)
    assert time.monotonic() - began < 10
    background.stop()
