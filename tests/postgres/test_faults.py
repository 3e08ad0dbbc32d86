"""Random faults: answers are correct or refused with a message, and no note is lost."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from postgres.cluster import running_cluster, wait_until
from postgres.server import TestServer
from postgres.vault import QUESTIONS, Gardener, answers, in_database, on_disk, publishing
from thumbindex.errors import EngineError
from thumbindex.library import Library
from thumbindex.postgres import Engine

BUILDER = """
import sys
sys.path.insert(0, sys.argv[1])
import time
from pathlib import Path
from postgres.vault import on_disk, publishing
from thumbindex.errors import ThumbindexError

place, url = Path(sys.argv[2]), sys.argv[3]
while True:
    try:
        with on_disk(place, place / "garden") as disk, publishing(disk, url) as builder:
            while True:
                disk.index()
                builder.publish_changes()
                builder.create_vector_indexes()
                print("published", flush=True)
    except ThumbindexError as error:
        print(error, flush=True)
        time.sleep(0.2)
"""
"""A script that indexes and publishes a garden until killed."""


class Builder:
    """A builder process that logs to a file."""

    def __init__(self, place: Path, url: str) -> None:
        self._command = [sys.executable, "-c", BUILDER, str(Path(__file__).parents[1])]
        self._command += [str(place), url]
        self.log = place / "log"
        self.start()

    def start(self) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            self._process = subprocess.Popen(self._command, stdout=file, stderr=file)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_for_publication(self) -> None:
        start = self.log.stat().st_size
        wait_until(
            lambda: "published" in self.log.read_text(encoding="utf-8")[start:],
            "a builder publishes",
            90,
        )


class Asker:
    """Runs queries in a thread, and records passages and errors."""

    def __init__(self, served: Library) -> None:
        self._served, self._stop = served, threading.Event()
        self.shown, self.errors = set[tuple[str, str]](), list[str]()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.is_set():
            for text in ("apples", "how long do pears keep in the cellar?", "tag:fruit storage"):
                try:
                    passages = self._served.query(text, limit=10).passages
                    self.shown |= {(passage.path, passage.text) for passage in passages}
                except EngineError as error:
                    self.errors.append(str(error))

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def notes(garden: Path) -> set[tuple[str, str]]:
    """Return path and text of each note."""
    texts = {path: path.read_text(encoding="utf-8") for path in garden.rglob("*.md")}
    return {
        (path.relative_to(garden).as_posix(), text.replace("\0", "\ufffd").strip())
        for path, text in texts.items()
    }


@pytest.mark.parametrize(
    "faults", [pytest.param(6, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.long)]
)
def test_killed_builders_and_broken_connections_lose_and_invent_no_notes(
    postgres: TestServer, database: str, url: str, garden: Path, tmp_path: Path, faults: int
) -> None:
    gardener, generator, history = Gardener(garden, 1), random.Random(1), notes(garden)
    builder = Builder(tmp_path, url)
    try:
        builder.wait_for_publication()
        with in_database(url, tmp_path / "server") as served:
            with Asker(served) as asker:
                for _ in range(faults):
                    for _ in range(3):
                        gardener.edit()
                        history |= notes(garden)
                    time.sleep(generator.random() * 0.5)
                    if generator.random() < 0.5:
                        postgres.end_connections(database)
                    else:
                        builder.kill()
                        builder.start()
                        if generator.random() < 0.5:
                            builder.wait_for_publication()
                builder.wait_for_publication()
                builder.wait_for_publication()
            builder.kill()
            with on_disk(tmp_path, garden) as disk, publishing(disk, url) as last:
                disk.index()
                last.publish_changes()
                assert answers(served, QUESTIONS[::2]) == answers(disk, QUESTIONS[::2])
            published = {(entry.path, served.read(entry.path).text) for entry in served.outline()}
    finally:
        builder.kill()
    assert {(path, text.strip()) for path, text in published} == notes(garden)
    invented = [
        (path, passage)
        for path, passage in asker.shown
        if not any(passage in text for note, text in history if note == path)
    ]
    assert invented == []
    assert "Traceback" not in builder.log.read_text(encoding="utf-8")
    assert [error for error in asker.errors if "Cannot connect to" not in error] == []


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """Mount a small disk; skip the test without the right to do so."""
    place.mkdir()
    options = f"size={megabytes}M,mode=0777,uid={place.parent.stat().st_uid}"
    result = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(place)],
        capture_output=True,
        check=False,
    )
    if result.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("mount"), reason="there is no `mount` here")
def test_full_database_disk_changes_nothing_and_publishing_recovers(
    tmp_path: Path, garden: Path
) -> None:
    with (
        running_cluster(standbys=0) as cluster,
        small_disk(cluster.primary.folder.parent / "small", 40) as small,
        ExitStack() as stack,
    ):
        cluster.primary.run(f"CREATE TABLESPACE small LOCATION '{small}'")
        cluster.primary.run("CREATE DATABASE tiny TABLESPACE small")
        url = cluster.url(database="tiny")
        stack.enter_context(closing(Engine(url, writes=True))).migrate()
        disk = stack.enter_context(on_disk(tmp_path, garden))
        disk.index()
        builder = stack.enter_context(publishing(disk, url))
        builder.publish_changes()
        served = stack.enter_context(in_database(url, tmp_path))
        before = answers(served, QUESTIONS[:5])
        ballast = small / "ballast"
        with suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
        for number in range(40):
            (garden / f"new {number}.md").write_text(
                f"# New {number}\n\n" + f"Apples {number} and pears. " * 4000, encoding="utf-8"
            )
        disk.index()
        with pytest.raises(EngineError, match="No space left on device"):
            builder.publish_changes()
        assert answers(served, QUESTIONS[:5]) == before
        ballast.unlink()
        builder.publish_changes()
        assert answers(served, QUESTIONS[:5]) == answers(disk, QUESTIONS[:5])
