"""A vault, its index, and what is asked of every case: the index must say what one built anew says,
and answer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from dump import logical_dump
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.model import IndexReport
from thumbindex.testing import FakeEmbedder

NOBODY = 65534


class NotTriedError(Exception):
    """What this machine lacks for a case."""


@dataclass(frozen=True)
class Place:
    """A folder that is empty at first, an index beside it, and how large a case is to be."""

    made: Path
    full: bool = False

    @property
    def root(self) -> Path:
        return self.made / "vault"

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def open(self, index: str = "index", *overrides: str) -> Library:
        return open_library(self.root, self.made / index, *overrides)

    def index(self, index: str = "index") -> IndexReport:
        with self.open(index) as library:
            return library.index()

    def found(self, query: str) -> list[str]:
        with self.open() as library:
            return [passage.path for passage in library.query(query).passages]

    def check(self) -> None:
        """See that the index is what one built anew is; a run more finds nothing to do."""
        shutil.rmtree(self.made / "fresh", ignore_errors=True)
        self.index("fresh")
        grown, built = self._dump("index"), self._dump("fresh")
        differing = [name for name in built if grown[name] != built[name]]
        assert not differing, f"not what a fresh build says: {differing}"
        report = self.index()
        assert (report.added, report.changed, report.removed, report.embedded) == (0, 0, 0, 0), (
            f"not at rest: {report}"
        )

    def _dump(self, index: str) -> Mapping[str, Sequence[Any]]:
        with self.open(index) as library:
            (reader,) = library._readers
            return logical_dump(reader.store, reader.folder.places)


def open_library(root: Path, index: Path, *overrides: str) -> Library:
    """Open a folder by a model that costs nothing."""
    config = load_config(user_file=index.parent / "none", overrides=overrides)
    return Library.open(
        [root],
        index=index,
        config=replace(config, query=config.query.without_stages("recency")),
        embedder=FakeEmbedder(),
    )


def as_nobody(place: Place, **job: Any) -> dict[str, Any]:
    """Index, or ask, as a user to whom permissions apply: root reads what it likes.

    Return what came of it.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise NotTriedError("only root can become another user")
    for path in (place.made, *place.made.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    said, program = place.made / "said.json", Path(__file__).parents[1] / "faults" / "child.py"
    asked = {
        "root": str(place.root),
        "index": str(place.made / "index"),
        "said": str(said),
        "user": NOBODY,
        **job,
    }
    subprocess.run(
        [sys.executable, program],
        input=json.dumps(asked),
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    told: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
    assert told["outcome"] in ("done", "answered"), told
    return told
