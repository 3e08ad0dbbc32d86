"""Workers embed what waits in the database."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from jsonschema import validate
from typer.testing import CliRunner

from fakes import FakeEmbedder
from postgres.vault import (
    QUESTIONS,
    SECRET,
    answers,
    configured,
    everything_in,
    in_database,
    on_disk,
)
from thumbindex.errors import ModelError
from thumbindex.index.postgres.database import Engine
from thumbindex.library import Library
from thumbindex.library.engine import Publishing
from thumbindex.library.work import Worker
from thumbindex.ports import Matrix
from thumbindex.serve.cli import app


class Unable(FakeEmbedder):
    """Knows what it would be, and can embed nothing."""

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Fail."""
        raise ModelError("No model was to be asked.")


def in_queue(url: str) -> tuple[int, int, int]:
    """Count the texts that wait, those that are done, and who wants them."""
    with closing(Engine(url)) as engine, engine.question() as session:
        sql = (
            "SELECT count(*) - count(vector), count(vector), (SELECT count(*) FROM wanted) FROM "
            "texts"
        )
        ((waiting, done, wanted),) = session.fetch(sql)
        return waiting, done, wanted


def test_a_worker_embeds_for_a_builder_and_a_note_that_becomes_private_leaves_the_queue(
    url: str, tmp_path: Path, garden: Path, shed: Path
) -> None:
    with (
        on_disk(tmp_path / "alone", garden) as alone,
        Library.open(
            [garden, shed],
            index=tmp_path / "index",
            config=configured(tmp_path),
            embedder=Unable(),
        ) as library,
        closing(Publishing(library.opened, url, library.open_model)) as builder,
        closing(Worker(url, lambda name: FakeEmbedder(), print)) as worker,
    ):
        library.index(words_only=True)
        builder.look()
        assert SECRET in everything_in(url)
        note = shed / "tools.md"
        text = note.read_text(encoding="utf-8")
        note.write_text(f"---\nprivate: true\n---\n{text}", encoding="utf-8")
        library.index(words_only=True)
        builder.look()
        assert SECRET.casefold() not in everything_in(url).casefold()
        while worker.look():
            pass
        until = time.monotonic() + 60
        while builder.look() or not builder.is_settled:
            assert time.monotonic() < until, builder.waiting()
            time.sleep(0.05)
        assert in_queue(url) == (0, 0, 0)
        alone.index()
        with in_database(url, tmp_path, "garden") as served:
            found, right = answers(served, QUESTIONS[::4]), answers(alone, QUESTIONS[::4])
        passages = [[each["passages"] for each in said.values()] for said in (found, right)]
        assert passages[0] == passages[1]


def test_commands_publish_through_the_queue_and_work_with_the_bundled_model(
    url: str, tmp_path: Path, shed: Path
) -> None:
    where = ["--folder", str(shed), "--index", str(tmp_path / "index"), "--engine", url]
    command = [sys.executable, "-m", "thumbindex", "engine", "publish", "--queue", "--json", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as publishing:
        until = time.monotonic() + 90
        while in_queue(url) != (1, 0, 1):
            assert time.monotonic() < until, in_queue(url)
            time.sleep(0.2)
        done = CliRunner().invoke(app, ["work", "--once", "--json", "--engine", url])
        said, _ = publishing.communicate(timeout=90)
    schema = Path(__file__).parents[2] / "docs" / "schema" / "work.json"
    validate(json.loads(done.stdout), json.loads(schema.read_text(encoding="utf-8")))
    assert json.loads(done.stdout) == {"embedded": 1, "waiting": 0}
    assert [(each["name"], each["added"]) for each in json.loads(said)["published"]] == [
        ("shed", 1)
    ]
