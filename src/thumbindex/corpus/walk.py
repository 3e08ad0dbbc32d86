"""Which files of a folder are documents, and which of them changed: ignore rules, globs, private
ones too, hidden folders and symlinks respected.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from thumbindex.corpus.read import (
    FolderEntry,
    decode,
    list_folder,
    path_inside,
    read_inside,
    too_large_problem,
)
from thumbindex.errors import UnknownFolderError
from thumbindex.globs import GlobRules, compose_accents, read_rules
from thumbindex.model import Changes, FileState, Problem
from thumbindex.settings import CorpusSettings

# ------------------------------------------------------------------ private globs


def is_private_path(path: str, settings: CorpusSettings) -> bool:
    """Tell whether a glob of `corpus.private.globs` keeps a file, or a folder that it is in, out;
    upper and lower case are one.
    """
    globs = settings.private.globs
    return bool(globs) and _private_rules(globs).match_file(_folded(path))


def is_private_folder(path: str, settings: CorpusSettings) -> bool:
    """Tell whether whatever lies in a folder is private (`journal/**`), so that the folder's own
    name is nobody's business either.
    """
    globs = settings.private.globs
    return (
        bool(globs)
        and not any(glob.startswith("!") for glob in globs)
        and _private_rules(globs).match_file(_folded(f"{path.rstrip('/')}/_.md"))
    )


def unmatched_globs(globs: Iterable[str], root: Path, settings: CorpusSettings) -> tuple[str, ...]:
    """Return the private globs that match no note of a folder."""
    left = {glob: _private_rules((glob,)) for glob in globs if not glob.startswith("!")}
    if not left:
        return ()
    real, known = _real(root), Names()
    open_settings = replace(settings, private=replace(settings.private, globs=()))
    for file in walk(root, open_settings).files:
        for name in names_of(real, file.path, known):
            left = {
                glob: rules for glob, rules in left.items() if not rules.match_file(_folded(name))
            }
    return tuple(left)


Names = dict[str, tuple[str, ...]]
"""The names of folders and symlinks that `names_of` has seen. They hold for a moment only."""


def is_private_place(root: str, path: str, settings: CorpusSettings, known: Names) -> bool:
    """Return whether a glob keeps a file, or all that is in a folder, private under any of its
    names.

    `root` is a real path; `known` saves work for the next path.
    """
    if not settings.private.globs:
        return False
    names = names_of(root, path, known)
    if any(is_private_path(name, settings) for name in names):
        return True
    is_note = path.lower().endswith(settings.extensions)
    return not is_note and any(is_private_folder(name, settings) for name in names)


def names_of(root: str, path: str, known: Names, hops: int = 0) -> tuple[str, ...]:
    """Return the paths inside a folder that lead to one place: the given one, those that its
    symlinks name, and the real one, last.
    """
    if path in known:
        return known[path]
    slash = "/" if path.endswith("/") else ""
    above, _, name = path.rstrip("/").rpartition("/")
    if above and f"{above}/" not in known:
        for end in (at for at, sign in enumerate(above) if sign == "/"):
            # outermost first, so that deep folders need no deep recursion
            names_of(root, above[: end + 1], known, hops)
    folders = names_of(root, f"{above}/", known, hops) if above else ("",)
    names = [f"{folder}{name}{slash}" for folder in folders]
    place = f"{root}/{names[-1].rstrip('/')}"  # the folder's last name is the real one
    if os.path.islink(place) and hops < MOST_HOPS:  # noqa: PTH114  (of every note)
        known[path] = tuple(names)  # a loop of symlinks ends here
        for named in _named_targets(root, place):
            names += names_of(root, f"{named}{slash}" if named else "", known, hops + 1)
        if (real := path_inside(root, os.path.realpath(place))) is not None:
            real = "" if real == "." else f"{real}{slash}"
            names = [*(each for each in names if each != real), real]
    found = tuple(dict.fromkeys(names))
    if slash or len(found) > 1:
        known[path] = found
    return found


MOST_HOPS = 40
"""Symlinks that lead to each other; Linux follows no more."""


def _named_targets(root: str, link: str) -> list[str]:
    """Return the paths inside a folder that a symlink names: its target as written, and with the
    folder of the target resolved.

    A target outside may be a symlink that leads back, so it is followed until it is inside.
    """
    for _ in range(MOST_HOPS):
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


@lru_cache(maxsize=64)
def _private_rules(globs: tuple[str, ...]) -> GlobRules:
    """Return the rules of globs that keep notes private; a backslash in them may stand between
    folders too, and a bracket for itself.
    """
    lines = []
    for glob in map(_folded, globs):
        lines.append(glob)
        if not glob.startswith("!"):
            lines += [glob.replace("\\", "/"), glob.replace("[", "?").replace("]", "?")]
    return read_rules(lines)


def _folded(text: str) -> str:
    return compose_accents(text).casefold()


# ------------------------------------------------------------------ whether anything changed

NOT_KEPT = -1
"""Stands for the time of a file that was written just before: it is no file's, so that the digest
decides.
"""

FRESH_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT) ticks every two seconds."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The changes, and the facts to keep for the next comparison."""

    changes: Changes
    # of all files present, by path; the digest of an added file is empty until it is read
    states: tuple[FileState, ...]
    # the same text with other facts: only the facts are to be kept anew
    touched: tuple[str, ...] = ()


