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


def digests(**known: str) -> Callable[[str], str]:
    return lambda path: known[path.removesuffix(".md")]


def compare(
    known: list[FileState],
    present: list[FileState],
    read: Callable[[str], str] = never,
    verify: bool = False,
) -> FolderChanges:
    return find_changes(
        {state.path: state for state in known}, present, read, now_ns=NOW, verify=verify
    )


def test_nothing_is_read_when_nothing_changed() -> None:
    assert compare([OLD], [BARE]) == FolderChanges(Changes(unchanged=1), (OLD,))


@pytest.mark.parametrize(
    "now",
    [
        FileState("a.md", 6, 1_000, 7),
        FileState("a.md", 5, 2_000, 7),
        FileState("a.md", 5, 1_000, 8),
        FileState("a.md", 5, 1_000, 7, ctime_ns=9),
    ],
)
def test_where_a_fact_differs_the_digest_decides(now: FileState) -> None:
    same = replace(now, digest="digest-a")
    assert compare([OLD], [now], digests(a="digest-a")) == FolderChanges(
        Changes(unchanged=1), (same,), ("a.md",)
    )
    assert compare([OLD], [now], digests(a="other")).changes == Changes(changed=("a.md",))


def test_a_time_too_fresh_to_trust_is_not_kept_so_that_the_digest_decides_next_time() -> None:
    fresh = FileState("a.md", 5, NOW - 1, 7)
    first = compare([], [fresh])
    assert first.states[0].mtime_ns == -1
    kept = FileState("a.md", 5, -1, 7, "digest-a")
    later = find_changes({"a.md": kept}, [fresh], digests(a="other"), now_ns=NOW + 10**10)
    assert later.changes == Changes(changed=("a.md",))


def test_a_fresh_file_that_stayed_as_it_was_is_trusted_from_the_second_look_on() -> None:
    kept, fresh = FileState("a.md", 5, -1, 7, "digest-a"), FileState("a.md", 5, NOW - 1, 7)
    second = find_changes({"a.md": kept}, [fresh], digests(a="digest-a"), now_ns=NOW + 10**10)
    assert (second.changes, second.metadata_only) == (Changes(unchanged=1), ("a.md",))
    third = find_changes({"a.md": second.states[0]}, [fresh], never, now_ns=NOW + 10**11)
    assert third.changes == Changes(unchanged=1)


def test_verify_reads_everything_and_finds_a_change_that_left_all_facts_alone() -> None:
    assert compare([OLD], [BARE], digests(a="other"), verify=True).changes == Changes(
        changed=("a.md",)
    )
    assert compare([OLD], [BARE], digests(a="digest-a"), verify=True) == FolderChanges(
        Changes(unchanged=1), (OLD,)
    )


def test_a_file_that_cannot_be_read_any_more_counts_as_changed() -> None:
    assert compare([OLD], [FileState("a.md", 6, 1_000, 7)], digests(a="")).changes == Changes(
        changed=("a.md",)
    )
