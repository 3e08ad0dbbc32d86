"""What differs between the files on disk and what is known of them, with as little reading as is safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from thumbindex.model import Changes, FileState

NOT_KEPT = -1
"""Stands for the time of a file that was written just before: it is no file's, so that the digest decides."""

FRESH_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT) ticks every two seconds."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes, and the facts to keep for the next comparison."""

    changes: Changes
    states: tuple[FileState, ...]  # of all files present, by path; the digest of an added file is empty until it is read
    touched: tuple[str, ...] = ()  # the same text with other facts: only the facts are to be kept anew


def find_changes(
    known: Mapping[str, FileState],
    present: Sequence[FileState],
    read_digest: Callable[[str], str],
    *,
    now_ns: int,
    verify: bool = False,
) -> Comparison:
    """Compare files with what is known of them: facts first, digests where those differ, all digests with `verify`.

    `now_ns` is the clock when the files were listed: the time of a file that was written just before is not kept, since a
    second write within one tick of the clock would leave it as it is ("racily clean", as git does); its digest decides next time.
    """
    states: list[FileState] = []
    added, changed, touched = [], [], []
    for state in present:
        before = known.get(state.path)
        kept = replace(state, mtime_ns=NOT_KEPT) if max(state.mtime_ns, state.ctime_ns) > now_ns - FRESH_NS else state
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
    return Comparison(Changes(tuple(added), tuple(changed), tuple(removed), same), tuple(states), tuple(touched))


def facts_of(state: FileState) -> tuple[int, int, int, int]:
    """Return what is the same while nobody writes to a file; its time alone can be set back by whoever writes."""
    return state.size, state.mtime_ns, state.inode, state.ctime_ns
