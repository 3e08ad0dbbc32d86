"""Each stage changes the answer of the whole pipeline to some query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakes import FakeEmbedder, FakeReranker, document, memory_snapshot

DEDUP = "dedup_versions dedup_known dedup_hash dedup_ngram dedup_semantic"


def paths(answer) -> list[str]:
    return [passage.path for passage in answer[0].passages]


def test_classify_and_all_words_rank_identifier_before_its_words(ask) -> None:
    parts = document("parts.md", "# Parts\n\nParse json: parse json, parse json.")
    notes = [
        parts,
        document("whole.md", "# Whole\n\nThe loader calls parse_json while it reads a file."),
    ]
    tables = {"search_code": {"weight": 0.35}}
    first = [
        paths(ask(notes, "parse_json", embedder=FakeEmbedder(), off=off, **tables))[0]
        for off in ("classify", "all_words", "classify all_words")
    ]
    assert first == ["whole.md", "whole.md", "parts.md"]


def test_correct_finds_misspelled_word(ask) -> None:
    notes = [
        document("a.md", "# Money\n\nCancel a subscription."),
        document("b.md", "# Other\n\nPlant trees."),
    ]
    on, off = (ask(notes, "subcription", off=name) for name in ("", "correct"))
    assert (paths(on), paths(off)) == (["a.md"], [])
    assert (on[0].text, on[0].query.text) == ("subscription", "subcription")


def test_expand_finds_related_term(ask) -> None:
    notes = [
        document("a.md", "# Rules\n\nA refund takes a week."),
        document("b.md", "# Other\n\nPlant trees, cash only."),
    ]
    vocabulary = (("cash", "refund"), np.array([[1, 0], [0.8, 0.6]], dtype=np.float32))
    snapshot = replace(memory_snapshot(notes), vocabulary=vocabulary)
    on, off = (ask(snapshot, "cash", on=stage, expand={"weight": 0.9}) for stage in ("expand", ""))
    assert (paths(on), paths(off)) == (["b.md", "a.md"], ["b.md"])


def test_recency_ranks_newer_of_equal_notes_first(ask) -> None:
    notes = [
        document("a.md", "# Log\n\nBackups run at night.", date="2020-01-01"),
        document("b.md", "# Log\n\nBackups run at noon.", date="2026-01-01"),
    ]
    on, off = (ask(notes, "backups run", off=name) for name in ("", "recency"))
    assert (paths(on), paths(off)) == (["b.md", "a.md"], ["a.md", "b.md"])


def test_normalize_makes_scores_comparable_with_reranker(ask) -> None:
    notes = [
        document(
            "new.md",
            "# Note\n\nAlpha beta.",
            aliases=("alpha beta gamma delta",),
            date="2026-01-01",
        ),
        document("old.md", "# List\n\nAlpha, beta, gamma and delta.", date="2000-01-01"),
    ]
    tables = {"recency": {"bias": 1.0}, "rerank": {"weight": 0.6}}
    on, off = (
        ask(
            notes,
            "alpha beta gamma delta",
            reranker=FakeReranker(),
            off=f"match_names search_code {name}",
            on="rerank",
            **tables,
        )
        for name in ("", "normalize")
    )
    assert (paths(on), paths(off)) == (["old.md", "new.md"], ["new.md", "old.md"])


def test_salience_ranks_important_chunk_first(ask, with_duplicates) -> None:
    notes = [
        document("a.md", "# A\n\nBackups run at night."),
        document("b.md", "# B\n\nBackups run at noon."),
    ]
    snapshot = with_duplicates(memory_snapshot(notes), saliences={0: 0.1, 1: 0.9})
    on, off = (ask(snapshot, "backups run", off=name) for name in ("", "salience"))
    assert (paths(on), paths(off)) == (["b.md", "a.md"], ["a.md", "b.md"])


def test_dedup_versions_shows_newest_version(ask) -> None:
    notes = [
        document(f"{version}/sync.md", f"# Sync\n\nSync keeps vaults equal within {n} seconds.")
        for version, n in (("5.1", 9), ("7.6", 5))
    ]
    on, off = (ask(notes, "sync vaults", off=name) for name in ("", "dedup_versions"))
    assert (paths(on), sorted(paths(off))) == (["7.6/sync.md"], ["5.1/sync.md", "7.6/sync.md"])


def test_dedup_known_shows_merged_texts_once(ask, with_duplicates) -> None:
    notes = [
        document("a.md", "# A\n\nSync keeps vaults equal."),
        document("b.md", "# B\n\nVaults are made equal by sync.", date="2026-01-01"),
    ]
    snapshot = with_duplicates(memory_snapshot(notes), copies={0: (1,), 1: (0,)})
    on, off = (ask(snapshot, "sync vaults", off=name) for name in ("", "dedup_known"))
    assert (paths(on), sorted(paths(off))) == (["b.md"], ["a.md", "b.md"])


def test_contradict_marks_contradicting_passages(ask) -> None:
    text = "Every night the server copies all files to the second disk and keeps them for {} days."
    first, other = (
        document("a.md", f"# Night backups\n\n{text.format(30)}"),
        document("b.md", "# Night backups\n\nThey run every night."),
    )
    notes = [first, other, document("c.md", text.format(90))]
    on, off = (
        ask(notes, "night backups", off=name, confidence={"minimum_relevance": 0.0})
        for name in ("", "contradict")
    )
    assert [passage.path for passage in on[0].passages if passage.disagrees] == ["a.md", "c.md"]
    assert [passage.path for passage in off[0].passages if passage.disagrees] == []


def test_dedup_hash_shows_equal_text_once(ask) -> None:
    notes = [
        document("a.md", "# A\n\nSync keeps vaults equal."),
        document("b.md", "# B\n\nSync keeps vaults equal."),
    ]
    on, off = (
        ask(notes, "sync vaults", off=name) for name in ("dedup_ngram dedup_semantic", DEDUP)
    )
    assert (paths(on), paths(off)) == (["a.md"], ["a.md", "b.md"])
    assert [(place.path, place.start_line) for place in on[0].passages[0].also_in] == [("b.md", 3)]


def test_deduplicate_shows_one_note_per_field_value(ask) -> None:
    notes = [
        document(f"{n}.md", f"# {n}\n\nSync {n} vaults.", properties={"id": (id_,)})
        for n, id_ in (("one", "7"), ("two", "7"), ("three", "8"))
    ]
    tables = {"method": "exact_field", "field": "properties.id"}
    on, off = (
        ask(notes, "sync vaults", off=DEDUP, on=stage, deduplicate=tables)
        for stage in ("deduplicate", "")
    )
    assert (sorted(paths(on)), sorted(paths(off))) == (
        ["one.md", "three.md"],
        ["one.md", "three.md", "two.md"],
    )


def test_dedup_ngram_shows_reflowed_text_once(ask) -> None:
    notes = [
        document("a.md", "# A\n\nSync keeps vaults equal on all devices."),
        document("b.md", "# B\n\nSync keeps vaults\nequal on *all* devices."),
    ]
    on, off = (ask(notes, "sync vaults", off=name) for name in ("dedup_semantic", DEDUP))
    assert (paths(on), paths(off)) == (["a.md"], ["a.md", "b.md"])


def test_dedup_semantic_shows_reordered_text_once(ask) -> None:
    notes = [
        document("a.md", "Copy all files to the backup disk tonight.", title="T"),
        document("b.md", "Tonight copy to the backup disk all files.", title="T"),
    ]
    on, off = (
        ask(notes, "backup disk", embedder=FakeEmbedder(), off=name)
        for name in ("dedup_ngram", "dedup_ngram dedup_semantic")
    )
    assert (len(paths(on)), sorted(paths(off))) == (1, ["a.md", "b.md"])


def test_diversify_raises_other_document(ask) -> None:
    long = "# Sync\n\n" + "\n\n".join(
        f"## Part {n}\n\nSync step {name}." for n, name in enumerate(("alpha", "beta", "gamma"))
    )
    notes = [
        document("a.md", long),
        document("b.md", "# Other\n\nHere a line mentions sync among many other words."),
    ]
    on, off = (
        ask(notes, "sync", off=name, diversify={"discount": 0.1}) for name in ("", "diversify")
    )
    assert (paths(on), paths(off)) == (
        ["a.md", "b.md", "a.md", "a.md"],
        ["a.md", "a.md", "a.md", "b.md"],
    )


def test_diversify_by_mmr_ranks_new_text_before_similar_one(ask) -> None:
    notes = [
        document("a.md", "sync files now"),
        document("b.md", "sync files now 2"),
        document("c.md", "trees and sync, planted in spring"),
    ]
    mmr = {"method": "mmr", "relevance": 0.4}
    tables = {"diversify": mmr, "confidence": {"minimum_relevance": 0.0}}
    on, off = (
        ask(notes, "sync files now", embedder=FakeEmbedder(), off=name, **tables)
        for name in ("", "diversify")
    )
    assert (paths(on), paths(off)) == (["a.md", "c.md", "b.md"], ["a.md", "b.md", "c.md"])


def test_rerank_ranks_fuller_answer_first(ask) -> None:
    notes = [
        document("a.md", "# Note\n\nVault.", aliases=("sync vault",)),
        document("b.md", "# Other\n\nThe app can sync every vault of yours, we think."),
    ]
    on, off = (
        ask(
            notes,
            "sync vault",
            reranker=FakeReranker(),
            off="match_names",
            on=stage,
            rerank={"weight": 0.9},
        )
        for stage in ("rerank", "")
    )
    assert (paths(on), paths(off)) == (["b.md", "a.md"], ["a.md", "b.md"])


def test_parents_shows_section_once(ask) -> None:
    notes = [document("a.md", "# Sync\n\nSync once.\n\nSync twice.\n\nOther words.")]
    on, off = (ask(notes, "sync", off=name) for name in ("", "parents"))
    assert (
        [(p.start_line, p.end_line, p.match_start_line) for p in on[0].passages],
        len(off[0].passages),
    ) == ([(1, 7, 3)], 3)


def test_search_vector_ranks_text_before_matching_title(
    ask,
) -> None:
    notes = [
        document("a.md", "# Cancel\n\nOrders, shipping, prices and much more besides."),
        document("b.md", "# B\n\nCancel."),
    ]
    on, off = (
        ask(notes, "cancel", embedder=FakeEmbedder(), off=f"match_names search_code {name}")
        for name in ("", "search_vector")
    )
    assert (paths(on), paths(off)) == (["b.md", "a.md"], ["a.md", "b.md"])


def test_search_keyword_ranks_title_before_mention(ask) -> None:
    notes = [
        document("a.md", "# Other\n\nThere is a backup somewhere, a backup."),
        document("b.md", "# Backup\n\nIt runs at night."),
    ]
    on, off = (
        ask(notes, "backup", off=f"match_names {name}")
        for name in ("search_code", "search_keyword")
    )
    assert (paths(on)[0], paths(off)[0]) == ("b.md", "a.md")


def test_search_code_finds_identifier_by_part(ask) -> None:
    notes = [
        document("a.md", "# A\n\nCall getUserById here."),
        document("b.md", "# B\n\nPlant trees."),
    ]
    on, off = (ask(notes, "user", off=name) for name in ("", "search_code"))
    assert (paths(on), paths(off)) == (["a.md"], [])


def test_search_graph_adds_linked_document(ask) -> None:
    notes = [
        document("a.md", "# A\n\nInvoices are sent monthly.", links=["b.md"]),
        document("b.md", "# B\n\nPlant trees."),
    ]
    tables = {"confidence": {"minimum_relevance": 0.0}}
    on, off = (ask(notes, "invoices", off=name, **tables) for name in ("", "search_graph"))
    assert (paths(on), paths(off)) == (["a.md", "b.md"], ["a.md"])


def test_aggregate_ranks_whole_page_before_single_line(ask) -> None:
    page = "# Trees\n\nOak needs water.\n\nOak needs light.\n\nOak needs time."
    notes = [
        document("line.md", "# Oak\n\nTrees grow.\n\nCars and roads.\n\nShips and harbors."),
        document("page.md", page),
    ]
    on, off = (
        ask(notes, "oak trees", embedder=FakeEmbedder(), off=f"search_keyword search_code {name}")
        for name in ("", "aggregate")
    )
    assert (paths(on)[0], paths(off)[0]) == ("page.md", "line.md")


def test_fuse_combines_retrievers(ask) -> None:
    notes = [
        document("a.md", "# A\n\nRed apples."),
        document("b.md", "# Red apples\n\nPears, plums and cherries grow on many farms."),
    ]
    tables = {"search_vector": {"weight": 0.0}}
    on, off = (
        ask(
            notes,
            "red apples",
            embedder=FakeEmbedder(),
            off=f"match_names search_code {name}",
            **tables,
        )
        for name in ("", "fuse")
    )
    assert (paths(on)[0], paths(off)[0], [step.stage for step in off[1]].count("fuse")) == (
        "b.md",
        "a.md",
        0,
    )
