"""Workers embed what waits in the database: each text once, whoever of them is killed, and with the
very vectors of one machine.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from jsonschema import validate
from typer.testing import CliRunner

from postgres.server import TestServer
from postgres.vault import QUESTIONS, configured, in_database, make_vault, on_disk, told
from thumbindex.errors import EngineError, ModelError
from thumbindex.index.postgres import queue
from thumbindex.index.postgres.database import Engine
from thumbindex.index.postgres.doctor import examine
from thumbindex.index.postgres.publish import TABLES
from thumbindex.index.store import Store
from thumbindex.index.vector_store import packed, unpacked
from thumbindex.library import Library
from thumbindex.library.engine import Publishing, forget_folder
from thumbindex.library.work import Worker
from thumbindex.ports import Matrix
from thumbindex.serve.background import WORDS_ONLY, child_command
from thumbindex.serve.cli import app
from thumbindex.serve.opening import Opening
from thumbindex.testing import FakeEmbedder

SECRET = "Zanzibarquetzal"

PROCESS = """
import sys, time
from thumbindex.library.work import Worker
from thumbindex.testing import FakeEmbedder

class Slow(FakeEmbedder):
    def embed_passages(self, texts):
        print("has", *(text.encode().hex() for text in texts), flush=True)
        time.sleep(float(sys.argv[2]))
        return super().embed_passages(texts)

worker = Worker(sys.argv[1], lambda name: Slow(), print)
while worker.look():
    print("kept", flush=True)
"""


class Unable(FakeEmbedder):
    """Knows what it would be, and can embed nothing."""

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Fail."""
        raise ModelError("No model was to be asked.")


@pytest.fixture
def url(postgres: TestServer, database: str) -> str:
    return postgres.address(database)


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """Write a vault of some hundred texts."""
    root = make_vault(tmp_path / "garden")
    for n in range(120):
        (root / f"beds {n}.md").write_text(
            f"# Bed {n}\n\nApples of row {n}.\n\n## Water\n\nPears of row {n} in spring.\n",
            encoding="utf-8",
        )
    return root


@pytest.fixture
def shed(tmp_path: Path) -> Path:
    root = tmp_path / "shed"
    root.mkdir()
    (root / "tools.md").write_text(
        f"# Tools\n\nA spade for the garden, apples in the cellar, {SECRET}.\n", encoding="utf-8"
    )
    (root / "rake.md").write_text("# Rake\n\nA rake for leaves.\n", encoding="utf-8")
    return root


def words_only(place: Path, *roots: Path, embedder: FakeEmbedder | None = None) -> Library:
    """Open folders whose builder embeds nothing, with their words indexed."""
    library = Library.open(
        list(roots), index=place / "index", config=configured(place), embedder=embedder or Unable()
    )
    library.index(words_only=True)
    return library


def queueing(library: Library, url: str) -> closing[Publishing]:
    return closing(Publishing(library.opened, url, library.open_model))


def settle(builder: Publishing, seconds: float = 60) -> None:
    """Have a builder look until it waits for nothing."""
    until = time.monotonic() + seconds
    while builder.look() or not builder.is_settled:
        assert time.monotonic() < until, builder.waiting()
        time.sleep(0.05)


def work(url: str, embedder: FakeEmbedder | None = None) -> int:
    """Embed all that waits; return how many texts."""
    with closing(Worker(url, lambda name: embedder or FakeEmbedder(), print)) as worker:
        while worker.look():
            pass
        return worker.worked().embedded


def in_queue(url: str) -> tuple[int, int, int]:
    """Count the texts that wait, those that are done, and who wants them."""
    with closing(Engine(url)) as engine, engine.question() as session:
        sql = (
            "SELECT count(*) - count(vector), count(vector), (SELECT count(*) FROM wanted) FROM "
            "texts"
        )
        ((waiting, done, wanted),) = session.fetch(sql)
        return waiting, done, wanted


def everything_in(url: str) -> str:
    """Return all that the tables hold, in one text."""
    with closing(Engine(url)) as engine, engine.question() as session:
        rows = [
            row
            for table in (*TABLES, "folders", "texts", "wanted")
            for row in session.fetch(f"SELECT * FROM {table}")
        ]
    return "\n".join(
        bytes(value).decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for row in rows
        for value in row
    )


def vectors_of(library: Library) -> dict[bytes, bytes]:
    """Return the stored vectors of a library's first folder, by the digests of their texts."""
    with closing(Store(library.opened[0].places.at().store, read_only=True)) as store:
        assert store.vectors is not None
        return {
            key: packed(vector[None])[0].tobytes()
            for key, vector in store.vectors.get(sorted(store.texts())).items()
        }


@pytest.fixture
def alone(tmp_path: Path, garden: Path) -> Iterator[Library]:
    """Index the garden on one machine."""
    with on_disk(tmp_path / "alone", garden) as library:
        library.index()
        yield library


