"""Globs of a query's filter: what git's rules say, in time that grows with the path alone, since anybody may send one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Glob:
    """One glob as the patterns of its parts between slashes; None stands for `**`, any number of folders."""

    parts: tuple[re.Pattern[str] | None, ...]
    below: bool  # it ends with a slash or `**`: only what lies in such a folder is met

    def matches(self, path: str) -> bool:
        """Tell whether the glob meets a path, or a folder that it is in."""
        names, ways = path.split("/"), self._open({0})
        for number, name in enumerate(names, 1):
            ways = self._open({way for at in ways for way in self._steps(at, name)})
            if len(self.parts) in ways and (number < len(names) or not self.below):
                return True
        return False

    def _steps(self, at: int, name: str) -> tuple[int, ...]:
        if at == len(self.parts):
            return ()
        part = self.parts[at]
        if part is None:
            return (at,)
        return (at + 1,) if part.match(name) else ()

    def _open(self, ways: set[int]) -> set[int]:
        """Add what `**` reaches by standing for no folder."""
        found = set(ways)
        for at in sorted(ways):
            while at < len(self.parts) and self.parts[at] is None:
                at += 1
                found.add(at)
        return found


@lru_cache(maxsize=256)
def read_glob(written: str) -> Glob:
    """Read a glob: a name or a path from the folder's root; one that begins with a star and has no slash is met at any depth."""
    named = [part for part in written.split("/") if part]
    parts = [part for part, before in zip(named, ["", *named], strict=False) if (part, before) != ("**", "**")]
    anywhere = written.startswith("*") and "/" not in written.rstrip("/")
    ends_open = parts[-1:] == ["**"]
    parts = parts[:-1] if ends_open else parts
    read = [None if part == "**" else re.compile(translate(_without_escapes(part))) for part in (["**", *parts] if anywhere else parts)]
    return Glob(tuple(read) if read else (None,), written.endswith("/") or (ends_open and bool(parts)))


def any_matches(globs: Sequence[str], path: str) -> bool:
    """Tell whether one of the globs meets a path."""
    return any(read_glob(glob).matches(path) for glob in globs)


def _without_escapes(part: str) -> str:
    """Write `\\*` as `[*]`, and a class that git excludes by `^` as one by `!`: fnmatch knows these alone."""
    return _ESCAPED.sub(r"[\1]", part).replace("[^", "[!")
