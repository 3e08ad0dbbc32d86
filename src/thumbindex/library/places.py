"""Find the lines of a place in a note: of a heading, a block or an anchor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from urllib.parse import unquote

from thumbindex.corpus.anchors import find_block_ids, find_html_ids, heading_anchors, slugify
from thumbindex.corpus.markdown import is_mdx
from thumbindex.corpus.parse import note_body, parse_headings
from thumbindex.errors import UsageError
from thumbindex.text import name_key, one_line

HEADING_SEPARATOR = " > "
"""Separator between a heading and its subheading in answers."""

_LINES = re.compile(r"L([1-9]\d{0,8})(?:C\d+)?(?:-L?([1-9]\d{0,8})(?:C\d+)?)?", re.I)
"""Lines in a link to GitHub and the like: `L5`, `L5-L9`, `L5C1-L9C2`."""


class NotePlaces:
    """The places in a note that the part after `#` of a link or citation may name."""

    def __init__(self, path: str, text: str, in_vault: bool) -> None:
        self._path, self._text, self._in_vault = path, text, in_vault
        self.total = text.count("\n") + (not text.endswith("\n"))

    @cached_property
    def headings(self) -> tuple[tuple[int, str, int], ...]:
        """Level, text and line of each heading."""
        return parse_headings(self._path, self._text, self._in_vault)

    @cached_property
    def block_ids(self) -> dict[str, tuple[int, int]]:
        """First and last line of each block by its id, as `^id`."""
        ids = find_block_ids(self._body, is_mdx(self._path))
        return {f"^{block_id}": self._section(lines) for block_id, lines in ids.items()}

    def ranges(self, place: str) -> list[tuple[int, int]]:
        """Return the first and last line of each place with a name, e.g. of equal headings.

        The name is a heading, with or without its ancestors (`Above > Heading`), a `^block`, an
        anchor as in the address of a published note (`setting-up-1`), or lines (`L5-L9`).
        """
        forms = list(dict.fromkeys((place.strip(), unquote(place).strip())))
        if any(map(_block_id, forms)):
            return [*filter(None, map(self._block, forms))]
        for form in forms:
            positions = (
                self._numbered(form)
                or matching_headings(form, self._heading_paths)
                # MkDocs numbers repeated headings as `faq_1`
                or self._numbered(re.sub(r"_(\d+)$", r"-\1", form))
            )
            if positions:
                return [self._section((self.headings[n][2],) * 2) for n in positions]
            if form in self._html_ids:
                return [self._section(self._html_ids[form])]
        match = next(filter(None, map(_LINES.fullmatch, forms)), None)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        return [(first, min(last, self.total))] if 0 < first <= min(last, self.total) else []

    def line_of_link(self, anchor: str) -> int | None:
        """Return the line that a link inside the note leads to. Fast for many links."""
        if block := self._block(anchor):
            return block[0]
        if positions := self._numbered(anchor):
            return self.headings[positions[0]][2]
        return self._heading_lines.get(name_key(anchor)) or self._html_ids.get(anchor, (None,))[0]

    def _block(self, place: str) -> tuple[int, int] | None:
        block_id = _block_id(place)
        return self.block_ids.get(block_id) or self._folded_ids.get(block_id.casefold())

    def _numbered(self, text: str) -> list[int]:
        """Return the position of a heading with an id, or of a repeated heading (`faq-1`)."""
        position = None if re.search(r"\s", text) else self._anchors.get(slugify(text))
        return [] if position is None else [position]

    def unknown_error(self, place: str) -> UsageError:
        """Return the error for a place that the note does not have, with similar ones."""
        if match := _LINES.fullmatch(place):
            return self.unknown_lines_error(int(match[1]), int(match[2] or match[1]))
        block_id = _block_id(unquote(place))
        names = list(self.block_ids) if block_id else [name for _, name, _ in self.headings]
        kind = "block" if block_id else "heading"
        return unknown_place_error(self._path, kind, block_id or place, names)

    def unknown_lines_error(self, first: int, last: int) -> UsageError:
        """Return the error for lines that the note does not have."""
        return UsageError(
            f"{self._path} has {self.total} lines: {first} to {last} is not a valid range."
        )

    @cached_property
    def _body(self) -> str:
        return note_body(self._path, self._text, self._in_vault)

    @cached_property
    def _anchors(self) -> dict[str, int]:
        return heading_anchors(self.headings, self._text.split("\n"))

    @cached_property
    def _html_ids(self) -> dict[str, tuple[int, int]]:
        return find_html_ids(self._body, is_mdx(self._path))

    @cached_property
    def _folded_ids(self) -> dict[str, tuple[int, int]]:
        return {block_id.casefold(): lines for block_id, lines in reversed(self.block_ids.items())}

    @cached_property
    def _heading_lines(self) -> dict[str, int]:
        return {name_key(name): line for _, name, line in reversed(self.headings)}

    def _section(self, lines: tuple[int, int]) -> tuple[int, int]:
        """Return the lines, or the whole section if they are a heading."""
        levels = iter(self.headings)
        level = next((level for level, _, line in levels if line == lines[0]), 0)
        if not level:
            return lines
        following = (line for depth, _, line in levels if depth <= level)
        return lines[0], next(following, self.total + 1) - 1

    @cached_property
    def _heading_paths(self) -> list[list[str]]:
        """Each heading's chain: its ancestors, then the heading."""
        paths, ancestors = list[list[str]](), list[tuple[int, str]]()
        for level, name, _ in self.headings:
            ancestors = [*(above for above in ancestors if above[0] < level), (level, name)]
            paths.append([name for _, name in ancestors])
        return paths


def _block_id(place: str) -> str:
    """Return the `^id` at the end of a place, or an empty string."""
    last = place.rpartition("#")[2].strip()
    return last if last.startswith("^") else ""


def matching_headings(text: str, chains: Sequence[Sequence[str]]) -> list[int]:
    """Return the positions of the headings that a text matches.

    Each chain lists a heading's ancestors, then the heading. The text may include ancestors
    (`Above > Heading`) or the note's title, or be an anchor (`set-up`).
    """
    heading = one_line(text).lstrip("#").strip()
    for form in (str.casefold, name_key):
        folded = [[form(one_line(name)) for name in chain] for chain in chains]
        for parts in (
            [heading],
            *(heading.split(mark) for mark in (HEADING_SEPARATOR, "#") if mark in heading),
        ):
            *higher, last = (form(part.strip()) for part in parts)
            matches = [
                n
                for n, (*above, name) in enumerate(folded)
                if last
                and name == last
                and (_is_subsequence(higher, above) or _is_subsequence(higher[1:], above))
            ]
            if matches:
                return matches
    return []


def _is_subsequence(some: Sequence[str], every: Sequence[str]) -> bool:
    remaining = iter(every)
    return all(item in remaining for item in some)


def unknown_place_error(path: str, kind: str, place: str, names: Sequence[str]) -> UsageError:
    """Return the error for an unknown heading or block, with similar ones."""
    names = list(dict.fromkeys(names))
    similar = get_close_matches(place, names, n=3, cutoff=0.4) or names[:3]
    hint = f" Nearest: {', '.join(map(one_line, similar))}." if similar else ""
    return UsageError(f"{path} has no {kind} {place!r}.{hint}")
