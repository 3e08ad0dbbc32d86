from collections.abc import Callable
from dataclasses import replace

import pytest

from thumbindex.corpus.walk import FolderChanges, find_changes
from thumbindex.model import Changes, FileState

NOW = 1_000_000_000_000
BARE = FileState("a.md", 5, 1_000, 7)
OLD = replace(BARE, digest="digest-a")


def never(path: str) -> str:
    raise AssertionError(f"{path} was read")


def digests(**known_digests: str) -> Callable[[str], str]:
    return lambda path: known_digests[path.removesuffix(".md")]


def compare(
    stored: list[FileState],
    present: list[FileState],
    read: Callable[[str], str] = never,
    verify: bool = False,
) -> FolderChanges:
    return find_changes(
        {state.path: state for state in stored}, present, read, now_ns=NOW, verify=verify
    )


def test_unchanged_files_are_not_read() -> None:
    assert compare([OLD], [BARE]) == FolderChanges(Changes(unchanged=1), (OLD,))


@pytest.mark.parametrize(
    "current",
    [
        FileState("a.md", 6, 1_000, 7),
        FileState("a.md", 5, 2_000, 7),
        FileState("a.md", 5, 1_000, 8),
        FileState("a.md", 5, 1_000, 7, ctime_ns=9),
    ],
)
def test_changed_stat_is_decided_by_the_digest(current: FileState) -> None:
    with_digest = replace(current, digest="digest-a")
    assert compare([OLD], [current], digests(a="digest-a")) == FolderChanges(
        Changes(unchanged=1), (with_digest,), ("a.md",)
    )
    assert compare([OLD], [current], digests(a="other")).changes == Changes(changed=("a.md",))


def test_time_of_a_fresh_file_is_not_stored() -> None:
    fresh = FileState("a.md", 5, NOW - 1, 7)
    first = compare([], [fresh])
    assert first.states[0].mtime_ns == -1
    stored = FileState("a.md", 5, -1, 7, "digest-a")
    later = find_changes({"a.md": stored}, [fresh], digests(a="other"), now_ns=NOW + 10**10)
    assert later.changes == Changes(changed=("a.md",))


def test_unchanged_fresh_file_is_trusted_from_the_second_listing() -> None:
    stored, fresh = FileState("a.md", 5, -1, 7, "digest-a"), FileState("a.md", 5, NOW - 1, 7)
    second = find_changes({"a.md": stored}, [fresh], digests(a="digest-a"), now_ns=NOW + 10**10)
    assert (second.changes, second.metadata_only) == (Changes(unchanged=1), ("a.md",))
    third = find_changes({"a.md": second.states[0]}, [fresh], never, now_ns=NOW + 10**11)
    assert third.changes == Changes(unchanged=1)


def test_verify_finds_a_change_with_equal_stat() -> None:
    assert compare([OLD], [BARE], digests(a="other"), verify=True).changes == Changes(
        changed=("a.md",)
    )
    assert compare([OLD], [BARE], digests(a="digest-a"), verify=True) == FolderChanges(
        Changes(unchanged=1), (OLD,)
    )


def test_file_that_became_unreadable_counts_as_changed() -> None:
    assert compare([OLD], [FileState("a.md", 6, 1_000, 7)], digests(a="")).changes == Changes(
        changed=("a.md",)
    )
