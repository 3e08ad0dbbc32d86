"""Decide which files of a folder are excluded, and why.

The rules are private globs, hidden names, ignore files, `corpus.include` and `corpus.exclude`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from thumbindex.corpus.read import decode, path_inside, read_inside
from thumbindex.globs import GlobRules, compose_accents, read_rules
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings

# ------------------------------------------------------------------ private globs


PathCache = dict[str, tuple[str, ...]]
"""Maps a folder or symlink to all paths in the root that lead to the same place.

Valid only until a folder changes on disk.
"""


def is_private_by_glob(root: str, path: str, settings: CorpusSettings, cache: PathCache) -> bool:
    """Return whether a private glob matches any of the paths that lead to a file or folder.

    `root` is a real path. `cache` is shared between calls.
    """
    globs = settings.private.globs
    if not globs:
        return False
    paths = equivalent_paths(root, path, cache)
    if any(matches_private_globs(path, globs) for path in paths):
        return True
    is_note = path.lower().endswith(settings.extensions)
    return not is_note and any(_is_private_folder(path, globs) for path in paths)


def equivalent_paths(root: str, path: str, cache: PathCache, hops: int = 0) -> tuple[str, ...]:
    """Return all paths in `root` that lead to the file at `path`. The real path comes last."""
    if path in cache:
        return cache[path]
    slash = "/" if path.endswith("/") else ""
    above, _, name = path.rstrip("/").rpartition("/")
    if above and f"{above}/" not in cache:
        for end in (position for position, sign in enumerate(above) if sign == "/"):
            # outermost first, so that deep folders need no deep recursion
            equivalent_paths(root, above[: end + 1], cache, hops)
    folders = equivalent_paths(root, f"{above}/", cache, hops) if above else ("",)
    names = [f"{folder}{name}{slash}" for folder in folders]
    location = f"{root}/{names[-1].rstrip('/')}"  # the last is the real path
    if os.path.islink(location) and hops < _MAX_SYMLINK_HOPS:  # noqa: PTH114  (called for every note)
        cache[path] = tuple(names)  # ends a loop of symlinks
        for target in _named_targets(root, location):
            names += equivalent_paths(root, f"{target}{slash}" if target else "", cache, hops + 1)
        if (real := path_inside(root, os.path.realpath(location))) is not None:
            real = "" if real == "." else f"{real}{slash}"
            names = [*(known_path for known_path in names if known_path != real), real]
    paths = tuple(dict.fromkeys(names))
    if slash or len(paths) > 1:
        cache[path] = paths
    return paths


_MAX_SYMLINK_HOPS = 40
"""Maximum symlinks followed in a chain, as in Linux."""


def _named_targets(root: str, link: str) -> list[str]:
    """Return a symlink's target in `root`: as written, and with the parent folder resolved."""
    for _ in range(_MAX_SYMLINK_HOPS):
        try:
            target = os.path.join(os.path.dirname(link), os.readlink(link))  # noqa: PTH115, PTH118, PTH120
        except OSError:  # not a symlink, or just deleted
            return []
        above, name = os.path.split(target.rstrip("/"))
        link = os.path.join(os.path.realpath(above), name)  # noqa: PTH118
        targets = {
            path_inside(root, os.path.normpath(candidate)) for candidate in (target, link)
        } - {None}
        if targets:
            return sorted(
                "" if candidate == "." else candidate for candidate in targets if candidate
            )
        # a target outside may be another symlink, which points back inside
    return []


def matches_private_globs(path: str, globs: tuple[str, ...]) -> bool:
    """Return whether a private glob matches a path or a folder above it, ignoring case."""
    return bool(globs) and _private_rules(globs).match_file(_folded(path))


def _is_private_folder(path: str, globs: tuple[str, ...]) -> bool:
    """Return whether all notes in a folder are private (`journal/**`).

    If so, the folder's name is private too.
    """
    has_exception = any(glob.startswith("!") for glob in globs)
    return not has_exception and matches_private_globs(f"{path.rstrip('/')}/_.md", globs)


