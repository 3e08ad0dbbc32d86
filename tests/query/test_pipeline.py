from dataclasses import fields, is_dataclass

import pytest

from fakes import FakeEmbedder, FakeReranker, document
from thumbindex.model import Filters, Query
from thumbindex.query.pipeline import STAGES
from thumbindex.settings import STAGE_NAMES, QuerySettings

DOCUMENTS = [
    document(
        "a.md",
        "# Alpha\n\nSync keeps vaults equal.\n\n## Setup\n\nRun `ob sync-setup` first.",
        links=["b.md"],
        tags=("cloud",),
    ),
    document("b.md", "# Beta\n\nPublish a site.\n\nSync keeps vaults equal."),
    document("c.md", "# Gamma\n\nPlant trees in spring."),
]
NAMES = [name for name, _ in STAGES]


def test_settings_list_stages_in_order() -> None:
    tables = [
        field.name
        for field in fields(QuerySettings)
        if is_dataclass(getattr(QuerySettings(), field.name))
    ]
    assert list(STAGE_NAMES) == NAMES
    assert tables == [name for name in NAMES if name in tables]


def test_trace_has_a_step_for_each_enabled_stage(ask) -> None:
    _, trace = ask(DOCUMENTS, "sync")
    assert [step.stage for step in trace] == [
        name for name in NAMES if name not in {"expand", "deduplicate", "rerank"}
    ]


@pytest.mark.parametrize(("text", "listed"), [("", 1), ("tag:cloud", 1), ("sync", None)])
def test_no_stage_runs_without_words_or_matching_chunks(ask, text, listed) -> None:
    filters = Filters(tag=("nowhere",)) if listed is None else Filters(tag=("cloud",))
    search, trace = ask(DOCUMENTS, Query(text, filters=filters))
    assert (trace, search.listed, bool(search.passages)) == ((), listed, listed is not None)


@pytest.mark.parametrize("name", NAMES)
def test_skipped_stage_is_not_in_trace(ask, name: str) -> None:
    _, trace = ask(
        DOCUMENTS,
        "sync vaults",
        embedder=FakeEmbedder(),
        reranker=FakeReranker(),
        off=name,
        on="expand deduplicate rerank",
    )
    assert [step.stage for step in trace] == [other for other in NAMES if other != name]


def test_trace_counts_chunks_and_passages_and_lists_dropped_chunks(ask) -> None:
    _, trace = ask(DOCUMENTS, "sync vaults")
    steps = {step.stage: step for step in trace}
    assert (steps["search_keyword"].size_in, steps["search_keyword"].size_out) == (0, 3)
    assert (steps["dedup_hash"].size_in, steps["dedup_hash"].size_out) == (3, 2)
    assert [
        (dropped.path, dropped.line, dropped.reason) for dropped in steps["dedup_hash"].dropped
    ] == [("a.md", 3, "a byte-exact copy of b.md, line 5")]
    assert (steps["parents"].size_in, steps["parents"].size_out) == (2, 2)


def test_passages_are_cut_to_limit(ask) -> None:
    search, _ = ask(DOCUMENTS, Query("sync vaults site", limit=2))
    assert [passage.rank for passage in search.passages] == [1, 2]


def test_filters_apply_to_every_retriever(ask) -> None:
    search, _ = ask(
        DOCUMENTS,
        Query("sync vaults site", filters=Filters(tag=("cloud",))),
        embedder=FakeEmbedder(),
    )
    assert {hit.document for ranked in search.lists.values() for hit in ranked.hits} == {0}


def test_answers_are_deterministic(ask) -> None:
    models = {"embedder": FakeEmbedder(), "reranker": FakeReranker()}
    first, second = (ask(DOCUMENTS, "how does sync keep vaults equal?", **models) for _ in range(2))
    assert (first[0].passages, first[1]) == (second[0].passages, second[1])


def test_empty_index_has_no_passages(ask) -> None:
    assert ask([], "sync")[0].passages == ()
