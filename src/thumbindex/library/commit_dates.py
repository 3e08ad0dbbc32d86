"""Store the days of the notes' Git commits, to date notes that contain no date."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from thumbindex.corpus.git import (
    CommitDays,
    Repository,
    find_repository,
    find_work_tree,
    has_no_commit,
    read_commit_days,
    read_tracked_paths,
)
from thumbindex.index.document_dates import undated_paths
from thumbindex.index.store import Store
from thumbindex.index.writer import GIT_FAILURE, Writer
from thumbindex.library.indexed_folders import Folder


def store_commit_dates(
    folder: Folder,
    open_writer: Callable[[], AbstractContextManager[Writer]],
    interrupted: Callable[[], bool],
) -> None:
    """Store all notes' commit days, if there is a new commit or a note without commit days."""
    repository, git_folder = find_repository(folder.root), folder.index_paths.build_folder / "git"
    commit = repository.commit if repository else ""
    is_known, undated, failure = commit_dates_state(folder, repository)
    if is_known and not undated:
        return
    days: CommitDays | None = {}
    try:
        if repository and is_known:  # untracked notes need no history
            tracked = (
                frozenset() if failure else read_tracked_paths(repository, git_folder, interrupted)
            )
            if tracked is None:
                return
            days = None if undated.isdisjoint(tracked) else days
        if repository and days is not None:
            failure, days = "", read_commit_days(repository, git_folder, interrupted)
            if days is None:
                return
    except OSError as error:  # keep the stored days; try again after the next commit
        days, failure = None, str(error)
    with open_writer() as writer:
        writer.store_commit_dates(days, commit, failure if repository else "")


def commit_dates_state(
    folder: Folder, repository: Repository | None
) -> tuple[bool, frozenset[str], str]:
    """Read the state of the stored commit days.

    Returns whether the current commit was read, the paths of notes without commit days, and the
    last failure.
    """
    with (
        closing(Store(folder.index_paths.store, read_only=True)) as store,
        store.read_transaction(),
    ):
        is_known = store.meta("commit") == (repository.commit if repository else "")
        return (
            is_known,
            undated_paths(store) if repository else frozenset(),
            store.meta(GIT_FAILURE),
        )


def commit_dates_problem(folder: Folder, store: Store) -> str:
    """Return why the commit days of a folder's notes are unknown; empty if there is no problem."""
    tree, repository = find_work_tree(folder.root), find_repository(folder.root)
    if tree and not repository and not has_no_commit(tree):
        return "commit dates are unknown: thumbindex cannot read a Git repository with this layout"
    failure = (
        store.meta(GIT_FAILURE) if repository and store.meta("commit") == repository.commit else ""
    )
    if not failure:
        return ""
    return f"commit dates are unknown: {failure}; thumbindex tries again after the next commit"
