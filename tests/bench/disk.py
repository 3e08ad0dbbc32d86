"""The index on disk, by part, beside the Markdown that it was made of."""

from collections import Counter
from collections.abc import Iterator

from bench.results import Row
from bench.subject import Subject

LARGE_BYTES = 5_000_000
"""Of Markdown: below, what every index begins with would decide."""


def measure(subject: Subject) -> Iterator[Row]:
    """Add up the files of the index and of the notes."""
    with subject.open() as library:
        place = library.opened[0].places.folder
        notes = sum((subject.folder / entry.path).stat().st_size for entry in library.outline())
        chunks = library.status()[0].state.chunks
    parts = Counter[str]()
    for path in place.rglob("*"):
        if path.is_file():
            first = path.relative_to(place).parts[0]
            parts[
                "store"
                if first.startswith("index.sqlite3")
                else "words"
                if first == "keyword"
                else "the rest"
            ] += path.stat().st_size
    yield Row("disk", "Markdown", "MB", [notes / 1e6], note=f"{chunks:,} chunks")
    for name, size in parts.most_common():
        yield Row("disk", name, "MB", [size / 1e6])
    large = notes >= LARGE_BYTES
    note = "" if large else f"under {LARGE_BYTES / 1e6:g} MB of Markdown: no target"
    yield Row(
        "disk",
        "index / Markdown",
        "×",
        [parts.total() / max(notes, 1)],
        6.0 if large else None,
        note=note,
    )
