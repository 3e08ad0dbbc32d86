"""A marked block of lines in a Markdown file that belongs to somebody else."""

from __future__ import annotations

import re

BEGIN, END = "<!-- thumbindex: begin -->", "<!-- thumbindex: end -->"

_BLOCK = re.compile(re.escape(BEGIN) + r"\r?\n(?P<lines>[^<]*(?:<(?!!-- thumbindex)[^<]*)*)" + re.escape(END) + r"(?:\r?\n|\Z)")


def read_block(text: str) -> str | None:
    """Return the lines of the block, None where there is none."""
    found = _BLOCK.search(text)
    return found["lines"].replace("\r\n", "\n").rstrip("\n") if found else None


def put_block(text: str, lines: str) -> str:
    """Return the text with the block at its end, or where it was."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([BEGIN, *lines.split("\n"), END, ""])
    if found := _BLOCK.search(text):
        return text if read_block(text) == lines else text[: found.start()] + block + text[found.end() :]
    if not text:
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def take_block(text: str) -> str:
    """Return the text without the block, nor the empty line before it."""
    found = _BLOCK.search(text)
    if not found:
        return text
    before = text[: found.start()]
    for empty in ("\r\n\r\n", "\n\n"):
        if before.endswith(empty):
            before = before[: -len(empty) // 2]
    return before + text[found.end() :]
