"""Which paths are parallel: equal but for one folder, or for a version in a name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Kinship = Literal["version", "language", "name", "place"]
"""What parallel paths differ in: folders with a version on either side, two languages, versions in the file's name, or any other folder."""

_VERSION = re.compile(r"(?<![^\W_])[vV]?(?:\d+(?:\.(?:\d+|x))+|(?<=[vV])\d+)(?![^\W_])")
_DATE = re.compile(r"(?:19|20)\d\d([-._])\d{1,2}\1\d{1,2}")
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_ANY = "\0"
"""What stands for the part in which parallel paths differ: no path has it."""


@lru_cache(maxsize=4096)
def path_keys(path: str) -> frozenset[str]:
    """Return what a path has in common with each path that is parallel to it: two paths are when they share a key."""
    parts = path.split("/")
    replaced = {"/".join([*parts[:at], _ANY, *parts[at + 1 :]]) for at in range(len(parts) - 1)}
    named = _without_version(parts[-1])
    versions = {"/".join([*parts[:-1], named])} if named != parts[-1] else set()
    left_out = {"/".join([*parts[:at], *parts[at + 1 :]]) for at in range(len(parts) - 1) if is_version(parts[at]) or _LANGUAGE.fullmatch(parts[at])}
    return frozenset({path, *replaced, *versions, *left_out})


def kinship(first: str, second: str) -> Kinship | None:
    """Return what two paths differ in; None where they are not parallel."""
    if first == second or not path_keys(first) & path_keys(second):
        return None
    mine, yours = difference(first, second)
    if first.endswith(f"/{mine}") or first == mine:
        return "name"
    if is_version(mine) or is_version(yours):
        return "version"
    return "language" if all(not part or _LANGUAGE.fullmatch(part) for part in (mine, yours)) else "place"


def difference(first: str, second: str) -> tuple[str, str]:
    """Return the part of each of two parallel paths in which they differ; empty for the one that lacks it."""
    mine, yours = first.split("/"), second.split("/")
    at = next((n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b), min(len(mine), len(yours)))
    if len(mine) == len(yours):
        return mine[at], yours[at]
    return (mine[at], "") if len(mine) > len(yours) else ("", yours[at])


def is_version(part: str) -> bool:
    """Tell whether a part of a path holds a version, as 5.1, v2 and guide-7.x do; a date is none."""
    return bool(_VERSION.search(_DATE.sub("", part)))


def version_of(part: str) -> tuple[int, ...]:
    """Return the version in a part of a path as numbers that can be compared; empty where there is none."""
    found = _VERSION.search(_DATE.sub("", part))
    return tuple(int(number) for number in re.findall(r"\d+", found[0])) if found else ()


def _without_version(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    bare = _VERSION.sub(_ANY, stem)
    return f"{bare}{dot}{suffix}" if re.search(r"[^\W\d_]", bare) and not _DATE.search(name) else name  # what is but a version is its release's note
