"""Notes that change while they are read, or whose times do not change."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

from dump import dump
from folders import open_library


def test_index_of_restless_notes_equals_a_fresh_build(
    tmp_path: Path,
) -> None:
    vault, chance, stop = tmp_path / "vault", random.Random(5), threading.Event()
    vault.mkdir()
    (vault / "apples.md").write_text("# Apples\n\nApples are kept in the cellar.\n", "utf-8")
    paths = [vault / f"restless {number}.md" for number in range(20)]

    def write() -> None:
        while not stop.is_set():
            path = chance.choice(paths)
            with path.open("w", encoding="utf-8") as file:  # empties the file first
                for _ in range(chance.randrange(1, 30)):
                    file.write(f"# Part {chance.random()}\n\n{chance.choice(paths).stem}\n\n")
                    file.flush()
            if chance.random() < 0.3:
                os.truncate(path, chance.randrange(200))
            if chance.random() < 0.1:
                path.unlink()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            with open_library(vault) as library:
                library.index()
                passages = library.query("apples in the cellar").passages
            assert passages[0].path == "apples.md"
    finally:
        stop.set()
        writer.join()

    dumps = []
    for index in ("index", "fresh"):
        with open_library(vault, index=tmp_path / index) as library:
            library.index()
            dumps.append(dump(library))
    assert dumps[0] == dumps[1]


def test_edit_with_same_size_and_time_is_indexed(tmp_path: Path) -> None:
    vault, now = tmp_path / "vault", time.time()
    vault.mkdir()
    for when in (now - 3600, now + 3600, now + 400 * 365 * 86400):
        for word in ("written", "altered"):
            (vault / "a.md").write_text(f"# A\n\nIt is {word} here.\n", encoding="utf-8")
            os.utime(vault / "a.md", (when, when))
            with open_library(vault) as library:
                library.index()
                passages = library.query(f'"{word}"').passages
            assert [word in passage.text for passage in passages[:1]] == [True], when