def find_changes(
    known: Mapping[str, FileState],
    present: Sequence[FileState],
    read_digest: Callable[[str], str],
    *,
    now_ns: int,
    verify: bool = False,
) -> FolderChanges:
    """Compare files with what is known of them: facts first, digests where those differ, all
    digests with `verify`.

    `now_ns` is the clock when the files were listed: the time of a file that was written just
    before is not kept, since a second write within one tick of the clock would leave it as it is
    ("racily clean", as git does); its digest decides next time.
    """
    states: list[FileState] = []
    added, changed, touched = [], [], []
    for state in present:
        before = known.get(state.path)
        kept = (
            replace(state, mtime_ns=NOT_KEPT)
            if max(state.mtime_ns, state.ctime_ns) > now_ns - FRESH_NS
            else state
        )
        if before is None:
            added.append(state.path)
        elif not verify and facts_of(before) == facts_of(state):
            kept = before
        else:
            digest = read_digest(state.path)
            kept = replace(kept, digest=digest)
            if digest != before.digest:
                changed.append(state.path)
            elif kept != before:
                touched.append(state.path)
        states.append(kept)
    removed = sorted(set(known) - {state.path for state in present})
    same = len(present) - len(added) - len(changed)
    return FolderChanges(
        Changes(tuple(added), tuple(changed), tuple(removed), same), tuple(states), tuple(touched)
    )


def facts_of(state: FileState) -> tuple[int, int, int, int]:
    """Return what is the same while nobody writes to a file; its time alone can be set back by
    whoever writes.
    """
    return state.size, state.mtime_ns, state.inode, state.ctime_ns


# ------------------------------------------------------------------ the walk


@dataclass(frozen=True, slots=True)
class _Ignore:
    """The ignore rules of one folder; its patterns are the lines, in order."""

    prefix: str  # the folder's path and a slash, empty at the root
    spec: GlobRules
    lines: tuple[tuple[str, int, str], ...]  # ignore file, line from 1, and what stands there


_InForce = tuple[_Ignore, ...]
"""The ignore rules in force, outermost first."""

MOST_RULES = 1_000_000
"""Bytes of one ignore file."""

_EARLIEST_NS = -(2**63)
"""The earliest time that the store has, in 1677: NTFS begins in 1601.

One after 2262 is ahead of every clock, and is not kept.
"""

_NEVER = ".git"  # holds no document, even where hidden folders are read


