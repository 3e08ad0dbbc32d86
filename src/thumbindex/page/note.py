"""Note: its text with the cited lines marked, its outline, links and a map of its neighbors."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from thumbindex.errors import UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import BrokenLink, NotePage, day_of, iso_day
from thumbindex.page.visit import NotFoundError, Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import as_json, excerpt_payload, related_payload
from thumbindex.present.editor_links import available_links
from thumbindex.present.sentences import flag_lines
from thumbindex.text import line_range

_MAX_ENTRIES = 100
"""Maximum entries of a list beside a note."""

_MAX_HEADINGS = 300

_RADIUS, _WIDTH, _HEIGHT = 118, 420, 320

_MAX_LABEL_CHARS = 24
"""Maximum characters of a label on the map."""

_CHAR_PIXELS = 6.2
"""Pixels of a character, about."""


def note_screen(visit: Visit) -> Screen:
    """Show the note of `/note/FOLDER/PATH`; private and missing notes get the same answer."""
    folder, _, path = visit.subpath.partition("/")
    lines, heading, is_source = visit.lines(), visit.text("heading"), visit.is_on("source")
    try:
        library = visit.library.only([folder]) if folder in dict(visit.library.folders) else None
        if library is None or not path:
            raise NotFoundError(visit.subpath)
        found = library.page(
            path,
            folder=folder,
            heading=heading or None,
            lines=lines,
            note_address=lambda other, fragment: _heading_address(folder, other, fragment),
            tag_address=lambda name: screen_address("ask", q=f"tag:{name}"),
        )
        read = partial(library.read, found.path, folder=folder, exact=True)
        seen = (found.rendered.first_line, found.rendered.last_line)
        source = read(lines=seen) if is_source else None
    except (UnknownPathError, UnknownFolderError) as error:
        raise NotFoundError(str(error)) from error
    cited = _cited_lines(found, lines)
    document, root = found.document, dict(visit.library.folders)[folder]
    own, names = note_address(folder, found.path), _display_names(found)
    backlinks = list(
        {(backlink.path, backlink.line): backlink for backlink in found.backlinks}.values()
    )[:_MAX_ENTRIES]
    first = cited[0] if cited else 1
    rows = source.text.split("\n") if source else []
    state = visit.library.index_states().get(folder)
    line_options = ["--lines", f"{cited[0]}-{cited[1]}"] if cited else []
    command = ["thumbindex", "read", found.path, *line_options, *visit.options()]
    values = {
        "page": found,
        "note_title": document.title or found.path,
        "folder": folder,
        "several": len(visit.library.folders) > 1,
        "day": iso_day(day_of(document)),
        "tags": [(name, screen_address("ask", q=f"tag:{name}")) for name in document.tags],
        "flags": flag_lines(document.flags, (1, found.rendered.total_lines)),
        "outline": found.rendered.headings[:_MAX_HEADINGS],
        "cited": cited,
        "citation": f"{found.path} ({line_range(*cited)})" if cited else found.path,
        "is_source": is_source,
        "source": list(enumerate(rows, start=source.start_line if source else 1)),
        "own": own,
        "switched": _toggle_address(own, lines, is_source=is_source),
        "links": [
            (note_address(folder, link), names[link], link)
            for link in found.related.links[:_MAX_ENTRIES]
        ],
        "links_left": max(0, len(found.related.links) - _MAX_ENTRIES),
        "backlinks": [
            (
                note_address(folder, backlink.path, (backlink.line, backlink.line)),
                names[backlink.path],
                backlink.text,
            )
            for backlink in backlinks
        ],
        "backlinks_left": len(
            set(found.related.backlinks) - {backlink.path for backlink in backlinks}
        ),
        "broken": [
            (note_address(folder, found.path, (each.line, each.line)), _link_text(each), each.line)
            for each in found.broken[:_MAX_ENTRIES]
        ],
        "broken_left": max(0, len(found.broken) - _MAX_ENTRIES),
        "unlinked": [
            (note_address(folder, each.path), names[each.path], each.path, each.score)
            for each in found.unlinked
        ],
        "has_vectors": state is not None and state.vectors > 0,
        "map": _local_map(found, names),
        "opens": available_links(root / found.path, heading, first) if visit.is_local else (),
        "command": shlex.join(command),
    }

    def payload() -> dict[str, Any]:
        return {
            "read": excerpt_payload(read(lines=cited)),
            "outline": {"entries": as_json(library.outline(found.path, folder=folder))},
            "related": related_payload(found.related, _MAX_ENTRIES),
            "backlinks": as_json(found.backlinks),
            "broken": as_json(found.broken),
            "unlinked": as_json(found.unlinked),
        }

    return Screen(document.title or found.path, values, payload)


def _heading_address(folder: str, path: str, heading: str) -> str:
    """Return the address of a note of the same folder, at a heading."""
    return note_address(folder, path) + (screen_address("", heading=heading)[1:] if heading else "")


def _cited_lines(found: NotePage, lines: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the cited lines that the note has. Raises UsageError if it has none of them."""
    total = max(found.rendered.total_lines, 1)
    if lines and lines[0] > total:
        raise UsageError(
            f"{found.path} has lines 1 to {total}: there is no line {lines[0]} any more."
        )
    return (lines[0], min(lines[1], total)) if lines else None


