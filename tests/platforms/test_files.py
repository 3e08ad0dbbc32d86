"""File systems as on Windows: open files cannot be replaced, no POSIX locks, junctions."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import thumbindex.corpus.read as read_module
from folders import open_library, write_notes
from platforms.fakes import refuse_open_files, refuse_opening
from thumbindex.config import load_config
from thumbindex.corpus.walk import walk
from thumbindex.errors import ConfigError, StorageError, UsageError
from thumbindex.index.files import (
    IndexPaths,
    read_with_retry,
    refuse_network_drive,
    write_atomically,
)
from thumbindex.library import Library
from thumbindex.settings import CorpusSettings

Open = Callable[[], Library]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="a fake asks Linux which files are open"
)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    names = ("apples", "pears", "plums")
    notes = {f"{name}.md": f"# {name}\n\nSome {name} are ripe.\n" for name in names}
    return write_notes(tmp_path / "vault", notes)


@pytest.fixture
def opened(vault: Path) -> Open:
    return lambda: open_library(vault)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_open_files(monkeypatch.setattr)


def best(library: Library, question: str) -> str:
    return library.query(question).passages[0].path


def files_of(index: Path) -> list[Path]:
    return [path for path in index.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.slow
def test_index_is_updated_and_rebuilt_during_reads_and_the_old_build_deleted_later(
    windows: None, opened: Open, vault: Path, tmp_path: Path
) -> None:
    with opened() as writer:
        writer.index()
        with opened() as reader:
            assert best(reader, "ripe apples") == "apples.md"
            (vault / "apples.md").write_text("# apples\n\nA storm took them.\n", encoding="utf-8")
            writer.index()
            assert best(reader, "storm") == "apples.md"
            writer.index(rebuild=True)
            (folder,) = {path.parent for path in (tmp_path / "index").glob("*/current")}
            assert (folder / "1" / "index.sqlite3").exists()
            (vault / "plums.md").write_text("# plums\n\nThe plums are jam.\n", encoding="utf-8")
            assert writer.index().changed == 1
            assert best(reader, "jam") == "plums.md"
            assert [status.failure for status in writer.status()] == [""]
        writer.close()
        writer.index(rebuild=True)
        assert not (folder / "1").exists()


def test_index_opened_by_a_server_can_be_forgotten_after_the_server_ends(
    windows: None, opened: Open, tmp_path: Path
) -> None:
    with opened() as first:
        first.index()
        first.index(rebuild=True)  # creates the file with the current build's number
    with opened() as reader:
        assert best(reader, "ripe apples") == "apples.md"
        with (
            opened() as other,
            pytest.raises(
                StorageError, match=r"Another program has it open.* Quit the MCP clients"
            ),
        ):
            other.forget()
    with Library.open_all(
        index=tmp_path / "index", config=load_config(user_file=tmp_path / "none")
    ) as library:
        assert [folder.root for folder in library.forget()] == [str(tmp_path / "vault")]
    assert files_of(tmp_path / "index") == []


def test_file_under_replacement_is_read_again(
    monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    with opened() as library:
        library.index()
        library.index(rebuild=True)  # creates the file with the current build's number
        refuse_opening(monkeypatch.setattr, "current", 0.05)
        assert best(library, "ripe apples") == "apples.md"
        assert library.opened[0].index_paths.current_build == 2


def test_unreadable_build_number_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_atomically(tmp_path / "current", "7")
    refuse_opening(monkeypatch.setattr, "current", 60.0)
    monkeypatch.setattr("thumbindex.index.files.retry_while_in_use", lambda attempt: attempt())
    with pytest.raises(StorageError, match="Another program has it open"):
        _ = IndexPaths(tmp_path).current_build


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_file_system_without_posix_locks_is_supported(
    monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with opened() as library:
        assert library.index().added == 3
        assert best(library, "ripe apples") == "apples.md"
        assert library.forget()


# ------------------------------------------------------------------ the notes


@pytest.fixture
def by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open files by path, as on systems without directory descriptors and `O_NOFOLLOW`."""
    monkeypatch.setattr(read_module, "_HAS_DIR_FD", False)
    monkeypatch.setattr(read_module, "_LISTS_BY_FD", False)
    monkeypatch.setattr(read_module, "_FLAGS", os.O_RDONLY)


