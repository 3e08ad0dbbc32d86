"""Globs as git reads them. Matching takes time that grows with the path, whatever the glob is."""

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
"""Git's rules in order; the last one that matches decides."""

_SEPARATOR = re.compile(r"\\(?![*?!\[\]\\])")
"""A backslash that takes no meaning from the character behind it: it stands between folders, as on
Windows.
"""

_NEGATED = re.compile(r"(?<!\\)\[\^(\]?)(?!/\])")
_STARS = re.compile(r"(?:\[\^/\]\*)+")
_STAR = re.compile(r"\[\^/\]\*((?:[^/\[]|\\\[|\[\^/\](?!\*)|\[(?!\^/\]))++)(?=\[\^/\]\*)")
"""A star in the regular expression of a rule, with what is behind it up to the next one in the same
name.
"""


def read_rules(lines: Iterable[str]) -> GlobRules:
    """Return git's rules, a line each; a line that git does not take says nothing."""
    return GlobRules.from_lines(map(compose_accents, lines), _Rule)


def compose_accents(text: str) -> str:
    """Return a text in NFC: rules are written so, and macOS may return names in NFD."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class _Rule(GitIgnoreSpecPattern):
    """A rule that is matched in time which grows with the path, whatever its stars: the next thing
    behind a star is taken where it first comes.
    """

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """Return a rule's regular expression, None where it says nothing, and whether it leaves out
        or takes in.
        """
        try:
            found, leaves_out = super().pattern_to_regex(pattern)
            with warnings.catch_warnings():  # `[[` in a set may mean something else one day
                warnings.simplefilter("ignore", FutureWarning)
                return (found and re.compile(_without_retries(found)).pattern), leaves_out
        except (GitIgnorePatternError, re.error):
            return None, None


def _without_retries(pattern: str) -> str:
    """Let no star but the last of a name, and no `**` but the last, be tried again once what is
    behind it was found.
    """
    pattern = _NEGATED.sub(r"[^\1\\x2f", pattern)  # no set meets a slash
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


def matches_glob(glob: str, path: str) -> bool:
    """Return whether a glob matches a path, or a folder that contains it.

    A glob that begins with a star and has no slash matches at any depth, any other one from the
    folder's root.
    """
    return _one_rule(glob).match_file(compose_accents(path)) is not None


@lru_cache(maxsize=256)
def _one_rule(glob: str) -> _Rule:
    glob = _SEPARATOR.sub("/", compose_accents(glob))
    if not glob.startswith("*") or "/" in glob.rstrip("/"):
        glob = f"/{glob.lstrip('/')}"
    return _Rule(glob)
