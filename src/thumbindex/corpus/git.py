"""Read the dates of each file's first and last commit with git.

Git runs in a temporary bare repository with the objects of the real repository. The configuration,
hooks, attributes and remotes of the real repository are not used. No dates are read from a
repository that has an unusual layout or refers to files outside it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from thumbindex.corpus.read import read_inside
from thumbindex.process import environment

_MAX_COMMITS = 50_000
"""Maximum commits read, newest first."""

_MAX_BYTES, _MAX_SECONDS = 200_000_000, 30.0
"""Limits on git's output and running time. If git exceeds one, all dates are unknown."""

_POLL_SECONDS = 0.05
_SMALL_FILE, _LARGE_FILE = 10_000, 50_000_000

_COMMIT_HASH = re.compile(r"[0-9a-f]{40}")  # longer in sha256 repositories
_REFERENCE = re.compile(r"refs/[\w./@+-]{1,200}")
_ISO_DATE = re.compile(r"(?:19[7-9]|20\d)\d-\d\d-\d\d")

CommitDays = Mapping[str, tuple[str, str]]
"""Maps a path (NFC) to the ISO author dates of its first and last commit, "" if unknown."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository that contains the folder."""

    objects: Path
    below: str  # the folder's path in the work tree, with slashes; empty for the work tree itself
    commit: str
    # commits whose parents are missing in a shallow clone: they seem to add every file
    shallow: frozenset[str]


def find_work_tree(root: Path) -> Path | None:
    """Return the work tree that contains a folder, or None."""
    real = Path(os.path.realpath(root))
    return next(
        (folder for folder in (real, *real.parents) if os.path.lexists(folder / ".git")), None
    )


def has_no_commit(tree: Path) -> bool:
    """Return whether the checked-out branch has no commit yet, or `.git` is not a repository."""
    if (tree / ".git").is_dir() and not os.path.lexists(tree / ".git/HEAD"):
        return True
    directories = _git_directories(tree)
    if directories is None:
        return False
    branch = (
        _read_small_file(directories[0], "HEAD", _SMALL_FILE).strip().removeprefix("ref:").strip()
    )
    is_plain = branch.startswith("refs/heads/") and not os.path.lexists(directories[1] / "reftable")
    return (
        is_plain
        and not os.path.lexists(directories[1] / branch)
        and not _packed_reference(directories[1], branch)
    )


def find_repository(root: Path) -> Repository | None:
    """Return the repository that contains a folder.

    Returns None if there is no repository, or if its dates would not be reliable.
    """
    real, tree = Path(os.path.realpath(root)), find_work_tree(root)
    directories = _git_directories(tree) if tree else None
    if tree is None or directories is None:
        return None
    own_directory, shared_directory = directories
    objects = shared_directory / "objects"
    if (
        any(
            os.path.realpath(path) != str(path)
            for path in (objects, objects / "pack", objects / "info")
        )
        or not objects.is_dir()
    ):
        return None  # a symlink points outside
    commit = _checked_out_commit(own_directory, shared_directory)
    if not commit or os.path.lexists(objects / "info" / "alternates"):
        return None
    is_complete = not os.path.lexists(shared_directory / "shallow")
    shallow = "" if is_complete else _read_small_file(shared_directory, "shallow", _LARGE_FILE)
    below = "" if real == tree else real.relative_to(tree).as_posix()
    if is_complete or shallow:
        return Repository(objects, below, commit, frozenset(shallow.split()))
    return None


