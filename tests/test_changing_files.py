"""Notes that are rewritten, cut short and deleted while they are read, or that keep their time."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

from dump import dump
from folders import open_library


def test_an_index_of_notes_that_change_while_they_are_read_ends_as_a_fresh_build(
    tmp_path: Path,
) -> None:
    vault, chance, stop = tmp_path / "vault", random.Random(5), threading.Event()
    vault.mkdir()
    (vault / "apples.md").write_text("# Apples\n\nApples are kept in the cellar.\n", "utf-8")
    paths = [vault / f"restless {number}.md" for number in range(20)]

    def write() -> None:
        while not stop.is_set():
            path = chance.choice(paths)
            with path.open("w", encoding="utf-8") as file:  # empties it first
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
                found = library.query("apples in the cellar").passages
            assert found[0].path == "apples.md"
    finally:
        stop.set()
        writer.join()

    dumps = []
    for index in ("index", "fresh"):
        with open_library(vault, index=tmp_path / index) as library:
            library.index()
            dumps.append(dump(library))
    assert dumps[0] == dumps[1]


def test_an_edit_that_keeps_its_length_and_its_time_is_found(tmp_path: Path) -> None:
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
