"""Regressions: interrupted runs, replaced indexes, deleted and moved files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakes import FakeEmbedder, document
from folders import open_library, write
from thumbindex.config import load_config
from thumbindex.errors import IndexBusyError
from thumbindex.index.files import IndexPaths
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.library import Library
from thumbindex.library.comparison import effective_changes
from thumbindex.library.indexing import IndexingOptions, update_words
from thumbindex.model import Changes, LinkCounts, Problem


def opened(
    tmp_path: Path,
    *folders: str,
    overrides: tuple[str, ...] = (),
    embedder: FakeEmbedder | None = None,
) -> Library:
    roots = [tmp_path / folder for folder in folders or ("vault",)]
    return open_library(*roots, overrides=overrides, embedder=embedder)


def first(library: Library, text: str) -> str:
    return next((passage.path for passage in library.query(text).passages), "")


def test_links_resolve_across_batches(tmp_path):
    for n in range(5):
        write(tmp_path / f"vault/{n}.md", f"[[{(n + 1) % 5}]]")
    with opened(tmp_path) as library:
        (folder,) = library.opened
        for run in (IndexingOptions(first_bytes=1), IndexingOptions(first_bytes=1, rebuild=True)):
            report = update_words(folder, run)
        assert report.links == LinkCounts(5, 0)


def test_moved_note_is_indexed_in_the_first_batch(tmp_path):
    write(tmp_path / "vault/old.md", "bananas")
    os.utime(tmp_path / "vault/old.md", (1_000_000_000, 1_000_000_000))
    with opened(tmp_path) as library:
        library.index()
        (tmp_path / "vault/old.md").rename(tmp_path / "vault/moved.md")
        for n in range(5):
            write(tmp_path / f"vault/{n}.md", "pears")
        update_words(library.opened[0], IndexingOptions(first_bytes=1, interrupted=lambda: True))
        assert ([entry.path for entry in library.outline()], first(library, "bananas")) == (
            ["moved.md"],
            "moved.md",
        )


def test_open_library_reads_an_index_recreated_after_forget(tmp_path):
    write(tmp_path / "vault/a.md", "bananas")
    with opened(tmp_path) as reading, opened(tmp_path) as writing:
        writing.index()
        before = first(reading, "bananas")
        writing.forget()
        (tmp_path / "vault/a.md").unlink()
        write(tmp_path / "vault/z.md", "zucchini")
        writing.index()
        assert (before, first(reading, "bananas"), first(reading, "zucchini")) == (
            "a.md",
            "",
            "z.md",
        )


def test_forget_fails_while_another_process_writes(tmp_path):
    write(tmp_path / "vault/a.md", "bananas")
    with opened(tmp_path) as library:
        library.index()
        (folder,) = library.opened
        with (
            Writer.open(folder.index_paths.folder),
            pytest.raises(IndexBusyError, match="Another process is writing"),
        ):
            library.forget()
        assert first(library, "bananas") == "a.md"


def test_open_all_lists_and_forgets_damaged_and_orphaned_indexes(
    tmp_path,
):
    for name in ("one", "two"):
        write(tmp_path / name / "a.md", "apples")
        with opened(tmp_path, name) as library:
            library.index()
    (tmp_path / "one/a.md").unlink()
    (tmp_path / "one").rmdir()
    library.opened[0].index_paths.of_build().store.write_bytes(b"damaged" * 999)
    config = load_config(user_file=tmp_path / "none")
    everywhere = Library.open_all(index=tmp_path / "index", config=config)
    assert sorted(bool(status.skipped) for status in everywhere.status()) == [False, True]
    Library.open_all(index=tmp_path / "index", config=config, only=[tmp_path / "one"]).forget()
    assert len(Library.open_all(index=tmp_path / "index", config=config).status()) == 1


@pytest.mark.parametrize(
    ("problem", "removed"), [(".", ()), ("d", ("a.md",)), ("a.md", ("d/b.md",))]
)
def test_unlisted_files_are_not_removed(problem, removed):
    changes = Changes(removed=("a.md", "d/b.md"))
    problems = [Problem(problem, None, "cannot be listed")]
    assert effective_changes(changes, problems, (), is_closed=False).removed == removed


def test_vectors_of_another_model_are_ignored(tmp_path):
    write(tmp_path / "one/a.md", "apples")
    write(tmp_path / "two/b.md", "Pears, and one day apples too.")
    for name, dimensions in (("one", 64), ("two", 32)):
        with opened(tmp_path, name, embedder=FakeEmbedder(dimensions)) as library:
            library.index()
    with opened(tmp_path, "one", "two") as library:
        answer = library.query("apples")
    assert (answer.index.vectors, sorted(passage.path for passage in answer.passages)) == (
        1,
        ["a.md", "b.md"],
    )


def test_inode_above_the_sqlite_integer_range_is_kept(tmp_path):
    from thumbindex.model import FileState

    with Writer.open(tmp_path / "index") as writer:
        state = FileState("a.md", 1, 1, 2**63 + 5, "d")
        writer.apply(Batch([(state, document("a.md", "text"))]), lambda _: lambda link, path: None)
        assert (
            Store(IndexPaths(tmp_path / "index").store, read_only=True).manifest()["a.md"] == state
        )


@pytest.mark.parametrize("stage", ["diversify.method=mmr", "skip=expand,rerank"])
def test_query_is_embedded_once(tmp_path, stage):
    for n in range(5):
        write(tmp_path / f"vault/{n}.md", f"# {n}\n\napples number {n} are kept in a cellar")
    embedder = FakeEmbedder()
    with opened(tmp_path, overrides=(f"query.{stage}",), embedder=embedder) as library:
        library.index()
        before = embedder.embedded
        library.query("apples in a cellar")
        assert embedder.embedded == before + 3  # and without each of its two words


def test_reranker_scores_only_ten_candidates(tmp_path):
    for n in range(15):
        write(tmp_path / f"vault/{n}.md", f"# Note {n}\n\n{'apples ' * (n + 1)} word{n} other{n}")
    scored_counts: list[int] = []

    class Counting:
        name = "counting"

        def score(self, query: str, passages: list[str]) -> list[float]:
            scored_counts.append(len(passages))
            return [0.5] * len(passages)

    config = load_config(user_file=tmp_path / "none", overrides=("query.skip=expand,deduplicate",))
    with Library.open(
        [tmp_path / "vault"],
        index=tmp_path / "index",
        config=config,
        embedder=FakeEmbedder(),
        reranker=Counting(),
    ) as library:
        library.index()
        library.query("apples", limit=15)
    assert scored_counts == [10]


def test_note_deleted_during_a_run_is_no_problem(tmp_path):
    write(tmp_path / "vault/a.md", "apples " * 20_000)
    write(tmp_path / "vault/b.md", "pears")
    os.utime(tmp_path / "vault/b.md", (0, 0))  # the oldest note is read last
    with opened(tmp_path) as library:
        report = library.index(
            complete=False,
            progress=lambda progress: (tmp_path / "vault/b.md").unlink(missing_ok=True),
        )
        assert (report.skipped, [entry.path for entry in library.outline()]) == ((), ["a.md"])