class Walk(NamedTuple):
    """What a walk found."""

    files: tuple[FileState, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _State:
    """One walk through a folder: what it goes by, and what it has seen so far."""

    root: str
    settings: CorpusSettings
    files: dict[str, FileState] = field(default_factory=dict)  # by real path
    problems: list[Problem] = field(default_factory=list)
    # that were listed, or could not be, by real path
    folders: set[str] = field(default_factory=set)
    # symlinks inside the folder: path, where it leads, the facts there, rules
    links: list[tuple[str, str, os.stat_result, _InForce]] = field(default_factory=list)
    # the paths that are looked at, where that is not all of them, with the folders on the way
    asked: frozenset[str] | None = None
    names: Names = field(default_factory=dict)  # of the paths that were looked at
    reasons: dict[str, str] = field(default_factory=dict)  # why one that was asked for is left out
    include: GlobRules = field(init=False)
    exclude: GlobRules = field(init=False)

    def __post_init__(self) -> None:
        self.include, self.exclude = (
            read_rules(self.settings.include),
            read_rules(self.settings.exclude),
        )


def walk(root: Path, settings: CorpusSettings) -> Walk:
    """List the files to be read, sorted by path, with their facts but no digest, and what had to be
    left out.

    Paths are as on disk, relative, with slashes. Ignore files and globs follow git's rules. A
    symlink is followed where it leads inside the folder; a file that is reached twice is listed
    once, by its real path. Raises UnknownFolderError where there is no such folder.
    """
    state = _State(_real(root), settings)
    _go(state)
    files = sorted(state.files.values(), key=lambda file: file.path)
    problems = sorted(state.problems, key=lambda problem: problem.path)
    return Walk(tuple(files), tuple(problems))


def why_left_out(root: Path, path: str, settings: CorpusSettings) -> str | None:
    """Say in words why a walk does not list a path of the folder; None where it lists it.

    It is a walk that looks at nothing beside the path.

    Raises UnknownFolderError where there is no such folder.
    """
    real = _real(root)
    target = os.path.realpath(os.path.join(real, path))  # noqa: PTH118
    own = path_inside(real, target)  # a symlink's file may be listed by this one
    on_the_way = frozenset(part for each in (path, own) if each for part in _with_folders(each))
    state = _State(real, settings, asked=on_the_way)
    _go(state)
    if any(file.path == path for file in state.files.values()):
        return None
    if target in state.files:
        return (
            "it is a symlink to a note that is listed once, by its own path "
            f"{state.files[target].path}"
        )
    problems = {problem.path: problem.reason for problem in state.problems}
    for part in _with_folders(path):
        it = "it" if part == path else f"its folder {part}"
        if part in state.reasons:
            return f"{it} {state.reasons[part]}"
        if part in problems:
            return problems[part] if part == path else f"{it}: {problems[part]}"
    if own is None or not os.path.exists(target):  # noqa: PTH110
        return "there is no such file"
    if os.path.isdir(target):  # noqa: PTH112
        return "it is a folder, not a document"
    if not _is_document(state, path):
        return f"it is not Markdown: corpus.extensions names {', '.join(settings.extensions)}"
    return "it is no regular file"


def _real(root: Path) -> str:
    real = os.path.realpath(root)
    # (the walk works on texts, ten times as fast as on Path objects)
    if not os.path.isdir(real):  # noqa: PTH112
        raise UnknownFolderError(
            f"no folder at {root}: check the path, or the configuration's [folders]"
        )
    try:
        with os.scandir(real):
            pass
    except OSError as error:  # what cannot be seen is not gone
        raise UnknownFolderError(
            f"The folder {root} cannot be read ({error.strerror}): nothing is deleted. Check who "
            "may read it."
        ) from error
    return real


def _with_folders(path: str) -> list[str]:
    """Return a path after the folders that it is in, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _go(state: _State) -> None:
    _list(state, "", state.root, ())
    while state.links:  # after the real paths, which win
        path, target, facts, rules = state.links.pop(0)
        if stat.S_ISDIR(facts.st_mode):
            _list(state, path + "/", target, rules)
        else:
            _add(state, path, target, rules, facts)


def _list(state: _State, prefix: str, real: str, rules: _InForce) -> None:
    """List a folder and those below it; `prefix` is its path in the root with a slash."""
    waiting = [(prefix, real, rules)]
    while waiting:
        prefix, real, rules = waiting.pop()
        if real in state.folders:
            continue
        state.folders.add(real)
        try:
            listed = list_folder(real, state.settings)
        except OSError as error:
            reason = f"folder cannot be listed: {error.strerror or error}"
            state.problems.append(Problem(prefix.rstrip("/") or ".", None, reason))
            continue
        below = real.rstrip(os.sep) + os.sep
        entries = [entry for entry in listed if _readable_name(state, prefix, entry.name)]
        rules = (*rules, *_own_rules(state, prefix, below, [entry.name for entry in entries]))
        for entry in entries:
            path = prefix + entry.name
            if state.asked is not None and path not in state.asked:
                continue
            if entry.target is not None:
                _note_link(state, path, entry, rules)
            elif not entry.is_folder:
                _add(state, path, f"{below}{entry.name}", rules, entry.facts)
            elif not _left_out(state, path + "/", rules):
                waiting.append((path + "/", f"{below}{entry.name}", rules))


def _readable_name(state: _State, prefix: str, name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = (
            (prefix + name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        )
        if not name.startswith(".") or state.settings.hidden:
            state.problems.append(
                Problem(shown, None, "the name is not valid UTF-8: rename it to have it read")
            )
        return False
    return True


def _own_rules(state: _State, prefix: str, below: str, names: Sequence[str]) -> Iterator[_Ignore]:
    lines: list[tuple[str, int, str]] = []
    for name in state.settings.ignore_files:
        if name in names:
            # a symlink would make lines of any file known, a pipe would never end, and a device
            # would fill the memory
            found = read_inside(state.root, below + name, MOST_RULES)
            if not isinstance(found, bytes):
                reason = (
                    found.removeprefix("cannot be read: ")
                    if isinstance(found, str)
                    else f"{found:,} bytes, more than {MOST_RULES:,}"
                )
                state.problems.append(
                    Problem(prefix + name, None, f"ignore rules cannot be read: {reason}")
                )
                continue
            written = enumerate(decode(name, found)[0].split("\n"), 1)  # PowerShell writes UTF-16
            lines += [(prefix + name, number, line) for number, line in written if line]
    if lines:
        yield _Ignore(prefix, read_rules([line for *_, line in lines]), tuple(lines))


def _note_link(state: _State, path: str, link: FolderEntry, rules: _InForce) -> None:
    if not link.target:
        return
    if path_inside(state.root, link.target) is None:
        _note_link_out(state, path, rules)
        return
    found = link.facts if isinstance(link.facts, os.stat_result) else None
    is_folder = found is not None and stat.S_ISDIR(found.st_mode)
    if _left_out(state, path + "/" if is_folder else path, rules) or not (
        is_folder or _is_document(state, path)
    ):
        return
    if found:
        state.links.append((path, link.target, found, rules))
    else:
        state.problems.append(Problem(path, None, "symlink that leads nowhere"))


def _note_link_out(state: _State, path: str, rules: _InForce) -> None:
    """Report a symlink out of the folder by its name alone: whether anything is there, and what, is
    nobody's business.
    """
    name = path.rpartition("/")[2]
    if (_is_document(state, path) or "." not in name.lstrip(".")) and not (
        _left_out(state, path, rules) or _left_out(state, path + "/", rules)
    ):
        state.problems.append(
            Problem(path, None, "symlink that leads out of the folder: not followed")
        )


def _add(
    state: _State, path: str, real: str, rules: _InForce, found: os.stat_result | OSError | None
) -> None:
    if (
        real in state.files
        or not _is_document(state, path)
        or _left_out(state, path, rules)
        or found is None
    ):
        return
    if isinstance(found, OSError):
        state.problems.append(Problem(path, None, f"cannot be read: {found.strerror or found}"))
        return
    if not stat.S_ISREG(found.st_mode):
        return
    if found.st_size > state.settings.max_file_bytes:
        state.problems.append(too_large_problem(path, found.st_size, state.settings))
        return
    state.files[real] = state_of(path, found)


def state_of(path: str, facts: os.stat_result) -> FileState:
    """Return what tells a file's versions apart, without its digest."""
    inode = facts.st_ino % 2**64  # ReFS counts in 128 bits, the store in 64
    return FileState(
        path,
        facts.st_size,
        max(facts.st_mtime_ns, _EARLIEST_NS),
        inode,
        ctime_ns=max(facts.st_ctime_ns, _EARLIEST_NS),
    )


def _is_document(state: _State, path: str) -> bool:
    return path.lower().endswith(state.settings.extensions)


def _left_out(state: _State, path: str, rules: _InForce) -> bool:
    """Return whether a file, or a folder (its path ends with a slash), is hidden, private, ignored
    or excluded.
    """
    reason = _reason(state, path, rules)
    if reason and state.asked is not None:
        state.reasons.setdefault(path.rstrip("/"), reason)
    return reason is not None


def _reason(state: _State, path: str, rules: _InForce) -> str | None:
    """Say what leaves a path out; None where nothing does."""
    name = path.rstrip("/").rpartition("/")[2]
    if name == _NEVER:
        return "is git's own, which holds no document"
    if name.startswith(".") and not state.settings.hidden:
        return "is hidden, as its name begins with a dot (corpus.hidden reads such)"
    if is_private_place(state.root, path, state.settings, state.names):
        return "is not there"  # nobody is told of it: who asks is answered before
    written, include, exclude = (
        compose_accents(path),
        state.settings.include,
        state.settings.exclude,
    )
    if include and not path.endswith("/") and not state.include.match_file(written):
        return f"matches no glob of corpus.include: {', '.join(include)}"
    found = state.exclude.check_file(written)
    if found.include:
        return f"is left out by corpus.exclude: {exclude[found.index or 0]}"
    for rule in reversed(rules):  # the innermost rule that matches decides, as in git
        found = rule.spec.check_file(compose_accents(path[len(rule.prefix) :]))
        if found.include is not None:
            file, number, line = rule.lines[found.index or 0]
            return f"is ignored by {file}, line {number}: {line}" if found.include else None
    return None
