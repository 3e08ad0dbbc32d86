"""The Markdown files of a folder: ignore rules, globs, hidden folders and symlinks respected; and a digest that shows whether anything changed."""

from __future__ import annotations

import os
import secrets
import stat
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from pathspec import GitIgnoreSpec

from thumbindex.corpus.changes import FRESH_NS
from thumbindex.corpus.private import is_private_path, read_rules
from thumbindex.corpus.read import inside, read_inside, too_large
from thumbindex.errors import UnknownFolderError
from thumbindex.model import FileState, Problem
from thumbindex.settings import CorpusSettings

_BY_DESCRIPTOR = os.scandir in os.supports_fd and hasattr(os, "O_DIRECTORY")
"""Whether a folder can be listed by what was opened: a file's facts cost a quarter less where its path is not looked up."""

_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_FACTS = struct.Struct("=IQqqq")
"""Mode, inode, size and the times of the last change of text and of facts, where they are not too large for it."""

_SALT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Pointed:
    """Where a symlink leads: the real path, and the facts there; None where nothing is."""

    target: str  # empty where it was swapped for another just now
    facts: os.stat_result | None


@dataclass(frozen=True, slots=True)
class Listed:
    """What is in one folder. Names are as on disk; of folders only the name counts, since what is in them is listed by itself."""

    real: str
    names: Sequence[str]
    folders: frozenset[str]
    links: Mapping[str, Pointed]
    facts: Mapping[str, os.stat_result]  # of what may be a document and of ignore files, symlinks not followed
    failed: Mapping[str, OSError] = field(default_factory=dict)  # of which the facts could not be had

    def digest(self, salt: bytes) -> bytes:
        """Return what differs where anything that a walk goes by does."""
        listed = blake2b(digest_size=16, salt=salt)
        kinds = (f"{name}/" for name in self.names if name in self.folders)
        pointed = (part for name, each in self.links.items() for part in (name, each.target))
        listed.update(os.fsencode("\0".join((self.real, *self.names, "/", *kinds, "/", *pointed))))
        listed.update(_packed(self.facts.values()))
        listed.update(b"".join(_packed_target(each.facts) for each in self.links.values()))
        return listed.digest()

    @property
    def newest(self) -> int:
        """When a file that counts was changed last, in nanoseconds."""
        facts = chain(self.facts.values(), (each.facts for each in self.links.values() if each.facts))
        return max((max(each.st_mtime_ns, each.st_ctime_ns) for each in facts if not stat.S_ISDIR(each.st_mode)), default=0)


def list_folder(real: str, settings: CorpusSettings) -> Listed:
    """List a folder by its real path; raise OSError where that is refused."""
    place = os.open(real, _FLAGS) if _BY_DESCRIPTOR else real
    try:
        with os.scandir(place) as found:
            entries = list(found)
        looked_at = [entry for entry in entries if entry.name.lower().endswith(settings.extensions) or entry.name in settings.ignore_files]
        facts, failed = _facts(looked_at)
        folders = frozenset([entry.name for entry in entries if entry.is_dir(follow_symlinks=False)])
        links = {entry.name: point(os.path.join(real, entry.name)) for entry in entries if entry.is_symlink()}  # noqa: PTH118
        return Listed(real, [entry.name for entry in entries], folders, links, facts, failed)
    finally:
        if isinstance(place, int):
            os.close(place)


def _facts(entries: Sequence[os.DirEntry[str]]) -> tuple[dict[str, os.stat_result], dict[str, OSError]]:
    try:
        return {entry.name: entry.stat(follow_symlinks=False) for entry in entries}, {}
    except OSError:  # one of them went just now: each is asked by itself
        facts, failed = {}, {}
        for entry in entries:
            try:
                facts[entry.name] = entry.stat(follow_symlinks=False)
            except OSError as error:
                failed[entry.name] = error
        return facts, failed


def point(link: str) -> Pointed:
    """Return where a symlink leads."""
    target = ""
    try:
        target = os.path.realpath(link)
        return Pointed(target, os.stat(target))  # noqa: PTH116
    except OSError:
        return Pointed(target, None)