def test_notes_are_read_without_directory_descriptors(
    by_path: None, opened: Open, tmp_path: Path, vault: Path
) -> None:
    (tmp_path / "secret.md").write_text("# Secret\n\nNever to be read.\n", encoding="utf-8")
    (vault / "link.md").symlink_to(tmp_path / "secret.md")
    with opened() as library:
        report = library.index()
        assert report.added == 3
        assert [problem.reason for problem in report.skipped] == [
            "symlink points outside the folder: not followed"
        ]
        assert library.read("apples.md").text.startswith("# apples")


class Junction:
    """A directory entry of a junction, as Python shows it on Windows."""

    def __init__(self, real: os.DirEntry[str]) -> None:
        self.name, self.path, self._real = real.name, real.path, real

    def is_symlink(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return True

    def stat(self, *, follow_symlinks: bool = True) -> object:
        return type("Facts", (), {"st_reparse_tag": 0xA0000003})()


def test_junctions_are_treated_like_symlinks(
    by_path: None, monkeypatch: pytest.MonkeyPatch, vault: Path
) -> None:
    (vault / "again").symlink_to(vault)
    (vault / "out").symlink_to(vault.parent)
    scandir = os.scandir

    class Listing:
        def __init__(self, path: str) -> None:
            self._real = scandir(path)

        def __enter__(self) -> list[object]:
            return [Junction(entry) if entry.is_symlink() else entry for entry in self._real]

        def __exit__(self, *_: object) -> None:
            self._real.close()

    with monkeypatch.context() as windows:
        windows.setattr(os, "scandir", Listing)
        windows.setattr(read_module, "_WINDOWS", True)
        result = walk(vault, CorpusSettings())
    assert [file.path for file in result.files] == ["apples.md", "pears.md", "plums.md"]
    assert [(problem.path, problem.reason) for problem in result.problems] == [
        ("out", "symlink points outside the folder: not followed")
    ]


def test_ignore_file_in_utf16_is_read(tmp_path: Path, vault: Path) -> None:
    (vault / ".gitignore").write_text("pears.md\r\n", encoding="utf-16", newline="")
    assert [file.path for file in walk(vault, CorpusSettings()).files] == ["apples.md", "plums.md"]


def test_paths_may_have_backslashes(opened: Open, vault: Path) -> None:
    (vault / "sub").mkdir()
    (vault / "sub" / "figs.md").write_text("# figs\n\nSome figs are ripe.\n", encoding="utf-8")
    with opened() as library:
        library.index()
        assert library.read("sub\\figs.md").path == "sub/figs.md"
        assert [
            passage.path for passage in library.query("ripe", path=["sub\\figs.md"]).passages
        ] == ["sub/figs.md"]
        for query in ("path:sub\\figs ripe", "file:figs ripe", "path:*b\\* ripe"):
            assert [passage.path for passage in library.query(query).passages] == ["sub/figs.md"]


def test_atomic_write_keeps_line_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Path.open

    def as_on_windows(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return real(
            path, mode, *arguments, **({"newline": "\r\n"} if "b" not in mode else {}), **options
        )

    monkeypatch.setattr(Path, "open", as_on_windows)
    write_atomically(tmp_path / "small", "one\ntwo\n")
    assert read_with_retry(tmp_path / "small") == b"one\ntwo\n"


def test_index_on_a_network_share_is_refused() -> None:
    with pytest.raises(UsageError, match="is on a network drive"):
        refuse_network_drive(Path("\\\\server\\notes\\index"), mounts="")


def test_error_for_backslashes_in_double_quotes_suggests_single_quotes(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[folders]\nnotes = "C:\\Users\\ada"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="write paths in single quotes"):
        load_config(user_file=tmp_path / "config.toml")