def _toggle_address(own: str, lines: tuple[int, int] | None, *, is_source: bool) -> str:
    """Return the address of a note's source, or of the rendered note, at the cited lines."""
    query = "&".join(
        [*([f"lines={lines[0]}-{lines[1]}"] if lines else []), *([] if is_source else ["source=1"])]
    )
    return own + (f"?{query}" if query else "") + (f"#L{lines[0]}" if lines else "")


def _display_names(found: NotePage) -> Mapping[str, str]:
    """Return the name of each note around one: its title if that is unique, else its path."""
    titles = {
        **found.titles,
        **{backlink.path: backlink.title for backlink in found.backlinks},
        found.path: found.document.title,
    }
    paths = {
        *titles,
        *found.related.links,
        *found.neighbors,
        *(each.path for each in found.unlinked),
    }
    counts = Counter(titles.values())
    return {
        path: title if (title := titles.get(path, "")) and counts[title] == 1 else path
        for path in paths
    }


def _link_text(link: BrokenLink) -> str:
    return link.written[:200]


def _local_map(found: NotePage, names: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return a map of the notes around one: neighbors in a circle, their neighbors outside."""
    if len(found.neighbors) < 2:
        return None
    tied = {there if here == 0 else here for here, there in found.edges if 0 in (here, there)}
    rings = [sorted(tied), [at for at in range(1, len(found.neighbors)) if at not in tied]]
    places = {0: (_WIDTH / 2, _HEIGHT / 2)}
    for distance, ring in enumerate(rings, start=1):
        for n, at in enumerate(ring):
            angle = 2 * math.pi * n / len(ring) + distance * 0.4
            wide = 1.35 if distance == 1 else 1.3
            radius = _RADIUS * (0.62 if distance == 1 else 1.12)
            places[at] = (
                _WIDTH / 2 + radius * wide * math.cos(angle),
                _HEIGHT / 2 + radius * math.sin(angle),
            )
    nodes = []
    for at, path in enumerate(found.neighbors):
        title = names[path]
        x, y = places[at]
        anchor = "middle"
        if x > _WIDTH * 0.6:
            anchor = "start"
        elif x < _WIDTH * 0.4:
            anchor = "end"
        room = {"start": _WIDTH - x - 7, "end": x - 7, "middle": 2 * min(x, _WIDTH - x)}[anchor]
        longest = max(4, min(_MAX_LABEL_CHARS, int(room / _CHAR_PIXELS)))
        nodes.append(
            {
                "x": round(x, 1),
                "y": round(y, 1),
                "href": note_address(found.folder, path),
                "title": title,
                "label": title if len(title) <= longest else f"{title[: longest - 1]}…",
                "ring": 0 if at == 0 else 1 if at in tied else 2,
                "anchor": anchor,
                "dx": {"start": 7, "end": -7, "middle": 0}[anchor],
                "dy": -8 if anchor == "middle" else 4,
            }
        )
    lines = [
        tuple(round(each, 1) for each in (*places[here], *places[there]))
        for here, there in found.edges
    ]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "nodes": nodes,
        "lines": lines,
        "far": [node for node in nodes if node["ring"] == 2],
        "left": found.neighbors_omitted,
    }
