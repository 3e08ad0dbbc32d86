"""Why a note is not among the answers: the stage and the reason, and how far it was."""

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
def tell(settings_of):
    """Ask, and return what became of the document at a path, or of one of its chunks."""

    def ask_and_tell(
        path,
        text,
        documents=(*SYNC, TREES),
        *,
        limit=10,
        filters=None,
        known=None,
        embedder=None,
        only=None,
        **tables,
    ) -> WhyReport:
        snapshot, seen = memory_snapshot(documents, embedder), []
        snapshot = known(snapshot) if known else snapshot
        tools = Tools(snapshot, settings_of(**tables), embedder)
        answer, _ = run_pipeline(
            Query(text, limit, filters or Filters()),
            tools,
            count().__next__,
            lambda stage, search: seen.append((stage, search)),
        )
        at = next(n for n, each in enumerate(snapshot.catalog.documents) if each.path == path)
        wanted = (
            [ChunkId(n) for n in snapshot.catalog.chunk_ids(at)]
            if only is None
            else [ChunkId(only)]
        )
        return outcome_of(snapshot.catalog.documents[at], "", wanted, seen, answer, tools)

    return ask_and_tell


def test_a_note_behind_the_limit_is_told_its_place(tell):
    found = tell("c.md", "sync keeps vaults", limit=1)
    assert (found.outcome, found.stage) == ("dropped", "parents")
    assert found.reason == "it ranks 3 of 3, below the limit of 1: raise `limit` to see it"


def test_a_note_that_no_retriever_took_is_told_how_far_it_was(tell):
    limits = {"search_keyword": {"limit": 1}, "search_code": {"limit": 1}}
    found = tell("c.md", "sync vaults", **limits)
    assert found.outcome == "not_found"
    assert (
        "search by words (search_keyword) ranks its note 2 of 3, but returns only 1 chunk"
    ) in found.reason


def test_an_answer_that_is_no_answer_leaves_out_every_note(tell):
    found = tell("a.md", "sync zebras quagga okapi", confidence={"abstain_below": 0.9})
    assert (found.outcome, found.stage, found.answerable) == ("dropped", "confidence", False)
    assert found.reason.endswith("is below 0.90: nothing in the index answers this")


def test_a_copy_is_told_which_passage_names_it(tell):
    twins = [
        document("first.md", "# One\n\nWater the garden twice."),
        document("second.md", "# Two\n\nWater the garden twice."),
    ]
    told = {path: tell(path, "water garden", twins) for path in ("first.md", "second.md")}
    (copy,) = (each for each in told.values() if each.outcome != "shown")
    assert (copy.outcome, copy.stage, copy.rank) == ("copy", "dedup_hash", 1)


def test_a_note_that_fusion_left_behind_is_told_its_place_among_all_that_were_found(tell):
    found = tell(
        "d.md",
        "sync keeps equal",
        (*SYNC, document("d.md", "# D\n\nSync keeps tablets equal.")),
        limit=1,
        fuse={"limit": 1},
    )
    assert (found.outcome, found.stage) == ("dropped", "fuse")
    assert found.reason == "its best chunk ranks 4 of 4, and only the first 3 go on"


def test_a_part_of_a_note_that_better_parts_pushed_out_is_told_so(tell):
    long = document(
        "long.md",
        "# Long\n\nSync sync sync vaults.\n\nSync sync vaults.\n\n## More\n\nPlant a sync.",
    )
    found = tell("long.md", "sync vaults", (long, TREES), only=2, fuse={"chunks": 2})
    assert (found.outcome, found.stage, found.reason) == (
        "dropped",
        "fuse",
        "its note has 2 better chunks, the maximum for one note",
    )


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        (Filters(path=("guides/**",)), "the filter `path` asks for guides/**; its path: trees.md"),
        (Filters(tag=("kitchen",)), "the filter `tag` asks for kitchen; its tags: garden"),
        (
            Filters(path=("*.md",), since=date(2030, 1, 1)),
            "the filter `since` asks for 2030-01-01; its date: unknown",
        ),
    ],
)
def test_the_filter_that_keeps_a_note_out_is_named(tell, filters, reason):
    found = tell("trees.md", "plant oaks", filters=filters)
    assert (found.outcome, found.reason) == ("filtered", reason)


def test_a_repeat_is_told_to_be_one(tell, knowing):
    found = tell("trees.md", "plant oaks", known=lambda snapshot: knowing(snapshot, repeats=[3]))
    assert (found.outcome, found.reason) == (
        "filtered",
        "it only repeats other parts of its note, and those are searched instead",
    )


def test_a_note_without_text_is_told_to_have_none(tell):
    empty = replace(document("empty.md", "# Empty"), chunks=())
    assert tell("empty.md", "sync", (*SYNC, empty)).reason == "it has no searchable text"
