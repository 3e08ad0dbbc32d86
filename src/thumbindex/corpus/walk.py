"""List a folder's Markdown files, and find changes since the last listing.

Which files are listed depends on ignore files, globs, hidden names and symlinks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from thumbindex.corpus.ignore import (
    ActiveIgnoreFiles,
    Exclusions,
    PathCache,
    equivalent_paths,
    matches_private_globs,
    read_ignore_files,
)
from thumbindex.corpus.read import FolderEntry, list_folder, path_inside, too_large_problem
from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.model import Changes, FileState, Problem
from thumbindex.process import names_are_utf8, needs_utf8
from thumbindex.settings import CorpusSettings

_MIN_TIME_NS = -(2**63)
"""Earliest time that the store can hold (the year 1677).

It is stored instead of earlier times, which are possible on NTFS.
"""


class FolderListing(NamedTuple):
    """The files of a folder, and the problems found."""

    files: tuple[FileState, ...]
    problems: tuple[Problem, ...]


def walk(root: Path, settings: CorpusSettings) -> FolderListing:
    """List the files to index, sorted by path and without digests.

    Paths are relative to `root` and spelled as on disk, with slashes. Ignore files and globs follow
    git's rules. A symlink is followed if the target is inside the folder. A file with several paths
    is listed once, under the real path if that path is not excluded. Raises UnknownFolderError if
    there is no such folder.
    """
    listed = _Walk(_real_folder(root), settings)
    files = sorted(listed.files.values(), key=lambda file: file.path)
    problems = sorted(listed.problems, key=lambda problem: problem.path)
    return FolderListing(tuple(files), tuple(problems))


def _real_folder(root: Path) -> str:
    real = os.path.realpath(root)
    # strings are ten times as fast here as Path objects
    if not os.path.isdir(real):  # noqa: PTH112
        raise UnknownFolderError(
            f"There is no folder {root}. Check the path, or [folders] in the configuration."
        )
    try:
        with os.scandir(real):
            pass
    except OSError as error:  # an unreadable folder must not count as deleted
        raise UnknownFolderError(
            f"The folder {root} cannot be read ({error.strerror}), so nothing is deleted from the "
            "index. Check the folder's permissions."
        ) from error
    return real


class _Walk:
    """A walk through the folder `root`, a real path.

    If `only` is given, all other paths are skipped.
    """

    def __init__(
        self, root: str, settings: CorpusSettings, only: frozenset[str] | None = None
    ) -> None:
        self.files: dict[str, FileState] = {}  # by real path
        self.problems: list[Problem] = []
        self.exclusion_reasons: dict[str, str] = {}  # by path
        self._root = root
        self._settings = settings
        self._only = only
        self._exclusions = Exclusions(root, settings)
        self._visited: set[str] = set()  # folders, by real path
        # symlinks to targets inside the folder: path, target, the target's stat, ignore files
        self._symlinks: list[tuple[str, str, os.stat_result, ActiveIgnoreFiles]] = []
        self._list_tree("", root, ())
        while self._symlinks:  # after files and folders, whose own paths take precedence
            path, target, stat, ignore_files = self._symlinks.pop(0)
            if S_ISDIR(stat.st_mode):
                self._list_tree(path + "/", target, ignore_files)
            else:
                self._add_file(path, target, stat, ignore_files)

    def is_document(self, path: str) -> bool:
        return path.lower().endswith(self._settings.extensions)

    def _list_tree(self, prefix: str, real: str, ignore_files: ActiveIgnoreFiles) -> None:
        """List a folder and its subfolders.

        `prefix` is the folder's path in the root, plus a slash. `real` is the folder's real path.
        """
        pending = [(prefix, real, ignore_files)]
        while pending:
            prefix, real, ignore_files = pending.pop()
            if real in self._visited:
                continue
            self._visited.add(real)
            try:
                entries = list_folder(real, self._settings)
            except OSError as error:
                reason = f"folder cannot be listed: {error.strerror or error}"
                self._report(prefix.rstrip("/") or ".", reason)
                continue
            entries = [entry for entry in entries if self._has_valid_name(prefix, entry)]
            real_prefix = real.rstrip(os.sep) + os.sep
            folder_rules, problems = read_ignore_files(
                self._root, prefix, real_prefix, [entry.name for entry in entries], self._settings
            )
            ignore_files = (*ignore_files, *folder_rules)
            self.problems += problems
            for entry in entries:
                path = prefix + entry.name
                if self._only is not None and path not in self._only:
                    continue
                if entry.target is not None:
                    self._queue_symlink(path, entry, ignore_files)
                elif not entry.is_folder:
                    self._add_file(path, f"{real_prefix}{entry.name}", entry.stat, ignore_files)
                elif not self._is_excluded(path + "/", ignore_files):
                    pending.append((path + "/", f"{real_prefix}{entry.name}", ignore_files))

    def _add_file(
        self,
        path: str,
        real: str,
        stat: os.stat_result | OSError | None,
        ignore_files: ActiveIgnoreFiles,
    ) -> None:
        if (
            real in self.files
            or not self.is_document(path)
            or self._is_excluded(path, ignore_files)
        ):
            return
        if isinstance(stat, OSError):
            self._report(path, f"cannot be read: {stat.strerror or stat}")
        elif stat is None or not S_ISREG(stat.st_mode):
            return
        elif stat.st_size > self._settings.max_file_bytes:
            self.problems.append(too_large_problem(path, stat.st_size, self._settings))
        else:
            self.files[real] = file_state(path, stat)

    def _queue_symlink(
        self, path: str, entry: FolderEntry, ignore_files: ActiveIgnoreFiles
    ) -> None:
        if not entry.target:
            return
        if path_inside(self._root, entry.target) is None:
            self._report_outside_symlink(path, ignore_files)
            return
        stat = entry.stat if isinstance(entry.stat, os.stat_result) else None
        is_folder = stat is not None and S_ISDIR(stat.st_mode)
        if self._is_excluded(path + "/" if is_folder else path, ignore_files):
            return
        if not (is_folder or self.is_document(path)):
            return
        if stat:
            self._symlinks.append((path, entry.target, stat, ignore_files))
        else:
            self._report(path, "broken symlink")

    def _report_outside_symlink(self, path: str, ignore_files: ActiveIgnoreFiles) -> None:
        """Report a symlink that points outside the folder, without reading the target."""
        name = path.rpartition("/")[2]
        if not self.is_document(path) and "." in name.lstrip("."):
            return
        if not (
            self._is_excluded(path, ignore_files) or self._is_excluded(path + "/", ignore_files)
        ):
            self._report(path, "symlink points outside the folder: not followed")

    def _is_excluded(self, path: str, ignore_files: ActiveIgnoreFiles) -> bool:
        """Return whether a path is excluded. A folder's path ends with a slash."""
        reason = self._exclusions.reason(path, ignore_files)
        if reason and self._only is not None:
            self.exclusion_reasons.setdefault(path.rstrip("/"), reason)
        return reason is not None

    def _has_valid_name(self, prefix: str, entry: FolderEntry) -> bool:
        name = entry.name
        if name.isascii():
            return True
        is_hidden = name.startswith(".") and not self._settings.hidden
        is_note = entry.is_folder or self.is_document(name)
        if not names_are_utf8() and is_note and not is_hidden:
            # the index would get wrong names, or lose the notes that it has
            shown = os.fsencode(prefix + name).decode("utf-8", "backslashreplace")
            raise UsageError(needs_utf8(shown))
        try:
            name.encode()
        except UnicodeEncodeError:
            if not is_hidden and names_are_utf8():
                path = (prefix + name).encode("utf-8", "surrogateescape")
                escaped = path.decode("utf-8", "backslashreplace")
                self._report(escaped, "the name is not valid UTF-8: rename the file")
            return False
        return True

    def _report(self, path: str, reason: str) -> None:
        self.problems.append(Problem(path, None, reason))


