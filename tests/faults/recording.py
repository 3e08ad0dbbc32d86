"""The file operations of a process below a folder, recorded by strace.

System calls show the writes of both SQLite (in C) and Python. ALICE (Pillai et al., OSDI 2014),
whose model crash_states.py follows, reads them as well. strace prints all written bytes (`-xx`),
the files (`-y`) and, with `-z`, only successful calls. A test checks that replaying the operations
reproduces the files, which would fail if a relevant call were missing from CALLS.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

CALLS = (
    "open,openat,creat,write,pwrite64,lseek,ftruncate,rename,renameat,renameat2,unlink,unlinkat,"
    "mkdir,mkdirat,rmdir,fsync,fdatasync"
)
"""System calls of SQLite, Python and the keyword index that change files and folders."""

ROOT = 0
"""The node of the recorded folder."""


def strace(trace: Path) -> list[str]:
    """Return the beginning of a command line that records the rest of it."""
    options = ["-f", "-z", "-y", "-xx", "-s", str(1 << 25), "--seccomp-bpf", "-e", f"trace={CALLS}"]
    return ["strace", *options, "-o", str(trace), "--"]


def why_not() -> str:
    """Return why nothing can be recorded here, or ""."""
    if not shutil.which("strace"):
        return (
            "strace, which records file operations, is not installed (Debian: apt-get install "
            "strace)"
        )
    command = [*strace(Path("/dev/null")), "true"]
    result = subprocess.run(command, capture_output=True, text=True)
    errors = result.stderr.strip()
    return f"strace may not trace processes here: {errors}" if result.returncode else ""


def trace_lines(trace: Path) -> list[str]:
    """Return one line per call."""
    # strace splits a call's line if another thread ends during the call
    text = re.sub(r" <unfinished \.\.\.>\n", "", trace.read_text(encoding="ascii"))
    return text.splitlines()


# ------------------------------------------------------------------ operations


@dataclass(frozen=True, slots=True)
class Write:
    """A write of bytes to a file."""

    owner: int  # the node whose fsync makes this durable: the file
    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A truncation of a file, or an extension by zeros."""

    owner: int
    size: int


@dataclass(frozen=True, slots=True)
class Enter:
    """A new entry of a folder, for a created file or folder."""

    owner: int  # the folder's node
    name: str
    node: int
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """A deleted entry of a folder."""

    owner: int
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class Rename:
    """An atomic rename of an entry."""

    owner: int  # the target folder
    name: str
    node: int
    source: int  # the source folder
    old: str


