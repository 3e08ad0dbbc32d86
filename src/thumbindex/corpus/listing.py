"""One folder as the system lists it, and a digest a folder that shows whether anything in it is as it was seen."""

from __future__ import annotations

import os
import secrets
import stat
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from thumbindex.corpus.changes import FRESH_NS
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
