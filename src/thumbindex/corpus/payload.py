"""Find the parts of a note that are data, not text: data URIs, drawings, encoded files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

_MIN_DATA_URI = 200
_MIN_ENCODED = 2_000
"""A longer run of base64 or hexadecimal digits is a file, not a key, token or checksum."""
_MIN_MINIFIED = 5_000
_MIN_DRAWING = 1_000
"""A shorter drawing outside a section `Drawing` may be an example in a text about drawings."""


OMITTED = re.compile(r"\[omitted: [^\]\n]{1,200}\]")
"""The mark in place of a payload."""


class Payload(NamedTuple):
    """A range of a text that is data, and its kind."""

    start: int
    end: int
    kind: str

    def mark(self) -> str:
        """Return the text to show in place of the data: `[omitted: data:image/png, 27 KB]`."""
        size = self.end - self.start
        shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1000))} KB"
        return f"[omitted: {self.kind}, {shown}]"


def find_payloads(text: str) -> Sequence[Payload]:
    """Return the payloads of a text in order. None overlaps another."""
    payloads: list[Payload] = []
    for payload in sorted((*_data_uris(text), *_drawings(text), *_encoded_lines(text))):
        if not payloads or payload.start >= payloads[-1].end:
            payloads.append(payload)
        elif payload.end > payloads[-1].end:
            payloads[-1] = payloads[-1]._replace(end=payload.end)
    return [_with_fences(text, payload) for payload in payloads]


def omit_payloads(text: str, mark: Callable[[Payload], str] = Payload.mark) -> str:
    """Return a text with a mark in place of each payload, and with its line numbers unchanged."""
    parts: list[str] = []
    position = 0
    for payload in find_payloads(text):
        lines = text.count("\n", payload.start, payload.end)
        parts += (text[position : payload.start], mark(payload), "\n" * lines)
        position = payload.end
    return "".join((*parts, text[position:])) if parts else text


_OPENING_FENCE = re.compile(r"(?:^|\n)[ \t>]*+(?:`{3,}+|~{3,}+)[^`\n]{0,200}+\n[ \t>]*+\Z")
_CLOSING_FENCE = re.compile(r"[ \t]*+\n[ \t>]*+(?:`{3,}+|~{3,}+)[ \t]*+(?=\n|\Z)")


def _with_fences(text: str, payload: Payload) -> Payload:
    """Extend a payload that is all of a code block by the fences of the block."""
    start, end, kind = payload
    closing = _CLOSING_FENCE.match(text, end)
    opening = _OPENING_FENCE.search(text[max(0, start - 300) : start]) if closing else None
    if closing and opening:
        fence = opening[0].lstrip("\n")
        return Payload(start - len(fence), closing.end(), kind)
    return payload


# ------------------------------------------------------------------ data URIs

_DATA_URI = re.compile(
    r"(?<!\w)data:(?P<type>[\w.+-]{1,80}/[\w.+-]{1,80})?"
    r"(?:;[\w.+-]{1,80}(?:=\"?[\w.+-]{0,80}\"?)?){0,9}?(?P<base64>;base64)?,",
    re.ASCII | re.IGNORECASE,
)
_BASE64_VALUE = re.compile(
    r"[\w+/=%-]*+(?:[ \t]*\n[ \t>]*+[\w+/=%-]{40,}+)*+(?:\s*+[\w+/=%-]++(?=[\"')]))?", re.ASCII
)
_URI_VALUE = re.compile(r"(?:[!#-&*-;=?-_a-{}~]++|\([!#-&*-;=?-_a-{}~ ]*+\))*+")
_DEFINITION = re.compile(r"(?:^|\n)([ \t>]*\[[^\[\]\n]{1,200}\]:[ \t]*<?)\Z")
_AFTER_DEFINITION = re.compile(r">?[^\n]{0,200}")


def _data_uris(text: str) -> Iterator[Payload]:
    if not ("data:" in text or "DATA:" in text):
        return
    for match in _DATA_URI.finditer(text):
        start, value = match.start(), match.end()
        quote = text[start - 1 : start]
        if not (match["type"] or match["base64"]):
            continue
        if match["base64"]:
            end = _end(_BASE64_VALUE.match(text, value))
        else:
            end = _end(_URI_VALUE.match(text, value))
            if quote and quote in "\"'" and match["type"].lower() == "image/svg+xml":
                # a quoted SVG need not be encoded
                line_end = text.find("\n", value)
                end = max(end, text.find(quote, value, line_end if line_end >= 0 else len(text)))
        if end - start <= _MIN_DATA_URI:
            continue
        kind = f"data:{match['type'] or ''}"
        if definition := _DEFINITION.search(text[max(0, start - 300) : start]):
            # a link definition without its address would be a passage
            start -= len(definition[1])
            end = _end(_AFTER_DEFINITION.match(text, end))
        yield Payload(start, end, kind)


def _end(match: re.Match[str] | None) -> int:
    assert match  # these patterns also match nothing
    return match.end()


# ------------------------------------------------------------------ drawings

_DRAWING_BLOCK = re.compile(
    r"^[ \t>]*(`{3,}|~{3,})[ \t]*(?:compressed-json|json[ \t]+!!!_START_OF_TLDRAW)[^\n]*\n"
    r"(.*?)(?=\n[ \t>]*\1|\Z)",
    re.M | re.S,
)
_DRAWING = re.compile(r"^[ \t]*+(\{\s*+\"type\"\s*+:\s*+\"excalidraw)", re.M)
_DRAWING_HEADING = re.compile(r"^#{1,6}[ \t]+Drawing[ \t]*\n\s*(?:[`~]{3,}[^\n]*\n\s*)?\Z", re.M)
_DRAWING_END = re.compile(r"\n[ \t]*(?:`{3,}|~{3,}|%%)|\Z")


def _drawings(text: str) -> Iterator[Payload]:
    """Yield the JSON of Excalidraw and tldraw, plain or compressed."""
    if "excalidraw" in text:
        position = 0
        for match in _DRAWING.finditer(text):
            start = match.start(1)
            if start < position:
                continue
            try:
                _, position = json.JSONDecoder().raw_decode(text, start)
            except (ValueError, RecursionError):
                end = _DRAWING_END.search(text, start)
                position = end.start() if end else len(text)
            if position - start > _MIN_DRAWING or _DRAWING_HEADING.search(
                text[max(0, start - 300) : start]
            ):
                yield Payload(start, position, "drawing")
    if "compressed-json" in text or "!!!_START_OF_TLDRAW" in text:
        for match in _DRAWING_BLOCK.finditer(text):
            if len(match[2]) > _MIN_DATA_URI:
                yield Payload(*match.span(2), "drawing")


# ------------------------------------------------------------------ encoded and minified lines

_ENCODED_LINE = re.compile(r"[ \t>]*+[A-Za-z0-9+/]{60,}+=*+\s*+")
_ENCODED_RUN = re.compile(rf"[\w+/=-]{{{_MIN_ENCODED},}}+", re.ASCII)
_HEX = re.compile(r"(?:0[xX])?[0-9A-Fa-f]++")
_PLAIN_WORD = re.compile(r"[^\W\d_][\w'’-]*[.,:;!?]*")
_MINIFIED = ((0.04, 0.015), (0.08, 0.03))
"""Maximum spaces and minimum braces and semicolons of minified code, as fractions of a line.