# ------------------------------------------------------------------ each text once


def test_processes_embed_each_text_once_and_one_that_is_killed_loses_none(
    url: str, tmp_path: Path, garden: Path, alone: Library
) -> None:
    with words_only(tmp_path, garden) as library, queueing(library, url) as builder:
        builder.look()
        wanted, _, _ = in_queue(url)
        assert wanted == len(vectors_of(alone)) > 200
        killed = started(url, 600)
        in_hand = next(line for line in killed.stdout or () if line.startswith("has")).split()[1:]
        others = [started(url, 0.05) for _ in range(2)]
        said = [each.communicate(timeout=120)[0] for each in others]
        assert in_queue(url)[:2] == (len(in_hand), wanted - len(in_hand))
        killed.kill()
        killed.communicate(timeout=60)
        last = started(url, 0).communicate(timeout=60)[0]
        embedded = [
            text
            for lines in (*said, last)
            for line in lines.splitlines()
            if line.startswith("has")
            for text in line.split()[1:]
        ]
        assert (len(embedded), len(set(embedded)), set(in_hand) <= set(last.split())) == (
            wanted,
            wanted,
            True,
        )
        settle(builder)
        assert vectors_of(library) == vectors_of(alone)
        assert in_queue(url) == (0, 0, 0)
    with in_database(url, tmp_path) as served:
        for text, options in QUESTIONS[::2]:
            plain = {key: value for key, value in options.items() if key not in ("since", "until")}
            assert told(served.query(text, **plain)) == told(alone.query(text, **plain)), text


def started(url: str, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, url, str(seconds)], stdout=subprocess.PIPE, text=True
    )


def test_threads_share_what_waits_and_a_publication_waits_for_none_of_them(
    url: str, tmp_path: Path, garden: Path
) -> None:
    embedders = [FakeEmbedder() for _ in range(3)]
    with (
        words_only(tmp_path, garden) as library,
        queueing(library, url) as builder,
        closing(Engine(url)) as engine,
    ):
        builder.look()
        wanted, _, _ = in_queue(url)
        threads = [threading.Thread(target=work, args=(url, each)) for each in embedders]
        with queue.take(engine, "fake-64", 32) as taken:
            for each in threads:
                each.start()
            (garden / "new.md").write_text("# New\n\nApples in the attic.\n", encoding="utf-8")
            shutil.rmtree(garden / "Daily")
            library.index(words_only=True)
            assert [each.added for each in builder.look() or builder.look()] == [1]
            assert len(taken.texts) == 32
        for each in threads:
            each.join()
        work(url, embedders[0])
        # two went, unless they were in hand
        assert wanted - 2 <= sum(each.embedded for each in embedders) <= wanted + 1
        settle(builder)
        builder.tidy()
        assert in_queue(url) == (0, 0, 0)


def test_a_text_of_two_folders_is_embedded_once_now_and_later(
    url: str, tmp_path: Path, shed: Path
) -> None:
    other, third = tmp_path / "other", tmp_path / "third"
    for each in (other, third):
        shutil.copytree(shed, each)
    with words_only(tmp_path, shed, other) as library, queueing(library, url) as builder:
        builder.look()
        assert in_queue(url) == (2, 0, 4)
        assert work(url) == 2
        settle(builder)
    with words_only(tmp_path / "far", third) as library, queueing(library, url) as builder:
        settle(builder)
        assert (in_queue(url), len(vectors_of(library))) == ((0, 0, 0), 2)


def test_a_builder_whose_disk_was_lost_gets_its_vectors_back_without_a_model(
    url: str, tmp_path: Path, garden: Path
) -> None:
    with on_disk(tmp_path, garden) as library:
        library.index()
        with queueing(library, url) as builder:
            settle(builder)
        before = vectors_of(library)
    shutil.rmtree(tmp_path / "index")
    with (
        words_only(tmp_path, garden) as library,
        queueing(library, url) as builder,
        in_database(url, tmp_path) as served,
    ):
        (published,) = builder.look()
        # servers miss none, not for a moment
        assert served.states()["garden"].vectors == published.chunks
        assert vectors_of(library) == before


