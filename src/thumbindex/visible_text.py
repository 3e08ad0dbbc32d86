"""Extract the visible text of Markdown, for words, comparison and models."""

from __future__ import annotations

import re

_EMPHASIS = ("**", "__", "~~", "==")
_INLINE = (  # substrings of every match (tested first, for speed), pattern, replacement
    (
        ("[[",),
        re.compile(r"!\[\[[^\]\[|]*\|([^\]\[]*)\]\]|!?\[\[([^\]\[|]*)\]\]"),
        lambda m: m[1] or m[2] or "",
    ),
    (("[[",), re.compile(r"\[\[[^\]\[|]*\|([^\]\[]*)\]\]"), lambda m: m[1]),
    (("](",), re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)"), lambda m: m[1]),
    (("][",), re.compile(r"!?\[([^\]\[]+)\]\[[^\]\[]*\]"), lambda m: m[1]),
    (("<",), re.compile(r"<(?:/?[A-Za-z][^<>]{0,300})>"), lambda m: " "),
    (_EMPHASIS, re.compile(r"(\*\*|__|~~|==)(?=\S)"), lambda m: ""),
    (_EMPHASIS, re.compile(r"(?<=\S)(\*\*|__|~~|==)"), lambda m: ""),
    (("*",), re.compile(r"(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])"), lambda m: ""),
)
_LINE_START = re.compile(
    r"^[ \t]*(?:>[ \t]?)*(?:\[![\w-]+\][+-]?[ \t]*)?"
    r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:#{1,6}[ \t]+)?",
    re.M,
)
_FENCE = re.compile(r"^[ \t]*(?:>[ \t]?)*(?:`{3,}|~{3,}).*$", re.M)
_RULE = re.compile(r"^[ \t]*+(?:\|[ \t]*+)?:?-{2,}+:?[ \t|:-]*+$", re.M)
_SPACE = re.compile(r"[ \t]+")


def strip_markup(markdown: str) -> str:
    """Return the visible text of Markdown: no markup, no link targets, no extra spaces."""
    text = markdown
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    if "--" in text:
        text = _RULE.sub("", text)
    text = _LINE_START.sub("", text)
    for marks, pattern, replacement in _INLINE:
        if any(mark in text for mark in marks):
            text = pattern.sub(replacement, text)
    text = text.replace("|", " ").replace("`", "")
    return "\n".join(
        line for line in (_SPACE.sub(" ", line).strip() for line in text.splitlines()) if line
    )


# ------------------------------------------------------------------ text for models

_MAX_HEADING_TOKENS = 85
"""A heading path with more estimated tokens than this is shortened before it is embedded.

The limit is a third of the smallest window.
"""


def embedded_text(heading_path: tuple[str, ...], text: str) -> str:
    """Return the text to embed for a chunk: `Title > H2 > H3`, a blank line, its visible text."""
    return f"{shorten_heading(' > '.join(heading_path))}\n\n{strip_markup(text)}".strip()


def shorten_heading(path: str) -> str:
    """Return a heading path, shortened in the middle if it is too long to embed."""
    # estimate: one token per four English letters, and per other character
    costs = [0.25 if c.isascii() and (c.isalpha() or c == " ") else 1.0 for c in path]
    if sum(costs) <= _MAX_HEADING_TOKENS:
        return path
    head = path[: _half_length(costs)]
    tail = path[len(path) - _half_length(costs[::-1]) :]
    return f"{head} … {tail}"


def _half_length(costs: list[float]) -> int:
    """Return how many characters at the start of a heading fit in half of the token limit."""
    spent = 0.0
    for count, cost in enumerate(costs):
        spent += cost
        if spent > (_MAX_HEADING_TOKENS - 3) / 2:
            return count
    return len(costs)
