"""The Note screen: text with the cited lines marked, outline, links and a map of neighbors."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from thumbindex.errors import UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import Backlink, NotePage, day_of, iso_day
from thumbindex.page.visit import (
    NotFoundError,
    Screen,
    Visit,
    heading_address,
    note_address,
    screen_address,
)
from thumbindex.present.editor_links import available_links
from thumbindex.present.sentences import flag_lines
from thumbindex.text import line_range
from thumbindex.visible_text import strip_markup

_MAX_ENTRIES = 100
"""Maximum entries of each list beside a note."""

_MAX_HEADINGS = 300

_RADIUS, _WIDTH, _HEIGHT = 118, 420, 320

_MAX_LABEL_CHARS = 18
"""Maximum characters of a label on the map."""

_CHAR_PIXELS, _LINE = 6.2, 12
"""Approximate width and height of a character in pixels. A label that overlaps is left out."""

_MAX_LABELS = 15
"""Maximum nodes on the map if distant notes have labels, too."""


def note_screen(visit: Visit) -> Screen:
    """Show the note at `/note/FOLDER/PATH`.

    Raises NotFoundError if the note is missing or private.
    """
    folder, _, path = visit.subpath.partition("/")
    lines, heading, is_source = visit.lines(), visit.text("heading"), visit.is_on("source")
    try:
        library = visit.library.only([folder]) if folder in dict(visit.library.folders) else None
        if library is None or not path:
            raise NotFoundError(visit.subpath)
        note = library.page(
            path,
            folder=folder,
            heading=heading or None,
            lines=lines,
            note_address=partial(heading_address, folder),
            tag_address=lambda name: screen_address("ask", q=f"tag:{name}"),
        )
        shown = (note.rendered.first_line, note.rendered.last_line)
        source = (
            library.read(note.path, folder=folder, lines=shown, exact=True) if is_source else None
        )
    except (UnknownPathError, UnknownFolderError) as error:
        raise NotFoundError(str(error)) from error
    cited = _cited_lines(note, lines)
    document, root = note.document, dict(visit.library.folders)[folder]
    address, names = note_address(folder, note.path), _display_names(note)
    lines_by_note = defaultdict[str, dict[int, Backlink]](dict)
    for backlink in note.backlinks:
        lines_by_note[backlink.path][backlink.line] = backlink
    backlinks = [list(found.values()) for found in lines_by_note.values()][:_MAX_ENTRIES]
    first = cited[0] if cited else 1
    rows = source.text.split("\n") if source else []
    state = visit.library.index_states().get(folder)
    values = {
        "page": note,
        "note_title": document.title or note.path,
        "folder": folder,
        "several": len(visit.library.folders) > 1,
        "day": iso_day(day_of(document)),
        "tags": [(name, screen_address("ask", q=f"tag:{name}")) for name in document.tags],
        "flags": flag_lines(document.flags, (1, note.rendered.total_lines)),
        "outline": note.rendered.headings[:_MAX_HEADINGS],
        "cited": cited,
        "citation": f"{note.path} ({line_range(*cited)})" if cited else note.path,
        "is_source": is_source,
        "source": list(enumerate(rows, start=source.start_line if source else 1)),
        "own": address,
        "switched": _toggle_address(address, lines, is_source=is_source),
        "links": [
            (note_address(folder, link), names[link], link)
            for link in note.related.links[:_MAX_ENTRIES]
        ],
        "links_left": max(0, len(note.related.links) - _MAX_ENTRIES),
        "backlinks": [
            (
                note_address(folder, first_link.path, (first_link.line, first_link.line)),
                names[first_link.path],
                # without the marks of a table and of a definition
                strip_markup(first_link.text).strip("|: "),
                len(more),
            )
            for first_link, *more in backlinks
        ],
        "backlinks_left": len(set(note.related.backlinks) - {found[0].path for found in backlinks}),
        "broken": [
            (
                note_address(folder, note.path, (link.line, link.line)),
                f"{link.target}#{link.fragment}"[:200] if link.fragment else link.target[:200],
                link.line,
                link.reason,
            )
            for link in note.broken[:_MAX_ENTRIES]
        ],
        "broken_left": max(0, len(note.broken) - _MAX_ENTRIES),
        "unlinked": [
            (note_address(folder, other.path), names[other.path], other.path)
            for other in note.unlinked
        ],
        "has_vectors": state is not None and not state.pending,
        "map": _local_map(note, names),
        "opens": available_links(root / note.path, heading, first) if visit.is_local else (),
    }

    return Screen(document.title or note.path, values)


def _cited_lines(note: NotePage, lines: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the cited lines that exist in the note. Raises UsageError if there are none."""
    total = max(note.rendered.total_lines, 1)
    if lines and lines[0] > total:
        raise UsageError(f"{note.path} has {total:,} lines: line {lines[0]} no longer exists.")
    return (lines[0], min(lines[1], total)) if lines else None


