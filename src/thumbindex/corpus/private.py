"""Which notes are nobody's but their owner's: by a glob, by `private: true` at their head, or by a tag. In doubt a note is private."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from pathspec import GitIgnoreSpec

from thumbindex.corpus.blocks import code_lines, read_outline
from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.source import comments_in
from thumbindex.settings import CorpusSettings

_STATED = re.compile(r"^([ \t]{0,80})[\"']?private[\"']?[ \t]{0,80}[:=][ \t]{0,80}[\"']?(?:true|yes|on|1)\b", re.M | re.I)
"""How the key stands in YAML and TOML; one that stands twice, or in a block that is broken, never closed or begins late, counts as well."""

_HEAD = 16_000
"""Characters in which a block that is never closed is looked for its key."""

_REFUSED = frozenset({"", "false", "no", "off", "0", "none", "null"})


def is_private_path(path: str, settings: CorpusSettings) -> bool:
    """Tell whether a glob of `corpus.private.globs` keeps a file, or a folder that it is in, out; upper and lower case are one."""
    globs = settings.private.globs
    return bool(globs) and (_globs(globs).match_file(_folded(path)) or (path.endswith("/") and is_private_folder(path, settings)))


def is_private_folder(path: str, settings: CorpusSettings) -> bool:
    """Tell whether whatever lies in a folder is private (`journal/**`), so that the folder's own name is nobody's business either."""
    globs = settings.private.globs
    return bool(globs) and not any(glob.startswith("!") for glob in globs) and _globs(globs).match_file(_folded(f"{path.rstrip('/')}/_.md"))


def is_private_text(path: str, text: str, settings: CorpusSettings) -> bool:
    """Tell whether a decoded file says of itself that it is private; what has none of the words is not parsed."""
    folded = text.casefold()
    if not any(word in folded for word in ("private", *map(_tag, settings.private.tags))):
        return False
    front = read_front_matter(path, text)
    return says_private(text, front, (*front.tags, *read_outline(text[front.size :]).tags), settings)


def says_private(text: str, front: FrontMatter, tags: Iterable[str], settings: CorpusSettings) -> bool:
    """Tell whether a note with these tags says of itself that it is private, by its head or by a tag."""
    return states_privacy(text, front) or has_private_tag(tags, text[front.size :], settings)


def states_privacy(text: str, front: FrontMatter) -> bool:
    """Tell whether a text's head, or one that is never closed or begins late, has the key `private` with a value other than no."""
    head = text[: front.size] if front.size else text[:_HEAD] if text[:_HEAD].lstrip("\ufeff \t\r\n").startswith(("---", "+++")) else ""
    is_read = bool(front.size) and not front.problems  # then what is indented is part of something else
    stated = any(not (is_read and match[1]) for match in _STATED.finditer(head))
    return stated or any(key.casefold() == "private" and str(value).strip().casefold() not in _REFUSED for key, value in front.fields.items())


def has_private_tag(tags: Iterable[str], body: str, settings: CorpusSettings) -> bool:
    """Tell whether one of the tags is private, or below one that is (`private/journal`); one in a comment counts."""
    wanted = tuple(map(_tag, settings.private.tags))
    if any(_is_below(tag, wanted) for tag in tags):
        return True
    if not any(f"#{tag}" in body.casefold() for tag in wanted):
        return False
    return any(_is_below(tag, wanted) for comment in comments_in(body, code_lines(body)) for tag in re.findall(r"#([\w/-]+)", comment))


def _is_below(tag: str, wanted: tuple[str, ...]) -> bool:
    return any(_tag(tag) == each or _tag(tag).startswith(f"{each}/") for each in wanted)


def _tag(written: str) -> str:
    return _folded(written).lstrip("#").strip("/ ")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


@lru_cache(maxsize=64)
def _globs(globs: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(map(_folded, globs))
