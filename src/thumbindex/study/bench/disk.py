"""The index on disk, by part, beside the Markdown that it was made of."""

from __future__ import annotations

from pathlib import Path

from thumbindex.study.bench.row import Row, Target
from thumbindex.study.bench.subject import Subject

PARTS = {"index.sqlite3": "store", "keyword": "words"}
"""What lies in an index's folder; the rest is named so."""

LARGE_BYTES = 5_000_000
"""Of Markdown: below, what every index begins with would decide."""

SHARE = Target(most=6.0)


def measure_disk(subject: Subject) -> tuple[Row, ...]:
    """Add up the files of the index and of the notes."""
    with subject.open(subject.where) as library:
        (folder, *_) = library.opened
        notes = sum((folder.root / entry.path).stat().st_size for entry in library.outline())
        chunks = library.status()[0].state.chunks
    parts: dict[str, int] = {}
    for path in folder.places.folder.rglob("*"):
        if path.is_file():
            name = _part(path.relative_to(folder.places.folder))
            parts[name] = parts.get(name, 0) + path.stat().st_size
    rows = [Row("disk", name, "MB", (size / 1e6,)) for name, size in sorted(parts.items(), key=lambda item: -item[1])]
    share = sum(parts.values()) / max(notes, 1)
    target = SHARE if notes >= LARGE_BYTES else None
    about = "" if target else f"under {LARGE_BYTES / 1e6:g} MB of Markdown: no target"
    return (
        Row("disk", "Markdown", "MB", (notes / 1e6,), note=f"{chunks:,} chunks"),
        *rows,
        Row("disk", "index / Markdown", "×", (share,), target, note=about),
    )


def _part(path: Path) -> str:
    first = path.parts[0]
    return next((name for start, name in PARTS.items() if first.startswith(start)), "the rest")