@dataclass(frozen=True, slots=True)
class Sync:
    """An fsync of a file or folder."""

    owner: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A note by the process that a command has returned."""

    text: str


Change = Write | Resize | Enter | Remove | Rename
Operation = Change | Sync | Mark


@dataclass(slots=True)
class Tree:
    """Files and folders by their nodes."""

    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})

    @classmethod
    def read(cls, root: Path) -> Tree:
        """Read a folder on disk."""
        tree = cls()
        tree._read(root, ROOT)
        return tree

    def _read(self, path: Path, node: int) -> None:
        for entry in sorted(path.iterdir()):
            new = self.folders[node][entry.name] = len(self.files) + len(self.folders)
            if entry.is_dir():
                self.folders[new] = {}
                self._read(entry, new)
            else:
                self.files[new] = entry.read_bytes()

    def copy(self) -> Tree:
        return Tree(
            dict(self.files), {node: dict(entries) for node, entries in self.folders.items()}
        )

    def reachable(self, node: int = ROOT, above: str = "") -> Iterator[tuple[str, bytes | None]]:
        """Yield the path and content of all reachable files and folders; None for a folder."""
        for name, child in sorted(self.folders[node].items()):
            yield f"{above}{name}", self.files.get(child)
            if child in self.folders:
                yield from self.reachable(child, f"{above}{name}/")

    def digest(self) -> bytes:
        """Return a digest of all reachable paths and contents."""
        digest = blake2b(digest_size=16)
        for path, data in self.reachable():
            digest.update(f"{path}\0{-1 if data is None else len(data)}\0".encode())
            digest.update(data or b"")
        return digest.digest()

    def write(self, root: Path) -> None:
        """Write the tree to disk."""
        root.mkdir(parents=True)
        for path, data in self.reachable():
            if data is None:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(data)


# ------------------------------------------------------------------ the output of strace


_LINE = re.compile(
    r"\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\w+)"
    r"(?:<(?P<path>[\\x0-9a-f]*)>)?(?:\(deleted\))?"
)


class Recording:
    """Converts strace's lines of one process, with its threads, to operations below a folder."""

    def __init__(self, root: Path, before: Tree, marks: Path) -> None:
        self._root, self._marks = str(root), str(marks)
        self._live = before.copy()  # as the process sees it
        self._sizes = {node: len(data) for node, data in before.files.items()}
        self._last = max((*before.files, *before.folders), default=ROOT)
        self._offsets: dict[str, int] = {}  # of the next write, by descriptor
        self._appending: set[str] = set()
        self.operations: list[Operation] = []

    def read(self, lines: Sequence[str]) -> list[Operation]:
        """Return the operations of some lines."""
        for line in lines:
            match = _LINE.match(line)
            assert match, f"not a whole call: {line}"
            self._call(
                match["name"],
                _split(match["arguments"]),
                int(match["result"], 0),
                match["path"] or "",
            )
        return self.operations

    def _call(self, name: str, arguments: list[str], result: int, opened_path: str) -> None:
        if name in ("open", "openat", "creat"):
            self._open(_decoded(opened_path), arguments[-1 if name == "open" else 2], str(result))
        elif name == "lseek":
            self._offsets[_number(arguments[0])] = result
        elif name in ("write", "pwrite64"):
            self._written(name, arguments, result)
        elif name in ("mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"):
            self._entry(name, self._path(arguments))
        elif name in ("rename", "renameat", "renameat2"):
            pairs = (
                [arguments[:1], arguments[1:2]]
                if name == "rename"
                else [arguments[:2], arguments[2:4]]
            )
            self._renamed(*(self._path(pair) for pair in pairs))
        elif (path := self._inside(_of_descriptor(arguments[0]))) is not None:
            if name == "ftruncate":
                self._resize(self._node(path), int(arguments[1]))
            else:  # fsync, fdatasync
                self.operations.append(Sync(self._node(path)))

    def _open(self, path: str, flags: str, descriptor: str) -> None:
        self._offsets[descriptor] = 0
        self._appending.discard(descriptor)
        inside = self._inside(path)
        if inside is None or "O_DIRECTORY" in flags or inside == "":
            return
        folder, name = self._split(inside)
        if "O_CREAT" in flags and name not in self._live.folders[folder]:
            self._last += 1
            self._sizes[self._last] = 0
            self._live.files[self._last] = b""
            self._live.folders[folder][name] = self._last
            self.operations.append(Enter(folder, name, self._last))
        elif "O_TRUNC" in flags and self._sizes[self._node(inside)]:
            self._resize(self._node(inside), 0)
        if "O_APPEND" in flags:
            self._appending.add(descriptor)

    def _written(self, name: str, arguments: list[str], length: int) -> None:
        path, descriptor = _of_descriptor(arguments[0]), _number(arguments[0])
        data = _bytes(arguments[1])[:length]
        if path == self._marks:
            self.operations.append(Mark(data.decode()))
        inside = self._inside(path)
        if inside is None:
            return
        node = self._node(inside)
        at = (
            int(arguments[3])
            if name == "pwrite64"
            else self._sizes[node]
            if descriptor in self._appending
            else self._offsets[descriptor]
        )
        if name == "write":
            self._offsets[descriptor] = at + length
        self._sizes[node] = max(self._sizes[node], at + length)
        self.operations.append(Write(node, at, data))

    def _resize(self, node: int, size: int) -> None:
        self._sizes[node] = size
        self.operations.append(Resize(node, size))

    def _entry(self, name: str, path: str | None) -> None:
        if not path:  # outside, or the folder itself
            return
        folder, last = self._split(path)
        entries = self._live.folders[folder]
        if name.startswith("mkdir"):
            self._last += 1
            self._live.folders[self._last] = {}
            entries[last] = self._last
            self.operations.append(Enter(folder, last, self._last, is_folder=True))
        else:
            self.operations.append(Remove(folder, last, entries.pop(last)))

    def _renamed(self, source: str | None, target: str | None) -> None:
        if source is None and target is None:
            return
        if not source or not target:
            raise ValueError("a rename out of the recorded folder")
        (old_folder, old), (folder, name) = self._split(source), self._split(target)
        node = self._live.folders[old_folder].pop(old)
        self._live.folders[folder][name] = node
        self.operations.append(Rename(folder, name, node, old_folder, old))

    def _path(self, arguments: Sequence[str]) -> str | None:
        """Return the path below the folder. The first argument may be the base folder."""
        texts = [argument for argument in arguments[:2] if argument.startswith('"')]
        path = _text(texts[0])
        return self._inside(
            path if path.startswith("/") else f"{_of_descriptor(arguments[0])}/{path}"
        )

    def _inside(self, path: str) -> str | None:
        if path == self._root:
            return ""
        return path[len(self._root) + 1 :] if path.startswith(f"{self._root}/") else None

    def _split(self, path: str) -> tuple[int, str]:
        above, _, name = path.rpartition("/")
        return self._node(above), name

    def _node(self, path: str) -> int:
        node = ROOT
        for name in path.split("/") if path else ():
            node = self._live.folders[node][name]
        return node


def _split(arguments: str) -> list[str]:
    return arguments.split(", ")  # texts are hexadecimal


def in_hexadecimal(text: str) -> str:
    """Return a text as printed by strace."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def _decoded(text: str) -> str:
    return bytes.fromhex(text.replace("\\x", "")).decode()


def _bytes(argument: str) -> bytes:
    return bytes.fromhex(argument.strip('"').replace("\\x", ""))


def _text(argument: str) -> str:
    return _bytes(argument).decode()


def _number(argument: str) -> str:
    return argument.partition("<")[0]


def _of_descriptor(argument: str) -> str:
    """Return the path of a descriptor; "" for other arguments and deleted files."""
    match = re.fullmatch(r"\w+<((?:\\x[0-9a-f]{2})*)>", argument)
    return _decoded(match[1]) if match else ""
