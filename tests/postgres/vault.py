"""A vault with a bit of everything, on disk and published, and queries for it."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from fakes import FakeEmbedder
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.model import Answer
from thumbindex.postgres import Engine, PublishJob
from thumbindex.postgres.database import TABLES

NOTES: Mapping[str, str] = {
    "index.md": "---\naliases: [Overview]\ntags: [start]\n---\n# Garden\n\n"
    "All plants and [[Guides/pears|pears]]. See [[Guides/apples#Storage]]"
    " and [[nowhere]].\n",
    "Guides/apples.md": "---\ntags: [fruit/pome]\ndate: 2026-03-01\n---\n# Apples\n\n"
    "Apples grow in spring. See [[pears]].\n\n## Storage\n\n"
    "Keep apples in a cool cellar for 30 days.\n\n## Code\n\n"
    "Call `parse_json(text)` or `--dry-run` for apples.\n",
    "Guides/pears.md": "---\ntags: [Fruit]\ndate: 2025-01-01\nowner: Ada\n---\n# Pears\n\n"
    "Pears ripen after apples.\n\n## Storage\n\n"
    "Keep pears in a cool cellar for 20 days.\n\nWater the trees in spring and water the trees "
    "again.\n",
    "Guides/copy of pears.md": "---\ndate: 2024-01-01\n---\n# Pears\n\n"
    "Pears ripen after apples.\n\n"
    "## Storage\n\nKeep pears in a cool cellar for 20 days.\n",
    "repeats.md": "# Repeats\n\n## One\n\nThe quick brown fox jumps over the lazy dog today.\n\n"
    "## Two\n\nThe quick brown fox jumps over the lazy dog today.\n",
    "terms.md": (
        "# Terms\n\nA web application firewall (WAF) runs here. Single sign-on (SSO) too. A "
        "drop-down list, a side bar and a sidebar.\n"
    ),
    "de/äpfel.md": (
        "# Äpfel\n\nDie Äpfel wachsen im Frühling und werden im kühlen Keller gelagert. Das ist "
        "gut für die Äpfel.\n"
    ),
    "ja/猫.md": "# 猫\n\nこの黒猫は夜に眠る。東京tower and 東京都 are far from 猫.\n",
    "Daily/2026-02-05.md": "# 2026-02-05\n\nMet Ada about the cellar.\n",
    "Daily/2026-02-06.md": "# 2026-02-06\n\nMet Bo about the cellar.\n",
    "front.md": "---\ntitle: Only front matter\ntags: [lonely]\nsupersedes: terms.md\n---\n",
    "code.md": (
        "# Code\n\n```python\ndef get_user_name(user_id):\n"
        "    return MailMerge(user_id).full_name\n```\n\nVersion 1.11 and C++ and C#.\n"
    ),
    "hostile'; DROP TABLE documents;--.md": (
        "# Bobby'); DROP TABLE chunks;--\n\nRobert'); DELETE FROM folders;-- apples % %s {} \\ "
        "\u0000 end.\n"
    ),
}

SECRET = "Zanzibarquetzal"

Question = tuple[str, dict[str, Any]]

QUESTIONS: tuple[Question, ...] = (
    ("how long do pears keep in the cellar?", {}),
    ("when do apples grow", {"limit": 10}),
    (
        "apples",
        {
            "also": ["fruit of the apple tree", "pome storage"],
            "passage": "Apples are kept in a cool cellar for thirty days.",
        },
    ),
    ('"cool cellar" apples', {}),
    ("tag:fruit storage", {}),
    ("tag:friut storage", {}),
    ("path:Guides -pears storage", {}),
    ("title:pears", {}),
    ("file:app cellar", {}),
    ("storage", {"path": ["Guides/**"]}),
    ("storage", {"path": ["*/ap*.md", "repeats.md"]}),
    ("storage", {"tag": ["fruit"], "limit": 2}),
    ("cellar", {"since": date(2025, 6, 1)}),
    ("cellar", {"until": date(2025, 6, 1), "limit": 20}),
    ("cellar", {"without": ["Guides/pears.md"]}),
    ("parse_json", {}),
    ("--dry-run", {}),
    ("get_user_name MailMerge", {}),
    ("waf", {}),
    ("firewall sso", {}),
    ("sidebar", {}),
    ("dropdown list", {}),
    ("storge of appels", {}),
    ("Äpfel im Keller", {}),
    ("黒猫", {}),
    ("猫", {}),
    ('"東京 京都"', {}),
    ("pears", {}),
    ("Overview", {}),
    ("[[Guides/apples#Storage]]", {}),
    ("Storage", {}),
    ("2026-02-06", {}),
    ("2026-02-07", {}),
    ("lazy dog jumps over", {}),
    ("zzzz qqqq xxxx", {}),
    ("tag:lonely", {}),
    ("tag:start", {}),
    ("#fruit", {}),
    ("C++", {}),
    ("version 1.11", {}),
    ("the of and", {}),
    ("'; DROP TABLE documents;--", {}),
    ("apples'); DELETE FROM folders WHERE ('1'='1", {"path": ["%'; DROP TABLE chunks;--*"]}),
    ("100% %s {} \\ apples", {"tag": ["'; DROP TABLE words;--"]}),
)


def make_vault(root: Path) -> Path:
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        os.utime(root / path, (1.7e9, 1.7e9))
    return root


def make_shed(root: Path) -> Path:
    """Write a second folder: one note with a unique word."""
    root.mkdir()
    note = root / "tools.md"
    text = f"# Tools\n\nA spade for the garden, apples in the cellar, {SECRET}.\n"
    note.write_text(text, encoding="utf-8")
    os.utime(note, (1.7e9, 1.7e9))
    return root


def configured(parent: Path) -> Any:
    """Return the default configuration."""
    return load_config(user_file=parent / "none")


@contextmanager
def on_disk(parent: Path, *roots: Path, dimensions: int = 64) -> Iterator[Library]:
    """Open folders with an index on disk and the fake model."""
    with Library.open(
        list(roots),
        index=parent / "index",
        config=configured(parent),
        embedder=FakeEmbedder(dimensions),
    ) as library:
        yield library


@contextmanager
def in_database(
    url: str, parent: Path, *names: str | Path, dimensions: int = 64
) -> Iterator[Library]:
    """Open published folders, with the same model."""
    with Library.open(
        list(names),
        index=parent / "index",
        config=configured(parent),
        embedder=FakeEmbedder(dimensions),
        engine=url,
    ) as library:
        yield library


@contextmanager
def publishing(library: Library, url: str) -> Iterator[PublishJob]:
    """Yield a job that publishes a library's folders."""
    with closing(PublishJob(library.opened, url)) as builder:
        yield builder