@pytest.mark.slow
def test_builders_that_share_texts_and_workers_at_once_embed_each_text_once(
    url: str, tmp_path: Path
) -> None:
    embedded, failures, stop = list[str](), list[Exception](), threading.Event()

    class Noting(FakeEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Matrix:
            embedded.extend(texts)
            return super().embed_passages(texts)

    def keep_working() -> None:
        while not stop.wait(0.05):
            work(url, Noting())

    def build(root: Path) -> None:
        numbers = random.Random(root.name).sample(range(100), 100)
        try:
            with (
                words_only(tmp_path / f"of {root.name}", root) as library,
                queueing(library, url) as builder,
            ):
                for number in numbers:
                    (root / f"{number}.md").write_text(
                        f"# Bed {number}\n\nApples of row {number}.\n", encoding="utf-8"
                    )
                    library.index(words_only=True)
                    builder.look()
                    if number % 10 == 0:
                        builder.tidy()
                settle(builder, 120)
        except Exception as error:
            failures.append(error)

    roots = [tmp_path / name for name in ("one", "two", "three")]
    for each in roots:
        each.mkdir()
        (each / "first.md").write_text("# First\n\nPears.\n", encoding="utf-8")
    workers, builders = (
        [threading.Thread(target=keep_working) for _ in range(3)],
        [threading.Thread(target=build, args=(each,)) for each in roots],
    )
    for thread in (*workers, *builders):
        thread.start()
    for thread in builders:
        thread.join()
    stop.set()
    for thread in workers:
        thread.join()
    assert (failures, len(embedded), len(set(embedded)), in_queue(url)) == ([], 101, 101, (0, 0, 0))


def test_half_precision_gives_back_the_bytes_that_were_stored() -> None:
    noise = np.random.default_rng(3)
    for dimensions in (8, 384, 4096):
        stored = packed(
            noise.standard_normal((200, dimensions)).astype(np.float32)
            * noise.choice([1e-3, 1, 50], (200, dimensions))
        )
        halves = unpacked([row.tobytes() for row in stored]).astype(np.float16)
        assert np.array_equal(packed(halves.astype(np.float32)), stored)


def test_a_text_that_somebody_took_out_of_the_queue_is_put_there_again(
    url: str, tmp_path: Path, shed: Path
) -> None:
    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        with builder.engine.change() as session:
            session.execute("DELETE FROM texts")
        until = time.monotonic() + 10
        while in_queue(url)[0] != 2 and time.monotonic() < until:
            builder.look()
            time.sleep(0.1)
        assert work(url) == 2
        settle(builder)


def test_a_builder_that_was_ended_between_two_steps_goes_on(
    url: str, tmp_path: Path, shed: Path
) -> None:
    with words_only(tmp_path, shed) as library:
        with queueing(library, url) as builder:
            builder.look()
        assert work(url) == 2
        with queueing(library, url) as builder:  # collected and kept, not published
            while not any(each.done for each in builder.waiting()) and not vectors_of(library):
                builder.look()
                time.sleep(0.05)
        assert in_queue(url) == (0, 2, 2)
        with queueing(library, url) as builder:
            settle(builder)
        assert (in_queue(url), work(url)) == ((0, 0, 0), 0)


# ------------------------------------------------------------------ private notes


@pytest.mark.parametrize("is_done", [False, True])
def test_a_note_that_becomes_private_leaves_nothing_in_the_queue(
    url: str, tmp_path: Path, shed: Path, is_done: bool
) -> None:
    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        assert SECRET in everything_in(url)
        if is_done:
            work(url)
        note = shed / "tools.md"
        note.write_text(
            f"---\nprivate: true\n---\n{note.read_text(encoding='utf-8')}", encoding="utf-8"
        )
        library.index(words_only=True)
        assert builder.look()
        assert SECRET.casefold() not in everything_in(url).casefold()
        assert (sum(in_queue(url)[:2]), in_queue(url)[2]) == (1, 1)


def test_a_folder_that_is_forgotten_or_published_by_another_way_leaves_the_queue(
    url: str, tmp_path: Path, shed: Path
) -> None:
    with words_only(tmp_path, shed) as library:
        with queueing(library, url) as builder:
            builder.look()
        with closing(Publishing(library.opened, url)) as builder:
            builder.look()
        assert in_queue(url) == (0, 0, 0)
        with queueing(library, url) as builder:
            builder.look()
            assert in_queue(url) == (2, 0, 2)
            library.index(rebuild=True, words_only=True)
            builder.look()
            assert in_queue(url) == (2, 0, 2)
        forget_folder(url, "shed")
        assert in_queue(url) == (0, 0, 0)


# ------------------------------------------------------------------ what goes wrong


def test_a_worker_with_another_model_says_so_once_and_leaves_the_texts(
    url: str, tmp_path: Path, shed: Path
) -> None:
    said: list[str] = []
    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        with closing(Worker(url, lambda name: FakeEmbedder(32), said.append)) as worker:
            assert (worker.look(), worker.look(), worker.refuses, worker.worked().waiting) == (
                0,
                0,
                True,
                2,
            )
        assert len(said) == 1
        assert said[0].startswith(
            "Texts of the model fake are left to other workers: here it gives other vectors "
            "(fake-32)"
        )
        with closing(Worker(url, lambda name: Unable(), said.append)) as worker:
            assert (worker.look(), said[1:]) == (
                0,
                ["Texts of the model fake are left to other workers: No model was to be asked."],
            )
        assert work(url) == 2


def test_the_doctor_tells_what_waits(url: str, tmp_path: Path, shed: Path) -> None:
    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        (said,) = [each.sentence for each in examine(builder.engine) if each.name == "queue"]
    assert said.startswith(
        "2 texts of the model fake for a worker (`thumbindex work --engine URL`), 0 vectors "
        "for a builder"
    )


def test_a_worker_that_hangs_or_whose_machine_vanishes_is_given_up_by_the_database(
    engine: Engine,
) -> None:
    names = ("idle_in_transaction_session_timeout", *queue.KEEPALIVES)
    with engine.change() as session:
        queue.limit(session)
        held = [
            session.fetch("SELECT setting FROM pg_settings WHERE name = %s", (name,))[0][0]
            for name in names
        ]
    with engine.change() as session:
        after = [
            session.fetch("SELECT setting FROM pg_settings WHERE name = %s", (name,))[0][0]
            for name in names
        ]
    assert (held[0], after[0]) == ("900000", "0")
    assert held[1:] in (["30", "10", "3"], ["0", "0", "0"])  # a local socket has none


def test_a_database_that_is_lost_in_the_middle_costs_no_text(
    postgres: TestServer, database: str, url: str, tmp_path: Path, shed: Path
) -> None:
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> "
        "pg_backend_pid()"
    )

    class Cutting(FakeEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Matrix:
            if not self.embedded:
                postgres.run(cut.format(database))
            return super().embed_passages(texts)

    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        embedder = Cutting()
        with closing(Worker(url, lambda name: embedder, print)) as worker:
            with pytest.raises(EngineError):
                worker.look()
            assert in_queue(url) == (2, 0, 2)
            assert (worker.look(), worker.look(), worker.worked().embedded) == (2, 0, 2)
        postgres.run(cut.format(database))
        settle(builder)


# ------------------------------------------------------------------ the commands


def test_a_worker_needs_the_rights_that_the_documentation_gives(
    postgres: TestServer, database: str, url: str, tmp_path: Path, shed: Path
) -> None:
    role = postgres.role("worker")
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    grants = [
        line.partition(";")[0]
        for line in text.splitlines()
        if line.startswith("GRANT") and "TO worker" in line
    ]
    for each in grants:
        postgres.run(each.replace("TO worker", f"TO {role}"), database)
    with words_only(tmp_path, shed) as library, queueing(library, url) as builder:
        builder.look()
        assert (len(grants), work(postgres.address(database, role))) == (2, 2)
        with pytest.raises(EngineError, match="may not do this"):
            in_queue(postgres.address(database, role))  # who wants a text is nothing to a worker
        settle(builder)


@pytest.mark.parametrize("more", [["--json"], pytest.param(["--watch"], marks=pytest.mark.slow)])
def test_the_commands_publish_through_the_queue_and_work_with_the_bundled_model(
    url: str, tmp_path: Path, shed: Path, more: list[str]
) -> None:
    where = ["--folder", str(shed), "--index", str(tmp_path / "index"), "--engine", url]
    command = [sys.executable, "-m", "thumbindex", "engine", "publish", "--queue", *more, *where]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as publishing:
        wait_for(url, (2, 0, 2))
        done = CliRunner().invoke(app, ["work", "--once", "--json", "--engine", url])
        assert done.exit_code == 0, done.output
        fits("work", done.stdout)
        assert json.loads(done.stdout) == {"embedded": 2, "waiting": 0}
        wait_for(url, (0, 0, 0))
        if more == ["--watch"]:
            publishing.terminate()
        said, _ = publishing.communicate(timeout=60)
    if more == ["--json"]:
        fits("engine", said)
        assert [(each["name"], each["added"]) for each in json.loads(said)["published"]] == [
            ("shed", 2)
        ]
    assert (
        CliRunner().invoke(app, ["work", "--once", "--engine", url]).output
        == "0 texts embedded by this worker, 0 wait\n"
    )


def wait_for(url: str, counts: tuple[int, int, int]) -> None:
    until = time.monotonic() + 90
    while in_queue(url) != counts:
        assert time.monotonic() < until, in_queue(url)
        time.sleep(0.2)


def fits(schema: str, printed: str) -> None:
    folder = Path(__file__).parents[2] / "docs" / "schema"
    validate(
        json.loads(printed), json.loads((folder / f"{schema}.json").read_text(encoding="utf-8"))
    )


def test_the_child_of_a_builder_that_queues_makes_words_alone() -> None:
    assert child_command(Opening(("notes",)), words_only=True)[-2:] == [
        "--folder=notes",
        WORDS_ONLY,
    ]
    assert Opening.from_arguments(["--folder=notes", WORDS_ONLY]) == Opening(("notes",))