def file_state(path: str, stat: os.stat_result) -> FileState:
    """Return a file's state without its digest."""
    inode = stat.st_ino % 2**64  # on ReFS, an inode has 128 bits; in the store, 64
    return FileState(
        path,
        stat.st_size,
        max(stat.st_mtime_ns, _MIN_TIME_NS),
        inode,
        ctime_ns=max(stat.st_ctime_ns, _MIN_TIME_NS),
    )


# ------------------------------------------------------------------ changes

_UNKNOWN_TIME = -1
"""Stored instead of the time of a file that was written just before the listing.

It differs from any real time, so the next listing compares digests.
"""

_RACY_NS = 2_000_000_000
"""The time of a file written less than this many nanoseconds before a listing is not stored.

FAT has the coarsest times of all file systems in use: 2 seconds.
"""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The changes found, and the states to store."""

    changes: Changes
    # all listed files; an added file has an empty digest until it is read
    states: tuple[FileState, ...]
    # paths of files with the same content but another time or inode
    metadata_only: tuple[str, ...] = ()


def find_changes(
    stored: Mapping[str, FileState],
    present: Sequence[FileState],
    read_digest: Callable[[str], str],
    *,
    now_ns: int,
    verify: bool = False,
) -> FolderChanges:
    """Compare the files that are present with the stored states.

    A digest is compared only if the stat differs. With `verify`, all digests are compared.
    `now_ns` is the time of the listing.
    """
    states: list[FileState] = []
    added, changed, metadata_only = [], [], []
    for state in present:
        before = stored.get(state.path)
        # A second write within the clock tick would go unnoticed: git calls this "racily clean".
        to_store = (
            replace(state, mtime_ns=_UNKNOWN_TIME)
            if max(state.mtime_ns, state.ctime_ns) > now_ns - _RACY_NS
            else state
        )
        if before is None:
            added.append(state.path)
        elif not verify and stat_signature(before) == stat_signature(state):
            to_store = before
        else:
            digest = read_digest(state.path)
            to_store = replace(to_store, digest=digest)
            if digest != before.digest:
                changed.append(state.path)
            elif to_store != before:
                metadata_only.append(state.path)
        states.append(to_store)
    removed = sorted(set(stored) - {state.path for state in present})
    unchanged = len(present) - len(added) - len(changed)
    changes = Changes(tuple(added), tuple(changed), tuple(removed), unchanged)
    return FolderChanges(changes, tuple(states), tuple(metadata_only))


def stat_signature(state: FileState) -> tuple[int, int, int, int]:
    """Return the stat fields that a write changes.

    Programs can set the mtime back, but not the ctime.
    """
    return state.size, state.mtime_ns, state.inode, state.ctime_ns


# ------------------------------------------------------------------ why a file is not listed


def why_left_out(root: Path, path: str, settings: CorpusSettings) -> str | None:
    """Return why `walk` does not list a path of the folder; None if the path is listed.

    Raises UnknownFolderError if there is no such folder.
    """
    real = _real_folder(root)
    target = os.path.realpath(os.path.join(real, path))  # noqa: PTH118
    target_path = path_inside(real, target)  # a symlink's target may be listed under its own path
    parts = _ancestors_and_self(path)
    folder_walk = _Walk(
        real, settings, frozenset((*parts, *_ancestors_and_self(target_path or "")))
    )
    if any(file.path == path for file in folder_walk.files.values()):
        return None
    if target in folder_walk.files:
        return (
            f"it is a symlink to {folder_walk.files[target].path}, which is indexed under that path"
        )
    problems = {problem.path: problem.reason for problem in folder_walk.problems}
    for part in parts:
        subject = "it" if part == path else f"its folder {part}"
        if part in folder_walk.exclusion_reasons:
            return f"{subject} {folder_walk.exclusion_reasons[part]}"
        if part in problems:
            return problems[part] if part == path else f"{subject}: {problems[part]}"
    if target_path is None or not os.path.exists(target):  # noqa: PTH110
        return "there is no such file"
    if os.path.isdir(target):  # noqa: PTH112
        return "it is a folder, not a document"
    if not folder_walk.is_document(path):
        return f"it is not Markdown: corpus.extensions lists {', '.join(settings.extensions)}"
    return "it is not a regular file"


def _ancestors_and_self(path: str) -> list[str]:
    """Return the folders that contain a path, outermost first, and then the path itself."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def walk_with_private(root: Path, settings: CorpusSettings) -> tuple[FileState, ...]:
    """List the files of `walk`, and those under private globs."""
    return walk(root, replace(settings, private=replace(settings.private, globs=()))).files


def unmatched_private_globs(
    globs: Iterable[str], root: Path, settings: CorpusSettings
) -> tuple[str, ...]:
    """Return the private globs that match no note of a folder. Exceptions (`!`) are not checked."""
    unmatched = [glob for glob in globs if not glob.startswith("!")]
    if not unmatched:
        return ()
    real, cache = _real_folder(root), PathCache()
    for file in walk_with_private(root, settings):
        for name in equivalent_paths(real, file.path, cache):
            unmatched = [glob for glob in unmatched if not matches_private_globs(name, (glob,))]
    return tuple(unmatched)
