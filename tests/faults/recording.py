"""What a process did to the files below a folder, operation by operation, recorded by strace.

System calls are where both the writes of SQLite (in C) and ours (in Python) are seen. ALICE (Pillai
and others, OSDI 2014), whose model crash_states.py follows, reads them as well. strace prints every
byte that is written (`-xx`), to which file (`-y`) and, with `-z`, each call as one line when it has
succeeded. If a call that is not followed changed a file, the operations together would not make
the files that are there in the end: a test compares them.
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
"""What SQLite, Python and the index of words change files and folders with."""

ROOT = 0
"""The node of the folder that is recorded."""


def strace(trace: Path) -> list[str]:
    """Return the beginning of a command line that records what the rest of it does; `-z` prints
    only what succeeded, and each call as one line.
    """
    options = ["-f", "-z", "-y", "-xx", "-s", str(1 << 25), "--seccomp-bpf", "-e", f"trace={CALLS}"]
    return ["strace", *options, "-o", str(trace), "--"]


def why_not() -> str:
    """Say why nothing can be recorded here; empty where it can be."""
    if not shutil.which("strace"):
        return (
            "file operations are recorded by strace, which is not installed (Debian: apt-get "
            "install strace)"
        )
    command = [*strace(Path("/dev/null")), "true"]
    tried = subprocess.run(command, capture_output=True, text=True)
    said = tried.stderr.strip()
    return f"strace may not look into processes here: {said}" if tried.returncode else ""


def trace_lines(trace: Path) -> list[str]:
    """Return one line per call. Where another thread ends during a call, strace breaks the line of
    that call in two.
    """
    text = re.sub(r" <unfinished \.\.\.>\n", "", trace.read_text(encoding="ascii"))
    return text.splitlines()


# ------------------------------------------------------------------ operations


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes came to a place in a file."""

    owner: int  # whose fsync makes it durable: the file's node
    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A file was cut, or made longer by zeros."""

    owner: int
    size: int


@dataclass(frozen=True, slots=True)
class Enter:
    """A folder got an entry, perhaps in place of another one: a file or folder that was made."""

    owner: int  # the folder's node
    name: str
    node: int
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """A folder lost an entry."""

    owner: int
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class Rename:
    """An entry came from one name to another, at once."""

    owner: int  # the folder that it came to
    name: str
    node: int
    source: int  # the folder that it left
    old: str


@dataclass(frozen=True, slots=True)
class Sync:
    """A file or folder was made durable as it was."""

    owner: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The process said how far it is: the command up to here had returned."""

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
        for each in sorted(path.iterdir()):
            new = self.folders[node][each.name] = len(self.files) + len(self.folders)
            if each.is_dir():
                self.folders[new] = {}
                self._read(each, new)
            else:
                self.files[new] = each.read_bytes()

    def copy(self) -> Tree:
        """Return a copy that can be changed."""
        return Tree(
            dict(self.files), {node: dict(entries) for node, entries in self.folders.items()}
        )

    def reachable(self, node: int = ROOT, above: str = "") -> Iterator[tuple[str, bytes | None]]:
        """Yield path and content of everything that a path leads to; None for a folder."""
        for name, each in sorted(self.folders[node].items()):
            yield f"{above}{name}", self.files.get(each)
            if each in self.folders:
                yield from self.reachable(each, f"{above}{name}/")

    def digest(self) -> bytes:
        """Tell equal contents by it."""
        found = blake2b(digest_size=16)
        for path, data in self.reachable():
            found.update(f"{path}\0{-1 if data is None else len(data)}\0".encode())
            found.update(data or b"")
        return found.digest()

    def write(self, root: Path) -> None:
        """Write all of it to disk."""
        root.mkdir(parents=True)
        for path, data in self.reachable():
            if data is None:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(data)


# ------------------------------------------------------------------ what strace printed


_LINE = re.compile(
    r"\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\w+)"
    r"(?:<(?P<place>[\\x0-9a-f]*)>)?(?:\(deleted\))?"
)


class Recording:
    """Reads the lines of one process, whose threads share what they have open, as operations below
    a folder.
    """

    def __init__(self, root: Path, before: Tree, marks: Path) -> None:
        self._root, self._marks = str(root), str(marks)
        self._live = before.copy()  # as the process saw it
        self._sizes = {node: len(data) for node, data in before.files.items()}
        self._last = max((*before.files, *before.folders), default=ROOT)
        self._places: dict[str, int] = {}  # where the next write to a descriptor goes
        self._appending: set[str] = set()
        self.operations: list[Operation] = []

    def read(self, lines: Sequence[str]) -> list[Operation]:
        """Read lines; return all operations."""
        for line in lines:
            match = _LINE.match(line)
            assert match, f"not a whole call: {line}"
            self._call(
                match["name"],
                _split(match["arguments"]),
                int(match["result"], 0),
                match["place"] or "",
            )
        return self.operations

    def _call(self, name: str, arguments: list[str], result: int, place: str) -> None:
        if name in ("open", "openat", "creat"):
            self._open(_decoded(place), arguments[-1 if name == "open" else 2], str(result))
        elif name == "lseek":
            self._places[_number(arguments[0])] = result
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
        self._places[descriptor] = 0
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
            else self._places[descriptor]
        )
        if name == "write":
            self._places[descriptor] = at + length
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
            raise ValueError("a rename leads out of the folder that is recorded")
        (old_folder, old), (folder, name) = self._split(source), self._split(target)
        node = self._live.folders[old_folder].pop(old)
        self._live.folders[folder][name] = node
        self.operations.append(Rename(folder, name, node, old_folder, old))

    def _path(self, arguments: Sequence[str]) -> str | None:
        """Return a path below the folder; where there are two arguments or more, the first may be
        the folder that it is relative to.
        """
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
    return arguments.split(", ")  # all texts are in hexadecimal


def in_hexadecimal(text: str) -> str:
    """Return a text as strace prints it."""
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
    """Return the path of a descriptor; empty for what is none, or a file that is in no folder any
    more.
    """
    match = re.fullmatch(r"\w+<((?:\\x[0-9a-f]{2})*)>", argument)
    return _decoded(match[1]) if match else ""
