"""A file's bytes as text with one kind of line end."""

from __future__ import annotations

import codecs
import re

from thumbindex.corpus.hidden import strip_invisible
from thumbindex.model import Problem

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_END = re.compile(r"\r\n?")


def decode(path: str, data: bytes) -> tuple[str, tuple[Problem, ...]]:
    """Return a file's text with line feeds only, no byte order mark and no NUL, and what had to be guessed or replaced."""
    mark, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    body = data[len(mark) :]
    problems: list[Problem] = []
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        text, how = _guess(body, encoding)
        line = _lines(body[: error.start].decode(encoding, "replace"))
        problems.append(Problem(path, line, f"not {encoding.upper()}: {how}; save the file as UTF-8"))
    text = _LINE_END.sub("\n", text) if "\r" in text else text
    nul = text.find("\0")
    if nul >= 0:
        problems.append(Problem(path, _lines(text[:nul]), f"{text.count(chr(0))} NUL characters, replaced; is this a text file?"))
        text = text.replace("\0", "\ufffd")
    return text, tuple(problems)


def decode_seen(path: str, data: bytes) -> str:
    """Return a file's text as it is shown and searched: without what nobody sees."""
    return strip_invisible(decode(path, data)[0])


def _guess(data: bytes, encoding: str) -> tuple[str, str]:
    """Read bytes that are not what they should be: as Windows-1252 unless some of them are valid UTF-8 beyond ASCII."""
    if encoding == "utf-8" and not any("\x7f" < c < "\ud800" or c > "\udfff" for c in set(data.decode("utf-8", "surrogateescape"))):
        return data.decode("cp1252", "replace"), "read as Windows-1252"
    return data.decode(encoding, "replace"), "what is not was replaced"


def _lines(text: str) -> int:
    return len(_LINE_END.sub("\n", text).split("\n"))
