"""Match paths against globs with git's rules, without exponential backtracking."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

GlobRules = GitIgnoreSpec
"""Git's ignore rules in order. The last rule that matches a path decides."""

_SEPARATOR = re.compile(r"\\(?![*?!\[\]\\])")
"""A backslash before an ordinary character, which separates folders as on Windows."""

_NEGATED = re.compile(r"(?<!\\)\[\^(\]?)(?!/\])")
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_STAR = re.compile(r"\[\^/\]\*((?:[^/\[]|\\\[|\[\^/\](?!\*)|\[(?!\^/\]))++)(?=\[\^/\]\*)")
"""A compiled star (`[^/]*`), and the text up to the next star before a slash."""


def read_rules(lines: Iterable[str]) -> GlobRules:
    """Parse git's ignore rules, one per line. An invalid line matches nothing."""
    return GlobRules.from_lines(map(compose_accents, lines), _Rule)


def compose_accents(text: str) -> str:
    """Return a text in NFC, the form in which rules are matched. macOS may return names in NFD."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class _Rule(GitIgnoreSpecPattern):
    """A rule with limited backtracking: the text after a star matches where it first occurs."""

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """Return a rule's regular expression, and whether it excludes; (None, None) if invalid."""
        try:
            regex, leaves_out = super().pattern_to_regex(pattern)
            with warnings.catch_warnings():  # Python warns about `[[` in a set
                warnings.simplefilter("ignore", FutureWarning)
                return (regex and re.compile(_without_retries(regex)).pattern), leaves_out
        except (GitIgnorePatternError, re.error):
            return None, None


def _without_retries(pattern: str) -> str:
    """Make each `*` and `**` atomic, except the last. Python does not retry an atomic match."""
    pattern = _NEGATED.sub(r"[^\1\\x2f", pattern)  # a set never matches a slash
    pattern = _STARS.sub("[^/]*", pattern)
    pattern = _STAR.sub(r"(?>[^/]*?\1)", pattern)
    anywhere = "^(?:.+/)?"
    first, *others = pattern.removeprefix(anywhere).split("(?:/.+)?/")
    if pattern.startswith(anywhere):
        first, others = "^", [first, *others]
    elif others:
        first = f"{first}/"
    *middle, last = others or [""]
    folders = "".join(f"(?>(?:[^/]+/)*?{folder}/)" for folder in middle)
    return f"{first}{folders}(?:[^/]+/)*{last}" if others else first


def matches_glob(glob: str, path: str) -> bool:
    """Return whether a glob matches a path or a folder that contains the path.

    A glob that begins with a star and has no slash matches at any depth. Any other glob is anchored
    at the folder's root.
    """
    return _one_rule(glob).match_file(compose_accents(path)) is not None


@lru_cache(maxsize=256)
def _one_rule(glob: str) -> _Rule:
    glob = _SEPARATOR.sub("/", compose_accents(glob))
    if not glob.startswith("*") or "/" in glob.rstrip("/"):
        glob = f"/{glob.lstrip('/')}"
    return _Rule(glob)
