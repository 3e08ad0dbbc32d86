"""Where the notes of a folder lie on its map, kept beside the index so that they are found again;
laid out anew where it cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thumbindex.index.files import Places, read_shared, write_whole

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in the plane, from -1 to 1, and of what they were made."""

    model: str = ""  # the fingerprint of the model whose vectors were laid out
    places: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by path
    # by path, of the vector that was laid out
    digests: Mapping[str, str] = field(default_factory=dict)


def read_layout(places: Places) -> Layout:
    """Return the layout that is kept; an empty one where there is none, or none that can be
    read.
    """
    try:
        found = json.loads(read_shared(places.map))
        rows = [
            (str(path), (float(x), float(y)), str(digest)) for path, x, y, digest in found["notes"]
        ]
        return Layout(
            str(found["model"]),
            {path: place for path, place, _ in rows},
            {path: digest for path, _, digest in rows},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Layout()


def keep_layout(places: Places, layout: Layout) -> None:
    """Keep a layout in place of the one before. For who holds the writer's lock."""
    rows = [
        [path, round(x, _DIGITS), round(y, _DIGITS), layout.digests[path]]
        for path, (x, y) in sorted(layout.places.items())
    ]
    write_whole(places.map, json.dumps({"model": layout.model, "notes": rows}, ensure_ascii=False))


def forget_on_map(places: Places, paths: Sequence[str]) -> None:
    """Take notes out that may not be named any more. For who holds the writer's lock."""
    layout, gone = read_layout(places), set(paths)
    if gone & layout.places.keys():
        kept = {path: place for path, place in layout.places.items() if path not in gone}
        keep_layout(places, Layout(layout.model, kept, layout.digests))