Prose has 0.15 spaces; minified libraries have 0.03 of each.
"""


def _encoded_lines(text: str) -> Iterator[Payload]:
    lines = text.split("\n")
    candidates = [
        n
        for n, line in enumerate(lines)
        if len(line) >= 60 and (" " not in line[-40:] or len(line) > _MIN_ENCODED)
    ]
    if not candidates:
        return
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    encoded = [n for n in candidates if _ENCODED_LINE.fullmatch(lines[n])]
    for first, last in _runs(encoded):
        rest = lines[last] if last < len(lines) else ""
        last += bool(re.fullmatch(r"[ \t>]*[A-Za-z0-9+/]{1,80}={0,2}\s*", rest))
        start, end = starts[first], starts[last] - 1
        if end - start > _MIN_ENCODED and _is_base64(text[start:end], wrapped=last - first > 1):
            yield Payload(start, end, "base64")
    for n in candidates:
        for start, end, kind in _parts_of_line(lines[n]):
            yield Payload(starts[n] + start, starts[n] + end, kind)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of consecutive numbers."""
    cuts = [i for i, (a, b) in enumerate(pairwise(numbers), 1) if b != a + 1]
    for first, last in pairwise([0, *cuts, len(numbers)]) if numbers else ():
        yield numbers[first], numbers[last - 1] + 1


def _is_base64(run: str, wrapped: bool = False) -> bool:
    """Return whether a run of letters and digits is encoded data.

    A long word, a number and a DNA sequence have only one class of characters. Lines of base64
    also contain `+` or `/`, as opposed to a list of identifiers.
    """
    has_all = all(re.search(f"[{kind}]", run) for kind in ("A-Z", "a-z", "0-9"))
    return has_all and (not wrapped or "+" in run or "/" in run)


def _parts_of_line(line: str) -> Iterator[Payload]:
    if len(line) <= _MIN_ENCODED:
        return
    for match in _ENCODED_RUN.finditer(line):
        before = re.split(r"[\s\"'(<>]", line[max(0, match.start() - 2_000) : match.start()])[-1]
        is_hex = _HEX.fullmatch(match[0]) and not (match[0].isdigit() or match[0].isalpha())
        if "://" not in before and (is_hex or _is_base64(match[0])):
            yield Payload(*match.span(), "hexadecimal" if is_hex else "base64")
    if len(line) > _MIN_MINIFIED:
        words = list(re.finditer(r"\S+", line))
        is_code = [not _PLAIN_WORD.fullmatch(word[0]) for word in words]
        if any(is_code):
            start = words[is_code.index(True)].start()  # text before and behind the code is kept
            end = words[-1 - is_code[::-1].index(True)].end()
            if end - start > _MIN_MINIFIED and _is_minified(line[start:end]):
                yield Payload(start, end, "minified code")


def _is_minified(code: str) -> bool:
    size = len(code)
    spaces = size - sum(map(len, code.split()))
    braces = sum(map(code.count, "{};"))
    if len(code.encode("ascii", "ignore")) < 0.9 * size:
        return False  # Chinese has no spaces either
    if any(spaces <= most * size and braces >= least * size for most, least in _MINIFIED):
        return True
    if code[0] != "[" or code.rstrip(",.;)")[-1:] != "]":
        return False
    is_numbers = spaces < 0.08 * size and sum(map(str.isalpha, code)) < 0.2 * size
    return is_numbers or (not spaces and code.count('"') > 0.015 * size)
