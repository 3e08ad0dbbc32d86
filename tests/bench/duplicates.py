"""What looking for duplicates costs: every chunk against all others, then after an edit; random
vectors stand for a model's.
"""

import random
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.results import Row
from bench.subject import RandomEmbedder, Subject, timed
from notes import make_vault, note_path
from thumbindex.library.duplicates import find_duplicates
from thumbindex.library.embedding import embed_group
from thumbindex.library.reader import Reader

NOTES, EDITS = 650, 20

COPIED = 0.2
"""Share of the notes that hold sections of another one."""


def measure(subject: Subject) -> Iterator[Row]:
    """Make notes of which some copy others, index them without looking for duplicates, then look;
    edit notes and look again.
    """
    notes, edits = subject.given.made or NOTES, subject.given.edits or EDITS
    made, embedder, chosen = (
        subject.at(subject.empty("vault"), subject.empty("index")),
        RandomEmbedder(),
        random.Random(2),
    )
    author = make_vault(made.folder, notes, subject.given.characters)
    for number in chosen.sample(range(notes), round(notes * COPIED)):
        _copy_section(
            note_path(made.folder, chosen.randrange(notes)), note_path(made.folder, number)
        )
    with made.open(
        "index.ingest.enabled=false", "index.duplicates.enabled=false", embedder=embedder
    ) as library:
        chunks = library.index().chunks
    with made.open(embedder=embedder) as library:
        (folder,) = library.opened
        whole, after = timed(lambda: deque(find_duplicates(folder), maxlen=0)), []
        for number in chosen.choices(range(notes), k=edits):
            note_path(made.folder, number).write_text(
                author.write_note(number, notes, subject.given.characters), encoding="utf-8"
            )
            library.index(words_only=True)
            with closing(Reader(folder)) as reader:
                pending = reader.store.pending()
            embed_group(folder, embedder, pending, last=True)
            after.append(1000 * timed(lambda: deque(find_duplicates(folder), maxlen=0)))
        with closing(Reader(folder)) as reader:
            pairs = len(reader.store.duplicates.alike())
    yield Row(
        "duplicates",
        "all chunks against all others",
        "s",
        [whole],
        note=f"{chunks:,} chunks, {pairs:,} pairs after the edits",
    )
    yield Row("duplicates", "pairs", "", [pairs])
    yield Row("duplicates", "after an edit", "ms", after, note=f"{edits:,} edits")


def _copy_section(source: Path, target: Path) -> None:
    """Put a section of one note at the end of another."""
    section = source.read_text(encoding="utf-8").split("\n## ")[-1]
    target.write_text(f"{target.read_text(encoding='utf-8')}\n## {section}", encoding="utf-8")
