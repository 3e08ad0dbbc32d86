"""Read the dates of a file's first and last commit with git.

Git reads the repository's objects and nothing that the repository configures: it runs in a bare
directory of our own, without configuration, hooks, attributes or remotes, to which the objects are
lent. If a repository has an unusual layout, or names a place outside, its dates are unknown.
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
"""Number of the newest commits read: a limit that does not depend on the machine."""

_MAX_BYTES, _MAX_SECONDS = 200_000_000, 30.0
"""Limits of git's output and time; beyond them no date is known."""

_POLL_SECONDS = 0.05
_SMALL_FILE, _LARGE_FILE = 10_000, 50_000_000

_COMMIT_HASH = re.compile(r"[0-9a-f]{40}")  # of sha256 they are longer
_REFERENCE = re.compile(r"refs/[\w./@+-]{1,200}")
_ISO_DATE = re.compile(r"(?:19[7-9]|20\d)\d-\d\d-\d\d")

CommitDays = Mapping[str, tuple[str, str]]
"""Maps a path (NFC) to the ISO dates of its first and last commit by the authors' clocks; empty if
unknown.
"""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository whose work tree contains the folder."""

    objects: Path
    below: str  # the folder in the work tree, with slashes; empty for the whole
    commit: str
    # commits without their parents: they are not when a file was written
    shallow: frozenset[str]


def find_work_tree(root: Path) -> Path | None:
    """Return the work tree that contains a folder; None if there is none."""
    real = Path(os.path.realpath(root))
    return next((each for each in (real, *real.parents) if os.path.lexists(each / ".git")), None)


def has_no_commit(tree: Path) -> bool:
    """Return whether the checked-out branch has no commit yet, or `.git` is no repository."""
    if (tree / ".git").is_dir() and not os.path.lexists(tree / ".git/HEAD"):
        return True
    places = _git_directories(tree)
    if places is None:
        return False
    branch = _read_small_file(places[0], "HEAD", _SMALL_FILE).strip().removeprefix("ref:").strip()
    is_plain = branch.startswith("refs/heads/") and not os.path.lexists(places[1] / "reftable")
    return (
        is_plain
        and not os.path.lexists(places[1] / branch)
        and not _packed_reference(places[1], branch)
    )


def find_repository(root: Path) -> Repository | None:
    """Return the repository that contains a folder; None if there is none with reliable dates."""
    real, tree = Path(os.path.realpath(root)), find_work_tree(root)
    places = _git_directories(tree) if tree else None
    if tree is None or places is None:
        return None
    own, shared = places
    objects = shared / "objects"
    if (
        any(
            os.path.realpath(each) != str(each)
            for each in (objects, objects / "pack", objects / "info")
        )
        or not objects.is_dir()
    ):
        return None  # what is lent would lie elsewhere
    commit = _checked_out_commit(own, shared)
    if not commit or os.path.lexists(objects / "info" / "alternates"):
        return None
    is_whole = not os.path.lexists(shared / "shallow")
    shallow = "" if is_whole else _read_small_file(shared, "shallow", _LARGE_FILE)
    below = "" if real == tree else real.relative_to(tree).as_posix()
    if is_whole or shallow:
        return Repository(objects, below, commit, frozenset(shallow.split()))
    return None


def _git_directories(tree: Path) -> tuple[Path, Path] | None:
    """Return a work tree's git directory and the shared one; None if they are in unusual places."""
    inner = tree / ".git"
    if inner.is_symlink():
        return None
    if inner.is_dir():
        return None if os.path.lexists(inner / "commondir") else (inner, inner)
    said = _read_small_file(tree, ".git", _SMALL_FILE)
    named = said.removeprefix("gitdir:").strip()
    if (
        not said.startswith("gitdir:")
        or not named
        or "\0" in named
        or named.startswith(("//", "\\\\"))
    ):
        return None  # a name on the network would be asked for
    own = Path(os.path.realpath(tree / named))
    if own.parent.name == "worktrees" and own.parent.parent.name == ".git":
        back = _read_small_file(own, "gitdir", _SMALL_FILE).strip()
        if back and os.path.realpath(own / back) == str(inner):
            return (own, own.parent.parent)
        return None
    outer = next(
        (parent for parent in tree.parents if own.is_relative_to(parent / ".git" / "modules")), None
    )
    return (own, own) if outer else None


def _checked_out_commit(own: Path, shared: Path) -> str:
    """Return the checked-out commit; empty if there is none, or in an unsupported format."""
    said = _read_small_file(own, "HEAD", _SMALL_FILE).strip()
    for _ in range(5):  # a branch may be another one's name
        if _COMMIT_HASH.fullmatch(said):
            return said
        name = said.removeprefix("ref:").strip()
        if not said.startswith("ref:") or not _REFERENCE.fullmatch(name) or ".." in name:
            return ""
        said = (
            _read_small_file(shared, name, _SMALL_FILE) or _packed_reference(shared, name)
        ).strip()
    return ""


