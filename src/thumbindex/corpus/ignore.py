"""Decide which files of a folder are left out, and why: private globs, hidden names, ignore files,
and `corpus.include` and `corpus.exclude`.
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
"""The equivalent paths of folders and symlinks; valid for a moment only."""


def is_private_by_glob(root: str, path: str, settings: CorpusSettings, cache: PathCache) -> bool:
    """Return whether a glob keeps a file, or all files of a folder, private under any path to it.

    `root` is a real path; `cache` saves work for the next path.
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
    """Return all paths inside a folder to one file: the given one, those through symlinks, and the
    real one, last.
    """
    if path in cache:
        return cache[path]
    slash = "/" if path.endswith("/") else ""
    above, _, name = path.rstrip("/").rpartition("/")
    if above and f"{above}/" not in cache:
        for end in (at for at, sign in enumerate(above) if sign == "/"):
            # outermost first, so that deep folders need no deep recursion
            equivalent_paths(root, above[: end + 1], cache, hops)
    folders = equivalent_paths(root, f"{above}/", cache, hops) if above else ("",)
    names = [f"{folder}{name}{slash}" for folder in folders]
    place = f"{root}/{names[-1].rstrip('/')}"  # the folder's last name is the real one
    if os.path.islink(place) and hops < _MAX_SYMLINK_HOPS:  # noqa: PTH114  (of every note)
        cache[path] = tuple(names)  # a loop of symlinks ends here
        for named in _named_targets(root, place):
            names += equivalent_paths(root, f"{named}{slash}" if named else "", cache, hops + 1)
        if (real := path_inside(root, os.path.realpath(place))) is not None:
            real = "" if real == "." else f"{real}{slash}"
            names = [*(each for each in names if each != real), real]
    found = tuple(dict.fromkeys(names))
    if slash or len(found) > 1:
        cache[path] = found
    return found


_MAX_SYMLINK_HOPS = 40
"""Maximum symlinks in a chain, as in Linux."""


def _named_targets(root: str, link: str) -> list[str]:
    """Return the paths inside a folder that a symlink names: its target as written, and with the
    folder of the target resolved.

    A target outside may be a symlink that leads back, so it is followed until it is inside.
    """
    for _ in range(_MAX_SYMLINK_HOPS):
        try:
            target = os.path.join(os.path.dirname(link), os.readlink(link))  # noqa: PTH115, PTH118, PTH120
        except OSError:  # no symlink, or it went just now
            return []
        above, name = os.path.split(target.rstrip("/"))
        link = os.path.join(os.path.realpath(above), name)  # noqa: PTH118
        named = {path_inside(root, os.path.normpath(each)) for each in (target, link)} - {None}
        if named:
            return sorted("" if each == "." else each for each in named if each)
    return []


def matches_private_globs(path: str, globs: tuple[str, ...]) -> bool:
    """Return whether globs keep a file, or a folder around it, private, whatever its case."""
    return bool(globs) and _private_rules(globs).match_file(_folded(path))


def _is_private_folder(path: str, globs: tuple[str, ...]) -> bool:
    """Return whether all that a folder contains is private (`journal/**`), so that its own name is
    private too.
    """
    has_exception = any(glob.startswith("!") for glob in globs)
    return not has_exception and matches_private_globs(f"{path.rstrip('/')}/_.md", globs)


@lru_cache(maxsize=64)
def _private_rules(globs: tuple[str, ...]) -> GlobRules:
    """Compile private globs; a backslash may also separate folders, and a bracket be literal."""
    lines = []
    for glob in map(_folded, globs):
        lines.append(glob)
        if not glob.startswith("!"):
            lines += [glob.replace("\\", "/"), glob.replace("[", "?").replace("]", "?")]
    return read_rules(lines)


def _folded(text: str) -> str:
    return compose_accents(text).casefold()


# ------------------------------------------------------------------ ignore files and settings

_GIT_FOLDER = ".git"  # holds no document, even if hidden folders are read

_MAX_IGNORE_FILE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The ignore rules of one folder; the patterns of its files in order."""

    prefix: str  # the folder's path and a slash, empty at the root
    rules: GlobRules
    lines: tuple[tuple[str, int, str], ...]  # ignore file, line from 1, and the pattern


ActiveIgnoreFiles = tuple[IgnoreFile, ...]
"""The ignore files in force, outermost first."""


def read_ignore_files(
    root: str, prefix: str, real: str, names: Sequence[str], settings: CorpusSettings
) -> tuple[ActiveIgnoreFiles, list[Problem]]:
    """Read the ignore files among the names in a folder; `prefix` is its path in the root, `real`
    its real path, both with a slash.
    """
    lines: list[tuple[str, int, str]] = []
    problems: list[Problem] = []
    for name in settings.ignore_files:
        if name not in names:
            continue
        # a symlink would disclose lines of any file, a pipe would never end, and a device would
        # fill the memory
        data = read_inside(root, real + name, _MAX_IGNORE_FILE_BYTES)
        if isinstance(data, bytes):
            written = enumerate(decode(name, data)[0].split("\n"), 1)  # PowerShell writes UTF-16
            lines += [(prefix + name, number, line) for number, line in written if line]
            continue
        reason = (
            data.removeprefix("cannot be read: ")
            if isinstance(data, str)
            else f"{data:,} bytes, more than {_MAX_IGNORE_FILE_BYTES:,}"
        )
        problems.append(Problem(prefix + name, None, f"ignore rules cannot be read: {reason}"))
    if not lines:
        return (), problems
    return (IgnoreFile(prefix, read_rules(line for *_, line in lines), tuple(lines)),), problems


class Exclusions:
    """Decides which paths of one folder are left out; `root` is its real path."""

    def __init__(self, root: str, settings: CorpusSettings) -> None:
        self._root = root
        self._settings = settings
        self._include = read_rules(settings.include)
        self._exclude = read_rules(settings.exclude)
        self._paths: PathCache = {}

    def reason(self, path: str, ignore_files: ActiveIgnoreFiles) -> str | None:
        """Return why a path is left out, None if it is not; a folder's path ends with a slash."""
        settings = self._settings
        name = path.rstrip("/").rpartition("/")[2]
        if name == _GIT_FOLDER:
            return "is git's own, which holds no document"
        if name.startswith(".") and not settings.hidden:
            return "is hidden, as its name begins with a dot (corpus.hidden reads such)"
        if is_private_by_glob(self._root, path, settings, self._paths):
            return "is not there"  # never reported: the caller checks for privacy first
        written = compose_accents(path)
        if settings.include and not path.endswith("/") and not self._include.match_file(written):
            return f"matches no glob of corpus.include: {', '.join(settings.include)}"
        found = self._exclude.check_file(written)
        if found.include:
            return f"is left out by corpus.exclude: {settings.exclude[found.index or 0]}"
        for ignore in reversed(ignore_files):  # the innermost match decides, as in git
            found = ignore.rules.check_file(compose_accents(path[len(ignore.prefix) :]))
            if found.include is not None:
                file, number, line = ignore.lines[found.index or 0]
                return f"is ignored by {file}, line {number}: {line}" if found.include else None
        return None