def _packed(files: Collection[os.stat_result]) -> bytes:
    try:
        return b"".join([_FACTS.pack(f.st_mode, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in files])
    except struct.error:  # a time after 2262, an inode of 128 bits: whole as well, in three times the time
        return repr([(f.st_mode, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in files]).encode()


def _packed_target(facts: os.stat_result | None) -> bytes:
    if facts is None:
        return b"-"
    return b"d" if stat.S_ISDIR(facts.st_mode) else _packed((facts,))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a walk looked at, by digests alone: names of folders may be private."""

    salt: str
    folders: Mapping[str, str]  # each folder that was listed, by a digest of its real path, with that of its listing


@dataclass(slots=True)
class Seeing:
    """What a walk sees, kept by digests as soon as a folder is listed: the listings of a large vault are not held until its end."""

    began_ns: int  # the clock when the walk began
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES))
    folders: dict[str, str] = field(default_factory=dict)
    is_believed: bool = True

    def keep(self, listed: Listed | None) -> None:
        """Keep what a folder's listing is known by; None where it could not be listed.

        Nothing is believed where something could not be looked at, or was written so shortly before that a second write may not show.
        """
        if listed is None or listed.failed or listed.newest > self.began_ns - FRESH_NS:
            self.is_believed = False
        elif self.is_believed:
            self.folders[_mark(listed.real, self.salt)] = listed.digest(self.salt).hex()

    @property
    def seen(self) -> Seen | None:
        """What was seen; None where the next walk is to look for itself."""
        return Seen(self.salt.hex(), self.folders) if self.is_believed else None


def is_as_seen(root: Path, settings: CorpusSettings, seen: Seen) -> bool:
    """Tell whether every folder that a walk listed holds what it held then: another walk by the same settings would find the same."""
    salt, left = bytes.fromhex(seen.salt), dict(seen.folders)
    waiting = [os.path.realpath(root)]
    while waiting:
        real = waiting.pop()
        expected = left.pop(_mark(real, salt), None)
        if expected is None:
            continue  # left out, or listed by another way
        try:
            listed = list_folder(real, settings)
        except OSError:
            return False
        if listed.failed or listed.digest(salt).hex() != expected:
            return False
        waiting += [os.path.join(real, name) for name in listed.folders]  # noqa: PTH118
        waiting += [each.target for each in listed.links.values() if each.facts and stat.S_ISDIR(each.facts.st_mode)]
    return not left


def _mark(real: str, salt: bytes) -> str:
    return blake2b(os.fsencode(real), digest_size=12, salt=salt).hexdigest()


@dataclass(frozen=True, slots=True)
class Rule:
    """The ignore rules of one folder; its patterns are the lines, in order."""

    prefix: str  # the folder's path and a slash, empty at the root
    spec: GitIgnoreSpec
    lines: tuple[tuple[str, int, str], ...]  # ignore file, line from 1, and what stands there


Rules = tuple[Rule, ...]
"""The ignore rules in force, outermost first."""

MOST_RULES = 1_000_000
"""Bytes of one ignore file."""

_EARLIEST_NS = -(2**63)
"""The earliest time that the store has, in 1677: NTFS begins in 1601. One after 2262 is ahead of every clock, and is not kept."""

_NEVER = ".git"  # holds no document, even where hidden folders are read


@dataclass(slots=True)
class _Walk:
    """One walk through a folder: what it goes by, and what it has seen so far."""

    root: str
    settings: CorpusSettings
    include: GitIgnoreSpec
    exclude: GitIgnoreSpec
    files: dict[str, FileState] = field(default_factory=dict)  # by real path
    problems: list[Problem] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)  # that were listed, or could not be, by real path
    seeing: Seeing | None = None  # where somebody asks what it saw
    links: list[tuple[str, str, Rules]] = field(default_factory=list)  # path in the folder, real path, rules: looked at last
    twice: list[tuple[str, str]] = field(default_factory=list)  # symlinks to notes that are listed by their real path, with that
    unmatched: dict[tuple[str, str], GitIgnoreSpec] = field(default_factory=dict)  # globs that have met nothing so far, by setting and text
    asked: frozenset[str] | None = None  # the paths that are looked at, where that is not all of them, with the folders on the way
    reasons: dict[str, str] = field(default_factory=dict)  # why one that was asked for is left out


def walk(root: Path, settings: CorpusSettings) -> tuple[tuple[FileState, ...], tuple[Problem, ...]]:
    """List the files to be read, sorted by path, with their facts but no digest, and what had to be left out.

    Paths are as on disk, relative, with slashes. Ignore files and globs follow git's rules. A symlink is followed where it leads inside
    the folder; a file that is reached twice is listed once, by its real path. Raises UnknownFolderError where there is no such folder.
    """
    walked = walk_and_see(root, settings, 0)
    return walked.files, walked.problems


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found, and by what the next one can tell that it would find the same."""

    files: tuple[FileState, ...]
    problems: tuple[Problem, ...]
    seen: Seen | None


def walk_and_see(root: Path, settings: CorpusSettings, now_ns: int) -> Walked:
    """Walk as `walk` does; `now_ns` is the clock when it begins, and 0 where nobody asks what it saw."""
    seeing = Seeing(now_ns) if now_ns else None
    state = _Walk(_real(root), settings, read_rules(settings.include), read_rules(settings.exclude), seeing=seeing, unmatched=_globs(settings))
    _go(state)
    found = sorted(state.files.values(), key=lambda file: file.path)
    problems = sorted((*state.problems, *_remarks(state)), key=lambda problem: problem.path)
    return Walked(tuple(found), tuple(problems), seeing.seen if seeing else None)


def why_left_out(root: Path, path: str, settings: CorpusSettings) -> str | None:
    """Say in words why a walk does not list a path of the folder; None where it lists it. It is a walk that looks at nothing beside the path.

    Raises UnknownFolderError where there is no such folder.
    """
    real = _real(root)
    target = os.path.realpath(os.path.join(real, path))  # noqa: PTH118
    own = os.path.relpath(target, real).replace(os.sep, "/")  # a symlink's file may be listed by this one
    on_the_way = frozenset(part for each in (path, own) for part in _with_folders(each))
    state = _Walk(real, settings, read_rules(settings.include), read_rules(settings.exclude), asked=on_the_way)
    _go(state)
    if any(file.path == path for file in state.files.values()):
        return None
    if target in state.files:
        return f"it is a symlink to a note that is listed once, by its own path {state.files[target].path}"
    known = {problem.path: f": {problem.reason}" for problem in state.problems} | {each: f" {reason}" for each, reason in state.reasons.items()}
    reasons = (f"{'it' if part == path else f'its folder {part}'}{known[part]}".removeprefix("it: ") for part in _with_folders(path) if part in known)
    return next(reasons, "it is a folder, not a document" if os.path.isdir(target) else "there is no such file")  # noqa: PTH112


def _real(root: Path) -> str:
    real = os.path.realpath(root)
    if not os.path.isdir(real):  # noqa: PTH112  (the walk works on texts, ten times as fast as on Path objects)
        raise UnknownFolderError(f"no folder at {root}: check the path, or the configuration's [folders]")
    return real


def _with_folders(path: str) -> list[str]:
    """Return a path after the folders that it is in, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _go(state: _Walk) -> None:
    _list(state, "", state.root, ())
    while state.links:  # after the real paths, which win
        path, target, rules = state.links.pop(0)
        if os.path.isdir(target):  # noqa: PTH112
            _list(state, path + "/", target, rules)
        else:
            _add_link(state, path, target, rules)


def _list(state: _Walk, prefix: str, real: str, rules: Rules) -> None:
    """List a folder and those below it; `prefix` is its path in the root with a slash."""
    waiting = [(prefix, real, rules)]
    while waiting:
        prefix, real, rules = waiting.pop()
        if real in state.folders:
            continue
        state.folders.add(real)
        listed = _listed(state, prefix, real)
        if listed is None:
            continue
        below = real.rstrip(os.sep) + os.sep
        names = [name for name in listed.names if _readable_name(state, prefix, name)]
        rules = (*rules, *_own_rules(state, prefix, below, names))
        for name in names:
            path = prefix + name
            if state.asked is not None and path not in state.asked:
                continue
            if state.unmatched:
                _match(state, path, is_folder=name in listed.folders or _is_folder(listed.links.get(name)))
            if name in listed.links:
                _note_link(state, path, listed.links[name], rules)
            elif name in listed.folders:
                if not _left_out(state, path + "/", rules):
                    waiting.append((path + "/", f"{below}{name}", rules))
            else:
                _add(state, path, f"{below}{name}", rules, listed.facts.get(name) or listed.failed.get(name))


def _listed(state: _Walk, prefix: str, real: str) -> Listed | None:
    listed = None
    try:
        listed = list_folder(real, state.settings)
    except OSError as error:
        state.problems.append(Problem(prefix.rstrip("/") or ".", None, f"folder cannot be listed: {error.strerror or error}"))
    if state.seeing:
        state.seeing.keep(listed)
    return listed


def _is_folder(pointed: Pointed | None) -> bool:
    return pointed is not None and pointed.facts is not None and stat.S_ISDIR(pointed.facts.st_mode)


def _readable_name(state: _Walk, prefix: str, name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = (prefix + name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if not name.startswith(".") or state.settings.hidden:
            state.problems.append(Problem(shown, None, "the name is not valid UTF-8: rename it to have it read"))
        return False
    return True


def _own_rules(state: _Walk, prefix: str, below: str, names: Sequence[str]) -> Iterator[Rule]:
    lines: list[tuple[str, int, str]] = []
    for name in state.settings.ignore_files:
        if name in names:
            # a symlink would make lines of any file known, a pipe would never end, and a device would fill the memory
            found = read_inside(state.root, below + name, MOST_RULES)
            if not isinstance(found, bytes):
                reason = found.removeprefix("cannot be read: ") if isinstance(found, str) else f"{found:,} bytes, more than {MOST_RULES:,}"
                state.problems.append(Problem(prefix + name, None, f"ignore rules cannot be read: {reason}"))
                continue
            written = enumerate(found.decode("utf-8-sig", "replace").splitlines(), 1)
            lines += [(prefix + name, number, line) for number, line in written if line]
    if lines:
        yield Rule(prefix, read_rules([line for *_, line in lines]), tuple(lines))


def _note_link(state: _Walk, path: str, pointed: Pointed, rules: Rules) -> None:
    if not pointed.target:
        return
    own = inside(state.root, pointed.target)
    if own is None:
        _note_link_out(state, path, rules)
        return
    folder = _is_folder(pointed)
    if _left_out(state, path + "/" if folder else path, rules) or not (folder or _is_document(state, path)) or is_private_path(own, state.settings):
        return
    if pointed.facts:
        state.links.append((path, pointed.target, rules))
    else:
        state.problems.append(Problem(path, None, "symlink that leads nowhere"))


def _note_link_out(state: _Walk, path: str, rules: Rules) -> None:
    """Report a symlink out of the folder by its name alone: whether anything is there, and what, is nobody's business."""
    name = path.rpartition("/")[2]
    if (_is_document(state, path) or "." not in name.lstrip(".")) and not (_left_out(state, path, rules) or _left_out(state, path + "/", rules)):
        state.problems.append(Problem(path, None, "symlink that leads out of the folder: not followed"))


def _add_link(state: _Walk, path: str, target: str, rules: Rules) -> None:
    """List the file that a symlink leads to by the symlink's path, where it is not listed by its own."""
    if target not in state.files:
        _add(state, path, target, rules, _facts_at(target))
    elif _is_document(state, path) and not _left_out(state, path, rules):
        state.twice.append((path, state.files[target].path))


def _facts_at(target: str) -> os.stat_result | OSError:
    try:
        return os.stat(target)  # noqa: PTH116
    except OSError as error:
        return error


def _globs(settings: CorpusSettings) -> dict[tuple[str, str], GitIgnoreSpec]:
    """Return the globs that somebody gave, by setting and text: a default that meets nothing is no mistake of anybody's."""
    excluded = [glob for glob in settings.exclude if glob not in CorpusSettings().exclude]
    given = [("corpus.include", glob) for glob in settings.include] + [("corpus.exclude", glob) for glob in excluded]
    return {(name, glob): read_rules([glob.removeprefix("!")]) for name, glob in given}


def _match(state: _Walk, path: str, is_folder: bool) -> None:
    """Strike off the globs that an entry meets: `include` is about documents, `exclude` about whatever is there, hidden or not."""
    for (name, glob), spec in list(state.unmatched.items()):
        met = spec.match_file(f"{path}/" if is_folder else path) and (name == "corpus.exclude" or is_folder or _is_document(state, path))
        # a folder that is left out is not looked into
        if met or (is_folder and name == "corpus.exclude" and glob.lstrip("!/").startswith(f"{path}/")):
            del state.unmatched[name, glob]


def _remarks(state: _Walk) -> Iterator[Problem]:
    """Yield what is no file's problem. None of these paths is one of a file: what has a problem is not taken to be gone."""
    for name, glob in state.unmatched:
        yield Problem(f"{name} {glob!r}", None, "this glob matches nothing in the folder: check its spelling")
    if state.twice:
        (path, real), more = min(state.twice), len(state.twice) - 1
        others = f"; so are {more:,} other symlinks" if more > 1 else "; so is 1 other symlink" if more else ""
        yield Problem(f"{path} -> {real}", None, f"symlink to a note that is listed once, by its own path{others}")


def _add(state: _Walk, path: str, real: str, rules: Rules, found: os.stat_result | OSError | None) -> None:
    if real in state.files or not _is_document(state, path) or _left_out(state, path, rules) or found is None:
        return
    if isinstance(found, OSError):
        state.problems.append(Problem(path, None, f"cannot be read: {found.strerror or found}"))
        return
    if not stat.S_ISREG(found.st_mode):
        _note(state, path, "is no regular file")
        return
    if found.st_size > state.settings.max_file_bytes:
        state.problems.append(too_large(path, found.st_size, state.settings))
        return
    state.files[real] = state_of(path, found)


def state_of(path: str, facts: os.stat_result) -> FileState:
    """Return what tells a file's versions apart, without its digest."""
    inode = facts.st_ino % 2**64  # ReFS counts in 128 bits, the store in 64
    return FileState(path, facts.st_size, max(facts.st_mtime_ns, _EARLIEST_NS), inode, ctime_ns=max(facts.st_ctime_ns, _EARLIEST_NS))


def _is_document(state: _Walk, path: str) -> bool:
    found = path.lower().endswith(state.settings.extensions)
    if not found and state.asked is not None:
        _note(state, path, f"is not Markdown: corpus.extensions names {', '.join(state.settings.extensions)}")
    return found


def _left_out(state: _Walk, path: str, rules: Rules) -> bool:
    """Tell whether a file, or a folder (its path ends with a slash), is hidden, ignored or excluded."""
    by = _decisive(state, path, rules)
    if by is not None and state.asked is not None:
        _note(state, path, _in_words(state, path, by))
    return by is not None


def _decisive(state: _Walk, path: str, rules: Rules) -> str | Rule | None:
    """Return what leaves a path out, a setting by its name or ignore rules; None where nothing does."""
    name = path.rstrip("/").rpartition("/")[2]
    if name == _NEVER or (name.startswith(".") and not state.settings.hidden):
        return "hidden"
    if is_private_path(path, state.settings):
        return "private"
    if state.settings.include and not path.endswith("/") and not state.include.match_file(path):
        return "include"
    if state.settings.exclude and state.exclude.match_file(path):
        return "exclude"
    for rule in reversed(rules):  # the innermost rule that matches decides, as in git
        decision = rule.spec.check_file(path[len(rule.prefix) :]).include
        if decision is not None:
            return rule if decision else None
    return None


def _note(state: _Walk, path: str, reason: str) -> None:
    """Keep why a path is left out, where that was asked; the first reason counts."""
    if state.asked is not None:
        state.reasons.setdefault(path.rstrip("/"), reason)


def _in_words(state: _Walk, path: str, by: str | Rule) -> str:
    """Say what leaves a path out."""
    if isinstance(by, Rule):
        file, number, line = by.lines[by.spec.check_file(path[len(by.prefix) :]).index or 0]
        return f"is ignored by {file}, line {number}: {line}"
    if by == "private":
        return "is not there"  # nobody is told of it: who asks is answered before
    if by == "exclude":
        return f"is left out by corpus.exclude: {state.settings.exclude[state.exclude.check_file(path).index or 0]}"
    if by == "include":
        return f"matches no glob of corpus.include: {', '.join(state.settings.include)}"
    if path.rstrip("/").rpartition("/")[2] == _NEVER:
        return "is git's own, which holds no document"
    return "is hidden, as its name begins with a dot (corpus.hidden reads such)"
