"""Builders, workers and servers of a database, each a process that may be killed at any moment;
what each does it writes down.

A line of JSON a deed: `answer`, `published` and `embedded` are well, `refused` has the sentence
that a user would read, `broken` is a defect.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from postgres.vault import configured
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.testing import FakeEmbedder

LOOK_SECONDS, RETRY_SECONDS = 0.02, 0.2

PRELOADED = (
    "postgres.processes",
    "thumbindex.library.engine",
    "thumbindex.library.work",
    "faiss",
    "markdown_it",
    "mdit_py_plugins.footnote",
    "networkx",
    "rapidfuzz.process",
    "yaml",
)
"""What a process has imported when it begins, so that a moment of its life is a moment of its
work.
"""


class Processes:
    """Some processes over one folder and one database."""

    def __init__(self, place: Path, root: Path, **jobs: Mapping[str, Any]) -> None:
        self._place, self._root, self._jobs = place, root, jobs
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(PRELOADED))
        self._running: dict[str, BaseProcess] = {}

    def start(self, name: str) -> None:
        """Start a process by its name: it does what its job's `role` says until it is killed."""
        job = {
            "place": str(self._place),
            "root": str(self._root),
            "said": str(self.told(name)),
            **self._jobs[name],
        }
        self._running[name] = self._context.Process(target=run, args=(job,), daemon=True)
        self._running[name].start()

    def kill(self, name: str) -> None:
        """Kill it at once (SIGKILL)."""
        if (process := self._running.pop(name, None)) is not None:
            process.kill()
            process.join()

    def told(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self._place / f"{name}.jsonl"

    def deeds(self, *names: str, what: str = "") -> list[dict[str, Any]]:
        """Return what processes wrote, all of it or what is of one kind; a line that a kill cut off
        is left out.
        """
        found = []
        for name in names or self._jobs:
            text = self.told(name).read_text(encoding="utf-8") if self.told(name).exists() else ""
            for line in text.split("\n"):
                try:
                    found.append({"who": name, **json.loads(line)})
                except ValueError:
                    continue
        return [each for each in found if what in ("", each["what"])]


@contextmanager
def running(place: Path, root: Path, **jobs: Mapping[str, Any]) -> Iterator[Processes]:
    """Start processes by their names; kill them at the end."""
    processes = Processes(place, root, **jobs)
    try:
        for name in jobs:
            processes.start(name)
        yield processes
    finally:
        for name in jobs:
            processes.kill(name)


# ------------------------------------------------------------------ what runs in each


def run(job: Mapping[str, Any]) -> None:
    """Do what a job says until this process is killed."""
    with Path(job["said"]).open("a", encoding="utf-8") as said:
        process = _Process(job, said)
        role = {"build": process.build, "work": process.work, "serve": process.serve}[job["role"]]
        while True:
            try:
                role()
            except ThumbindexError as error:
                process.say("refused", error=type(error).__name__, sentence=str(error))
            except Exception:
                process.say("broken", trace=traceback.format_exc())
            time.sleep(RETRY_SECONDS)


class _Process:
    def __init__(self, job: Mapping[str, Any], said: IO[str]) -> None:
        self._job, self._said = job, said
        self._config = configured(Path(job["place"]))

    def say(self, what: str, **facts: object) -> None:
        self._said.write(json.dumps({"what": what, "at": time.time(), **facts}) + "\n")
        self._said.flush()

    def build(self) -> None:
        """Index the folder, the words alone where workers embed, and publish whatever is new."""
        from thumbindex.library.engine import Publishing

        embedder, queued = FakeEmbedder(), bool(self._job.get("queued"))
        with Library.open(
            [self._job["root"]], index=self._job["index"], config=self._config, embedder=embedder
        ) as library:
            builder = Publishing(
                library.opened, self._job["url"], (lambda _: embedder) if queued else None
            )
            try:
                while True:
                    library.index(words_only=queued)
                    for each in builder.look():
                        self.say("published", generation=each.generation, documents=each.documents)
                    builder.tidy()
                    time.sleep(LOOK_SECONDS)
            finally:
                builder.close()

    def work(self) -> None:
        """Embed what waits."""
        from thumbindex.library.work import Worker

        embedder = FakeEmbedder()
        worker = Worker(
            self._job["url"],
            lambda _: embedder,
            lambda sentence: self.say("refused", error="", sentence=sentence),
        )
        try:
            while True:
                if found := worker.look():
                    self.say("embedded", texts=found)
                else:
                    time.sleep(LOOK_SECONDS)
        finally:
            worker.close()

    def serve(self) -> None:
        """Ask one question after the other."""
        with Library.open(
            config=self._config, embedder=FakeEmbedder(), engine=self._job["url"]
        ) as library:
            while library.folders:  # before the first publication there is none
                for question in self._job["questions"]:
                    began = time.monotonic()
                    try:
                        answer = library.query(question, limit=10)
                    except ThumbindexError as error:
                        self.say(
                            "refused",
                            error=type(error).__name__,
                            sentence=str(error),
                            seconds=time.monotonic() - began,
                        )
                        time.sleep(LOOK_SECONDS)
                        continue
                    shown = [[each.path, each.text] for each in answer.passages]
                    self.say(
                        "answer",
                        question=question,
                        passages=shown,
                        generation=answer.index.generation,
                        seconds=time.monotonic() - began,
                    )