def _git_directories(tree: Path) -> tuple[Path, Path] | None:
    """Return a work tree's git directory, and the one that it shares with other work trees.

    The two differ only in a linked work tree. Returns None if the layout is unusual.
    """
    inner = tree / ".git"
    if inner.is_symlink():
        return None
    if inner.is_dir():
        return None if os.path.lexists(inner / "commondir") else (inner, inner)
    content = _read_small_file(tree, ".git", _SMALL_FILE)
    target = content.removeprefix("gitdir:").strip()
    if (
        not content.startswith("gitdir:")
        or not target
        or "\0" in target
        or target.startswith(("//", "\\\\"))
    ):
        return None  # resolving a network path would contact its host
    own_directory = Path(os.path.realpath(tree / target))
    if own_directory.parent.name == "worktrees" and own_directory.parent.parent.name == ".git":
        back = _read_small_file(own_directory, "gitdir", _SMALL_FILE).strip()
        if back and os.path.realpath(own_directory / back) == str(inner):
            return (own_directory, own_directory.parent.parent)
        return None
    outer = next(
        (
            parent
            for parent in tree.parents
            if own_directory.is_relative_to(parent / ".git" / "modules")
        ),
        None,
    )
    return (own_directory, own_directory) if outer else None


def _checked_out_commit(own_directory: Path, shared_directory: Path) -> str:
    """Return the hash of the checked-out commit; empty if there is none or it cannot be read."""
    head = _read_small_file(own_directory, "HEAD", _SMALL_FILE).strip()
    for _ in range(5):  # a branch may refer to another one
        if _COMMIT_HASH.fullmatch(head):
            return head
        name = head.removeprefix("ref:").strip()
        if not head.startswith("ref:") or not _REFERENCE.fullmatch(name) or ".." in name:
            return ""
        head = (
            _read_small_file(shared_directory, name, _SMALL_FILE)
            or _packed_reference(shared_directory, name)
        ).strip()
    return ""


def _packed_reference(shared_directory: Path, name: str) -> str:
    lines = _read_small_file(shared_directory, "packed-refs", _LARGE_FILE).split("\n")
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")


def _read_small_file(folder: Path, name: str, max_bytes: int) -> str:
    data = read_inside(str(folder), str(folder / name), max_bytes)
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""


def read_commit_days(
    repository: Repository, work: Path, interrupted: Callable[[], bool] = lambda: False
) -> CommitDays | None:
    """Return the commit dates of the folder's files; None if interrupted.

    Git runs in the directory `work`, which is created and then deleted. Raises OSError if git is
    missing or fails.
    """
    output = _run_git(
        repository,
        work,
        [*_LOG, repository.commit, "--", *filter(None, [repository.below])],
        interrupted,
    )
    if output is None:
        return None
    return _parse_log(
        output, f"{repository.below}/" if repository.below else "", repository.shallow
    )


def read_tracked_paths(
    repository: Repository, work: Path, interrupted: Callable[[], bool] = lambda: False
) -> frozenset[str] | None:
    """Return the paths (NFC) of the folder's files in the checked-out commit.

    Much faster than `read_commit_days`, which has the same parameters and errors. Returns None if
    interrupted.
    """
    below = f"{repository.below}/" if repository.below else ""
    output = _run_git(
        repository, work, [*_LS_TREE, "--", repository.commit, *filter(None, [below])], interrupted
    )
    if output is None:
        return None
    return frozenset(normalize("NFC", path[len(below) :]) for path in output.split("\0") if path)