@contextmanager
def watching(builder: PublishJob) -> Iterator[None]:
    """Publish changes repeatedly in a thread."""
    stop = threading.Event()

    def publish_changes() -> None:
        while not stop.wait(0.1):
            builder.publish_changes()

    thread = threading.Thread(target=publish_changes)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def comparable(answer: Answer) -> Any:
    """Return an answer as JSON values, without times."""
    values = asdict(answer)
    for step in values["trace"]:
        step.pop("seconds")
    return json.loads(json.dumps(values, default=str, sort_keys=True))


def answers(
    library: Library, questions: Sequence[Question] = QUESTIONS, **options: Any
) -> dict[str, Any]:
    """Return the library's answer to each question."""
    return {
        f"{text} {arguments}": comparable(library.query(text, **arguments, **options))
        for text, arguments in questions
    }


def everything_in(url: str) -> str:
    """Return the content of all tables of a database as one text."""
    tables = (*TABLES, "folders")
    with closing(Engine(url)) as engine, engine.read_transaction() as session:
        rows = [row for table in tables for row in session.fetch(f"SELECT * FROM {table}")]
    return "\n".join(
        bytes(value).decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for row in rows
        for value in row
    )


WORDS = (
    "apples pears cellar storage spring keep grow water trees garden fox dog ada bo cool days"
).split()


class Gardener:
    """Writes, changes, moves and deletes notes at random, reproducibly by seed."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root, self._random, self._clock = root, random.Random(seed), 1.7e9

    def edit(self) -> str:
        """Make one random edit; return its description."""
        paths = sorted(path.relative_to(self._root).as_posix() for path in self._root.rglob("*.md"))
        action, path = (
            self._random.choice(("write", "write", "change", "change", "change", "move", "delete")),
            self._random.choice(paths),
        )
        if action == "write" or len(paths) < 6:
            return self._write(
                f"{self._random.choice(('Guides', 'Daily', 'new'))}/{self._words(2)} "
                f"{self._random.randrange(99)}.md",
                self._note(),
            )
        if action == "change":
            text = (self._root / path).read_text(encoding="utf-8", errors="replace")
            return self._write(
                path,
                f"{text}\n\n## {self._words(2)}\n\n{self._words(12)}.\n"
                if self._random.random() < 0.7
                else self._note(),
            )
        if action == "move":
            target = self._root / f"moved {self._random.randrange(99)}.md"
            (self._root / path).rename(target)
            return f"moved {path} to {target.name}"
        (self._root / path).unlink()
        return f"deleted {path}"

    def _write(self, path: str, text: str) -> str:
        self._clock += 5
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        (self._root / path).write_text(text, encoding="utf-8")
        os.utime(self._root / path, (self._clock, self._clock))
        return f"wrote {path}"

    def _note(self) -> str:
        tags = self._random.choice(
            ("", "---\ntags: [fruit]\n---\n", "---\ndate: 2026-05-05\naliases: [Cellar]\n---\n")
        )
        return (
            f"{tags}# {self._words(2)}\n\n{self._words(20)}. See [[pears]].\n\n"
            f"## {self._words(1)}\n\n{self._words(15)}.\n"
        )

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))
