"""`outcome_of` explains why a note is not in the answer: the stage, the reason and the rank."""

from dataclasses import replace
from datetime import date
from itertools import count

import pytest

from fakes import document, memory_snapshot
from thumbindex.model import ChunkId, Filters, Query, WhyReport
from thumbindex.query.explain import outcome_of
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Tools

SYNC = [
    document(f"{name}.md", f"# {name.title()}\n\nSync keeps {thing} equal.")
    for name, thing in (("a", "vaults"), ("b", "disks"), ("c", "phones"))
]
TREES = document("trees.md", "# Trees\n\nPlant oaks in spring.", tags=("garden",))


@pytest.fixture
def why(settings_of):
    """Return a function that queries, and explains the outcome for a path or one of its chunks."""

    def explain_outcome(
        path,
        text,
        documents=(*SYNC, TREES),
        *,
        limit=10,
        filters=None,
        change_snapshot=None,
        embedder=None,
        only=None,
        **tables,
    ) -> WhyReport:
        snapshot, history = memory_snapshot(documents, embedder), []
        snapshot = change_snapshot(snapshot) if change_snapshot else snapshot
        tools = Tools(snapshot, settings_of(**tables), embedder)
        answer, _ = run_pipeline(
            Query(text, limit, filters or Filters()),
            tools,
            count().__next__,
            lambda stage, search: history.append((stage, search)),
        )
        at = next(n for n, each in enumerate(snapshot.catalog.documents) if each.path == path)
        wanted = (
            [ChunkId(n) for n in snapshot.catalog.chunk_ids(at)]
            if only is None
            else [ChunkId(only)]
        )
        return outcome_of(snapshot.catalog.documents[at], "", wanted, history, answer, tools)

    return explain_outcome


def test_note_below_limit_has_its_rank(why):
    report = why("c.md", "sync keeps vaults", limit=1)
    assert (report.outcome, report.stage) == ("dropped", "parents")
    assert (
        report.reason == "it ranks 3 of 3, and the answer has 1 passage: a higher `limit` shows it"
    )


def test_note_that_was_not_found_has_its_rank(why):
    limits = {"search_keyword": {"limit": 1}, "search_code": {"limit": 1}}
    report = why("c.md", "sync vaults", **limits)
    assert report.outcome == "not_found"
    assert "by words it ranks 2 of 3" in report.reason


def test_refused_answer_drops_all_but_the_nearest_notes(why):
    report = why("c.md", "sync zebras quagga okapi", confidence={"abstain_below": 0.9})
    assert (report.outcome, report.stage, report.found) == ("dropped", "confidence", False)
    assert report.reason.endswith("is below 0.9: nothing in the index answers this")


def test_copy_names_its_passage(why):
    twins = [
        document("first.md", "# One\n\nWater the garden twice."),
        document("second.md", "# Two\n\nWater the garden twice."),
    ]
    reports = [why(path, "water garden", twins) for path in ("first.md", "second.md")]
    (copy,) = (report for report in reports if report.outcome != "shown")
    assert (copy.outcome, copy.stage, copy.rank) == ("copy", "dedup_hash", 1)


def test_note_dropped_by_fusion_has_its_rank(why):
    report = why(
        "d.md",
        "sync keeps equal",
        (*SYNC, document("d.md", "# D\n\nSync keeps tablets equal.")),
        limit=1,
        fuse={"limit": 1},
    )
    assert (report.outcome, report.stage) == ("dropped", "fuse")
    assert report.reason == "its best chunk ranks 4 of 4, and only the first 3 are kept"


def test_chunk_beyond_limit_per_document_has_reason(why):
    long = document(
        "long.md",
        "# Long\n\nSync sync sync vaults.\n\nSync sync vaults.\n\n## More\n\nPlant a sync.",
    )
    report = why("long.md", "sync vaults", (long, TREES), only=2, fuse={"chunks": 2})
    assert (report.outcome, report.stage, report.reason) == (
        "dropped",
        "fuse",
        "the note has better chunks, and no more are kept per note",
    )


@pytest.mark.parametrize(
    ("filters", "name"),
    [
        (Filters(path=("guides/**",)), "path"),
        (Filters(tag=("kitchen",)), "tag"),
        (Filters(path=("*.md",), since=date(2030, 1, 1)), "since"),
    ],
)
def test_excluding_filter_is_named(why, filters, name):
    report = why("trees.md", "plant oaks", filters=filters)
    assert (report.outcome, report.reason) == ("filtered", f"the filter `{name}` excludes it")


def test_repeat_has_reason(why, with_duplicates):
    report = why(
        "trees.md",
        "plant oaks",
        change_snapshot=lambda snapshot: with_duplicates(snapshot, repeats=[3]),
    )
    assert (report.outcome, report.reason) == (
        "filtered",
        "its text is also elsewhere, and only one copy is searched",
    )


def test_note_without_text_has_reason(why):
    empty = replace(document("empty.md", "# Empty"), chunks=())
    assert why("empty.md", "sync", (*SYNC, empty)).reason == "it has no searchable text"