def _run_git(
    repository: Repository, work: Path, arguments: list[str], interrupted: Callable[[], bool]
) -> str | None:
    """Run git in the directory `work` and delete `work`. Return the output; None if interrupted."""
    program = shutil.which("git")
    # Windows searches the current folder first, and a vault may contain its own "git"
    if program is None or not Path(program).is_absolute():
        raise FileNotFoundError("git is not on the PATH")
    try:
        for name in ("objects", "refs"):
            (work / name).mkdir(parents=True, exist_ok=True)
        (work / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii", newline="\n")
        (work / "shallow").write_text(
            "".join(f"{commit}\n" for commit in sorted(repository.shallow)),
            encoding="ascii",
            newline="\n",
        )
        output = _run_limited(
            [program, *arguments], _environment(repository, work), work, interrupted
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return None if output is None else os.fsdecode(output)


_LS_TREE = "--no-pager --bare ls-tree -r -z --name-only --full-tree".split()
_LOG = (
    f"--no-pager --bare log --topo-order --max-count={_MAX_COMMITS} --no-mailmap "
    "--no-show-signature --no-notes --no-color --date=short"
    " --format=%x01%H%x20%ad --raw -z --no-abbrev --no-renames --no-ext-diff --no-textconv "
    "--ignore-submodules=all"
).split()

_SAFE_ENVIRONMENT = (
    f"GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL={os.devnull} GIT_ATTR_NOSYSTEM=1 "
    "GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL="
    " GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_LITERAL_PATHSPECS=1 LC_ALL=C"
).split()


def _environment(repository: Repository, work: Path) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in environment().items()
        if name.upper() in {"PATH", "SYSTEMROOT", "TEMP", "TMP"}
    }
    locations = {
        "GIT_DIR": str(work),
        "GIT_OBJECT_DIRECTORY": str(repository.objects),
        "HOME": str(work),
        "XDG_CONFIG_HOME": str(work),
    }
    return (
        inherited
        | locations
        | {
            name: value
            for name, _, value in (setting.partition("=") for setting in _SAFE_ENVIRONMENT)
        }
    )


def _run_limited(
    command: list[str], variables: dict[str, str], folder: Path, interrupted: Callable[[], bool]
) -> bytes | None:
    """Run a program and return its output; None if interrupted.

    Raises OSError if the program fails or exceeds a limit.
    """
    parts: list[bytes] = []
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        command, stdin=null, stdout=pipe, stderr=null, cwd=folder, env=variables
    ) as process:

        def read() -> None:
            while process.stdout and (part := process.stdout.read(1 << 16)):
                parts.append(part)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        end, is_over, was_interrupted = time.monotonic() + _MAX_SECONDS, False, False
        while reader.is_alive() and not is_over:
            reader.join(_POLL_SECONDS)
            was_interrupted = reader.is_alive() and interrupted()
            is_over = was_interrupted or time.monotonic() > end or sum(map(len, parts)) > _MAX_BYTES
        if is_over:
            process.kill()
        reader.join()
    if was_interrupted:
        return None
    if is_over:
        raise OSError(f"git exceeded {_MAX_BYTES:,} bytes of output or {_MAX_SECONDS:.0f} seconds")
    if process.returncode:
        raise OSError("git failed")
    return b"".join(parts)


def _parse_log(log: str, below: str, shallow: frozenset[str]) -> CommitDays:
    """Parse the output of `git log`, which begins with the newest commit.

    A moved file keeps its history from before the move.
    """
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    # a file's name at the commit -> its current name; empty once its history has ended
    current_names: dict[str, str] = {}
    for entry in log.split("\x01")[1:]:
        head, _, raw_changes = entry.partition("\0")
        commit, _, day = head.strip().partition(" ")
        if commit in shallow:
            continue
        day = day if _ISO_DATE.fullmatch(day) else ""
        fields = raw_changes.strip("\n\0").split("\0")
        changes = [
            (facts.split(" "), path)
            for facts, path in zip(fields[::2], fields[1::2], strict=False)
            if facts.startswith(":")
        ]
        deleted = {facts[2]: path for facts, path in changes if facts[4][:1] == "D"}
        for (_, _, before, blob, kind), path in changes:
            name = current_names.get(path, path)
            if kind == "D":
                current_names.setdefault(path, "")
            elif name and kind == "A":
                current_names[path] = ""
                if blob in deleted:
                    current_names[deleted.pop(blob)] = name
                else:
                    first[name] = day
                    last.setdefault(name, day)
            elif name and blob != before:
                last.setdefault(name, day)
    names = (path for path in last if path.startswith(below))
    return {
        normalize("NFC", path[len(below) :]): (first.get(path, ""), last[path]) for path in names
    }
