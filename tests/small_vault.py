"""Fixtures: a small vault indexed with fake models, its server, and its command line."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mcp.server.lowlevel.server import Server

from fakes import FakeEmbedder, FakeReranker
from folders import write_notes
from notes import write
from program import app
from thumbindex.background.host import LibraryHost
from thumbindex.library import Library
from thumbindex.mcp.server import build_server
from thumbindex.opening import OpenOptions

__all__ = ["indexes", "library", "open_fake", "run", "run_in", "server", "vault"]

NOTES = {
    "sync.md": "---\ntags: [guide/setup]\ndate: 2026-03-01\n---\n# Sync\n\n## Set up\n\n"
    "Press the green button to begin syncing your vault.\n\n"
    "## Conflicts\n\n"
    "When two devices edit one note, the newer note wins. See [[plugins/canvas]].\n",
    "plugins/canvas.md": (
        "# Canvas\n\nDraw boxes and arrows on an endless whiteboard. See [[sync]] and "
        "[[nowhere]].\n"
    ),
    "plugins/graph view.md": (
        "---\ndate: 2020-01-01\n---\n# Graph view\n\nShows how notes link to each other as dots "
        "and lines.\n"
    ),
}


@pytest.fixture(scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_notes(tmp_path_factory.mktemp("notes") / "vault", NOTES)
    write(root.parent / "secret.md", "# Secret\n\nNever to be read.\n")
    return root


@pytest.fixture(scope="session")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexes")


@pytest.fixture(scope="session")
def open_fake() -> Callable[[OpenOptions], Library]:
    """Opens a library as the command line does, with fake models."""

    def open_it(opening: OpenOptions) -> Library:
        return Library.open(
            opening.folder,
            index=opening.index,
            config=opening.load(),
            embedder=FakeEmbedder(),
            reranker=FakeReranker(),
        )

    return open_it


@pytest.fixture(scope="session")
def library(
    vault: Path, indexes: Path, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[Library]:
    with open_fake(OpenOptions((str(vault),), indexes)) as library:
        library.index()
        yield library


@pytest.fixture
def server(library: Library) -> Server:
    return build_server(
        LibraryHost(OpenOptions(), lambda opening: library, command=[]), library.folders
    )


@pytest.fixture
def run(
    library: Library,
    vault: Path,
    indexes: Path,
    open_fake: Callable[[OpenOptions], Library],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Result]:
    """Runs a command over the indexed vault."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run_it(
        command: str, *arguments: str, opener: Callable[[OpenOptions], Library] = open_fake
    ) -> Result:
        return CliRunner().invoke(
            app, [command, "--folder", str(vault), "--index", str(indexes), *arguments], obj=opener
        )

    return run_it


@pytest.fixture
def run_in(
    open_fake: Callable[[OpenOptions], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Runs a command over a given folder, with its index in `tmp_path`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run_it(
        folder: Path,
        command: str,
        *arguments: str,
        opener: Callable[[OpenOptions], Library] = open_fake,
        stdin: str | None = None,
    ) -> Result:
        place = ["--folder", str(folder), "--index", str(tmp_path / "index")]
        return CliRunner().invoke(app, [command, *place, *arguments], obj=opener, input=stdin)

    return run_it
