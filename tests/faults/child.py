"""A process to be killed and refused resources. It forks for each job, with everything imported.

A job is a line of JSON on standard input. The answer is the fork's process id and, when it has
ended, its exit status. A job writes its outcome to the file `said`. It writes to the file `marks`
whenever a command has returned, so that a record of its system calls shows that moment.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

# the tests' shared modules are one folder up
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes import FakeEmbedder
from thumbindex.config import load_config
from thumbindex.errors import ThumbindexError
from thumbindex.index.judgment_file import change_judgments
from thumbindex.library import Library
from thumbindex.library.indexing import IndexingOptions, index_folders
from thumbindex.model import JudgedQuery, RelevanceJudgment

for name in (
    "faiss",
    "markdown_it",
    "mdit_py_plugins.footnote",
    "networkx",
    "rapidfuzz.process",
    "yaml",
):
    # otherwise imported during a job, perhaps by a user without access
    import_module(name)

BATCH = 8
FIRST_BYTES = 2000
"""Small, so that there are many commits."""


def open_library(root: str, index: str, embedder: FakeEmbedder) -> Library:
    config = load_config(user_file=Path(root) / "none")
    config = replace(
        config, encode=replace(config.encode, embed=replace(config.encode.embed, batch=BATCH))
    )
    return Library.open([root], index=index, config=config, embedder=embedder)


def _index(library: Library, embedder: FakeEmbedder) -> None:
    index_folders(library.opened, IndexingOptions(first_bytes=FIRST_BYTES), lambda _: embedder)


def _rebuild(library: Library, embedder: FakeEmbedder) -> None:
    index_folders(
        library.opened, IndexingOptions(first_bytes=FIRST_BYTES, rebuild=True), lambda _: embedder
    )


def _decide(library: Library, _: FakeEmbedder) -> None:
    library.decisions().decide(library.duplicates(grey=True).clusters[0].id, "apart", "two notes")


def _undo(library: Library, _: FakeEmbedder) -> None:
    library.decisions().decide(library.duplicates(grey=True).clusters[0].id, None)


def _judge(library: Library, _: FakeEmbedder) -> None:
    judged = JudgedQuery(
        "apple cellar", "words", (RelevanceJudgment("a/note 0.md", "", 2),), "2026-01-01T00:00:00"
    )
    change_judgments(library.opened[0].index_paths, lambda before: [*before, judged])


COMMANDS: dict[str, Callable[[Library, FakeEmbedder], object]] = {
    "index": _index,
    "repair": lambda library, _: library.index(verify=True),
    "rebuild": _rebuild,
    "decide": _decide,
    "undo": _undo,
    "judge": _judge,
    "forget": lambda library, _: library.forget(),
}


def work(job: dict[str, Any]) -> dict[str, Any]:
    embedder = FakeEmbedder()
    with open_library(job["root"], job["index"], embedder) as library:
        if job.get("ask"):
            return {
                "outcome": "done",
                "paths": [p.path for p in library.query(job["ask"]).passages],
            }
        for command in job.get("commands", ["index"]):
            COMMANDS[command](library, embedder)
            if job.get("marks"):
                with open(job["marks"], "ab", buffering=0) as marks:  # noqa: PTH123
                    marks.write(command.encode())
    return {"outcome": "done"}


def run(job: dict[str, Any]) -> None:
    # opened before the disk is full or the user changes
    outcome = open(job["said"], "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if job.get("largest_file"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest_file"], job["largest_file"]))
    if job.get("user"):
        for name in ("latin1", "utf-32-le", "utf-16-le"):
            codecs.lookup(name)  # the other user may have no access to Python's files
        os.setgid(job["user"])
        os.setuid(job["user"])
    disk = ctypes.CDLL(None) if job.get("full") else None
    if disk:
        disk.fill_disk(job["index"].encode(), *job["full"])
    try:
        result = work(job)
    except ThumbindexError as error:
        result = {"outcome": "refused", "error": type(error).__name__, "message": str(error)}
    except BaseException:
        result = {"outcome": "broken", "message": traceback.format_exc()}
    if disk:
        result["asked"] = disk.empty_disk()
    outcome.write(json.dumps(result))
    outcome.close()


def say(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
            os._exit(0)
        say(pid)
        say(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    say("ready")
    main()