def _toggle_address(address: str, lines: tuple[int, int] | None, *, is_source: bool) -> str:
    """Return the address that switches between the source and the rendered note."""
    query = "&".join(
        [*([f"lines={lines[0]}-{lines[1]}"] if lines else []), *([] if is_source else ["source=1"])]
    )
    return address + (f"?{query}" if query else "") + (f"#L{lines[0]}" if lines else "")


def _display_names(note: NotePage) -> Mapping[str, str]:
    """Map each note's path to the name to display: the title if it is unique, else the path."""
    titles = {
        **note.titles,
        **{backlink.path: backlink.title for backlink in note.backlinks},
        note.path: note.document.title,
    }
    paths = {
        *titles,
        *note.related.links,
        *note.neighbors,
        *(other.path for other in note.unlinked),
    }
    counts = Counter(titles.values())
    return {
        path: title if (title := titles.get(path, "")) and counts[title] == 1 else path
        for path in paths
    }


def _local_map(note: NotePage, names: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Lay out the map: neighbors in a circle, and their neighbors in a larger circle."""
    if len(note.neighbors) < 2:
        return None
    direct = {end if start == 0 else start for start, end in note.edges if 0 in (start, end)}
    rings = [sorted(direct), [n for n in range(1, len(note.neighbors)) if n not in direct]]
    positions = {0: (_WIDTH / 2, _HEIGHT / 2)}
    for distance, ring in enumerate(rings, start=1):
        for slot, n in enumerate(ring):
            angle = 2 * math.pi * slot / len(ring) + distance * 0.4
            stretch = 1.35 if distance == 1 else 1.3
            radius = _RADIUS * (0.62 if distance == 1 else 1.12)
            positions[n] = (
                _WIDTH / 2 + radius * stretch * math.cos(angle),
                _HEIGHT / 2 + radius * math.sin(angle),
            )
    nodes, boxes = [], list[tuple[float, float, float]]()
    for n, path in enumerate(note.neighbors):
        distance = 0 if n == 0 else 1 if n in direct else 2
        title = names[path]
        x, y = positions[n]
        anchor = "middle"
        if x > _WIDTH * 0.6:
            anchor = "start"
        elif x < _WIDTH * 0.4:
            anchor = "end"
        room = {"start": _WIDTH - x - 7, "end": x - 7, "middle": 2 * min(x, _WIDTH - x)}[anchor]
        max_chars = max(4, min(_MAX_LABEL_CHARS, int(room / _CHAR_PIXELS)))
        label = title if len(title) <= max_chars else f"{title[: max_chars - 1]}…"
        dx, dy = {"start": 7, "end": -7, "middle": 0}[anchor], -8 if anchor == "middle" else 4
        width = len(label) * _CHAR_PIXELS
        left = x + dx - width * {"start": 0, "end": 1, "middle": 0.5}[anchor]
        if (distance == 2 and len(note.neighbors) > _MAX_LABELS) or any(
            left < other_right and other_left < left + width and abs(y + dy - other_y) < _LINE
            for other_left, other_right, other_y in boxes
        ):
            label = ""
        else:
            boxes.append((left, left + width, y + dy))
        nodes.append(
            {
                "x": round(x, 1),
                "y": round(y, 1),
                "href": note_address(note.folder, path),
                "title": title,
                "label": label,
                "ring": distance,
                "anchor": anchor,
                "dx": dx,
                "dy": dy,
            }
        )
    lines = [
        tuple(round(value, 1) for value in (*positions[start], *positions[end]))
        for start, end in note.edges
    ]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "nodes": nodes,
        "lines": lines,
        "far": [node for node in nodes if node["ring"] == 2],
        "left": note.neighbors_omitted,
    }