@lru_cache(maxsize=64)
def _private_rules(globs: tuple[str, ...]) -> GlobRules:
    """Compile private globs so that they match too much rather than too little.

    A backslash may also mean a slash, and a bracket may also mean any single character.
    """
    lines = []
    for glob in map(_folded, globs):
        lines.append(glob)
        if not glob.startswith("!"):
            lines += [glob.replace("\\", "/"), glob.replace("[", "?").replace("]", "?")]
    return read_rules(lines)


def _folded(text: str) -> str:
    return compose_accents(text).casefold()


# ------------------------------------------------------------------ ignore files and settings

_GIT_FOLDER = ".git"  # never indexed, even if other hidden folders are

_MAX_IGNORE_FILE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The ignore rules of one folder, from all its ignore files in order."""

    prefix: str  # the folder's path and a slash, empty at the root
    rules: GlobRules
    lines: tuple[tuple[str, int, str], ...]  # ignore file, line number from 1, pattern


ActiveIgnoreFiles = tuple[IgnoreFile, ...]
"""The ignore files that apply to a folder, outermost first."""


def read_ignore_files(
    root: str, prefix: str, real: str, names: Sequence[str], settings: CorpusSettings
) -> tuple[ActiveIgnoreFiles, list[Problem]]:
    """Read a folder's ignore files.

    `prefix` is the folder's path in `root`, and `real` is the folder's real path. Both end with a
    slash. `names` are the names of the folder's files and subfolders.
    """
    lines: list[tuple[str, int, str]] = []
    problems: list[Problem] = []
    for name in settings.ignore_files:
        if name not in names:
            continue
        # read_inside refuses symlinks out of the folder, pipes and devices
        data = read_inside(root, real + name, _MAX_IGNORE_FILE_BYTES)
        if isinstance(data, bytes):
            numbered_lines = enumerate(
                decode(name, data)[0].split("\n"), 1
            )  # PowerShell writes UTF-16
            lines += [(prefix + name, number, line) for number, line in numbered_lines if line]
            continue
        reason = (
            data.removeprefix("cannot be read: ")
            if isinstance(data, str)
            else f"{data:,} bytes, more than {_MAX_IGNORE_FILE_BYTES:,}"
        )
        problems.append(Problem(prefix + name, None, f"cannot read ignore rules: {reason}"))
    if not lines:
        return (), problems
    return (IgnoreFile(prefix, read_rules(line for *_, line in lines), tuple(lines)),), problems


class Exclusions:
    """Decides which paths in the folder `root` are excluded. `root` is a real path."""

    def __init__(self, root: str, settings: CorpusSettings) -> None:
        self._root = root
        self._settings = settings
        self._include = read_rules(settings.include)
        self._exclude = read_rules(settings.exclude)
        self._paths: PathCache = {}

    def reason(self, path: str, ignore_files: ActiveIgnoreFiles) -> str | None:
        """Return why a path is excluded, or None. A folder's path ends with a slash."""
        settings = self._settings
        name = path.rstrip("/").rpartition("/")[2]
        if name == _GIT_FOLDER:
            return "is git's own folder, which is never indexed"
        if name.startswith(".") and not settings.hidden:
            return "is hidden: its name begins with a dot (set corpus.hidden to include it)"
        if is_private_by_glob(self._root, path, settings, self._paths):
            return "is not there"  # never shown: the caller checks for privacy first
        normalized = compose_accents(path)
        if settings.include and not path.endswith("/") and not self._include.match_file(normalized):
            return f"matches no glob in corpus.include: {', '.join(settings.include)}"
        match = self._exclude.check_file(normalized)
        if match.include:
            return f"is excluded by corpus.exclude: {settings.exclude[match.index or 0]}"
        for ignore in reversed(ignore_files):  # the innermost match decides, as in git
            match = ignore.rules.check_file(compose_accents(path[len(ignore.prefix) :]))
            if match.include is not None:
                file, number, line = ignore.lines[match.index or 0]
                return f"is ignored by {file}, line {number}: {line}" if match.include else None
        return None
