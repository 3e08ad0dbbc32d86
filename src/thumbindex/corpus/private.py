"""Which notes are nobody's but their owner's: by a glob, by `private: true` at their head, or by a tag. In doubt a note is private."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from thumbindex.corpus.blocks import code_lines, read_outline
from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.source import comments_in
from thumbindex.settings import CorpusSettings

_STATED = re.compile(r"^([ \t]{0,80})[\"']?private[\"']?[ \t]{0,80}[:=][ \t]{0,80}[\"']?(?:true|yes|on|1)\b", re.M | re.I)
"""How the key stands in YAML and TOML; one that stands twice, or in a block that is broken, never closed or begins late, counts as well."""

_HEAD = 16_000
"""Characters in which a block that is never closed is looked for its key."""

_STARS = re.compile(r"(?:\[\^/\]\*)+")
_STAR = re.compile(r"\[\^/\]\*((?:[^/\[]|\\\[|\[\^/\](?!\*)|\[(?!\^/\]))++)(?=\[\^/\]\*)")
"""A star in the regular expression of a rule, with what is behind it up to the next one in the same name."""

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
    return read_rules([line for glob in globs for line in (_folded(glob), *_as_meant(_folded(glob)))])


def _as_meant(glob: str) -> Iterator[str]:
    """Yield what else a glob may mean that keeps notes private: a backslash may stand between folders, and a bracket for itself."""
    if not glob.startswith("!"):
        yield from {glob.replace("\\", "/"), glob.replace("[", "?").replace("]", "?")} - {glob}


# ------------------------------------------------------------------ git's rules, as anybody may have written them


def read_rules(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return git's rules, a line each; a line that git does not take says nothing."""
    return GitIgnoreSpec.from_lines(lines, _Rule)


class _Rule(GitIgnoreSpecPattern):
    """A rule that is matched in time which grows with the path, whatever its stars: the next thing behind a star is taken where it first comes."""

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """Return a rule's regular expression, None where it says nothing, and whether it leaves out or takes in."""
        try:
            found, leaves_out = super().pattern_to_regex(pattern)
            return (found and re.compile(_without_retries(found)).pattern), leaves_out
        except (GitIgnorePatternError, re.error):
            return None, None


def _without_retries(pattern: str) -> str:
    """Let no star but the last of a name, and no `**` but the last, be tried again once what is behind it was found."""
    pattern = _STARS.sub("[^/]*", pattern)
    pattern = _STAR.sub(r"(?>[^/]*?\1)", pattern)
    anywhere = "^(?:.+/)?"
    first, *rest = pattern.removeprefix(anywhere).split("(?:/.+)?/")
    if pattern.startswith(anywhere):
        first, rest = "^", [first, *rest]
    elif rest:
        first = f"{first}/"
    *middle, last = rest or [""]
    taken = "".join(f"(?>(?:[^/]+/)*?{each}/)" for each in middle)
    return f"{first}{taken}(?:[^/]+/)*{last}" if rest else first