def _packed_reference(shared: Path, name: str) -> str:
    lines = _read_small_file(shared, "packed-refs", _LARGE_FILE).split("\n")
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")


def _read_small_file(folder: Path, name: str, most: int) -> str:
    found = read_inside(str(folder), str(folder / name), most)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""


def read_commit_days(
    repository: Repository, own: Path, interrupted: Callable[[], bool] = lambda: False
) -> CommitDays | None:
    """Return the commit dates of the files below the folder; None if interrupted.

    Raises OSError if git is missing or fails. `own` is where git's temporary directory is made.
    """
    written = _run_git(
        repository,
        own,
        [*_LOG, repository.commit, "--", *filter(None, [repository.below])],
        interrupted,
    )
    if written is None:
        return None
    return _parse_log(
        written, f"{repository.below}/" if repository.below else "", repository.shallow
    )


def read_tracked_paths(
    repository: Repository, own: Path, interrupted: Callable[[], bool] = lambda: False
) -> frozenset[str] | None:
    """Return the paths (NFC) of the commit below the folder, much sooner than their days; None and
    errors as with `read_days`.
    """
    below = f"{repository.below}/" if repository.below else ""
    written = _run_git(
        repository, own, [*_LS_TREE, "--", repository.commit, *filter(None, [below])], interrupted
    )
    if written is None:
        return None
    return frozenset(normalize("NFC", path[len(below) :]) for path in written.split("\0") if path)


def _run_git(
    repository: Repository, own: Path, arguments: list[str], interrupted: Callable[[], bool]
) -> str | None:
    """Run git in a temporary directory and return its output."""
    program = shutil.which("git")
    # on Windows the current folder, which may be the vault, is looked at first
    if program is None or not Path(program).is_absolute():
        raise FileNotFoundError("git is not on the PATH")
    try:
        for name in ("objects", "refs"):
            (own / name).mkdir(parents=True, exist_ok=True)
        (own / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii", newline="\n")
        (own / "shallow").write_text(
            "".join(f"{commit}\n" for commit in sorted(repository.shallow)),
            encoding="ascii",
            newline="\n",
        )
        written = _run_limited(
            [program, *arguments], _environment(repository, own), own, interrupted
        )
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return None if written is None else os.fsdecode(written)


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


def _environment(repository: Repository, own: Path) -> dict[str, str]:
    """Return git's environment variables."""
    kept = {
        name: value
        for name, value in environment().items()
        if name.upper() in {"PATH", "SYSTEMROOT", "TEMP", "TMP"}
    }
    places = {
        "GIT_DIR": str(own),
        "GIT_OBJECT_DIRECTORY": str(repository.objects),
        "HOME": str(own),
        "XDG_CONFIG_HOME": str(own),
    }
    return (
        kept
        | places
        | {name: value for name, _, value in (each.partition("=") for each in _SAFE_ENVIRONMENT)}
    )


def _run_limited(
    command: list[str], surroundings: dict[str, str], folder: Path, interrupted: Callable[[], bool]
) -> bytes | None:
    """Return a program's output; None if interrupted. Raises OSError beyond its limits."""
    parts: list[bytes] = []
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        command, stdin=null, stdout=pipe, stderr=null, cwd=folder, env=surroundings
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
        raise OSError(f"git said too much, or nothing in {_MAX_SECONDS:.0f} seconds")
    if process.returncode:
        raise OSError("git failed")
    return b"".join(parts)


def _parse_log(written: str, below: str, shallow: frozenset[str]) -> CommitDays:
    """Parse a log, newest commit first; a moved file keeps its history under its old name."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    # by a file's name at the commit its name today; empty where its history has ended
    now: dict[str, str] = {}
    for entry in written.split("\x01")[1:]:
        head, _, rest = entry.partition("\0")
        commit, _, day = head.strip().partition(" ")
        if commit in shallow:
            continue
        day = day if _ISO_DATE.fullmatch(day) else ""
        fields = rest.strip("\n\0").split("\0")
        changes = [
            (facts.split(" "), path)
            for facts, path in zip(fields[::2], fields[1::2], strict=False)
            if facts.startswith(":")
        ]
        gone = {facts[2]: path for facts, path in changes if facts[4][:1] == "D"}
        for (_, _, before, blob, kind), path in changes:
            name = now.get(path, path)
            if kind == "D":
                now.setdefault(path, "")
            elif name and kind == "A":
                now[path] = ""
                if blob in gone:
                    now[gone.pop(blob)] = name
                else:
                    first[name] = day
                    last.setdefault(name, day)
            elif name and blob != before:
                last.setdefault(name, day)
    names = (path for path in last if path.startswith(below))
    return {
        normalize("NFC", path[len(below) :]): (first.get(path, ""), last[path]) for path in names
    }
