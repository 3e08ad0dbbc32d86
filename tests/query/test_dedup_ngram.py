import json

import pytest

from evaluation.corpora import SHARED, needs_corpora
from fakes import document, memory_snapshot
from thumbindex.compare.differences import text_difference
from thumbindex.compare.trigrams import trigram_similarities, trigram_similarity
from thumbindex.model import Query
from thumbindex.query.copies import dedup_ngram
from thumbindex.query.stage import Search, Tools

PAIRS = SHARED / "dups" / "dev" / "pairs.jsonl"


def surviving_ids(candidates, *texts: str) -> list[int]:
    snapshot = memory_snapshot([document("a.md", "\n\n".join(texts))])
    return [
        candidate.id
        for candidate in dedup_ngram(
            Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
        ).candidates
    ]


def test_trigram_similarity_is_jaccard() -> None:
    texts = ("abcd", "abce", "")
    assert [[trigram_similarity(a, b) for b in texts] for a in texts] == [
        [1, pytest.approx(1 / 3), 0],
        [pytest.approx(1 / 3), 1, 0],
        [0, 0, 0],
    ]


def test_trigram_similarity_ignores_markup() -> None:
    linked = (
        "- *Copy* [all files](https://example.org/a/long/way) to the\n"
        "  [[disk|backup disk]] tonight"
    )
    texts = ("Copy all files to the backup disk tonight.", linked, "Trees grow.")
    similarities = trigram_similarities(texts)
    assert similarities[0].tolist() == [0, *(trigram_similarity(texts[0], t) for t in texts[1:])]
    assert similarities[0, 1] > 0.8


def test_dedup_ngram_keeps_texts_with_different_numbers(candidates) -> None:
    text = (
        "Every night the server copies all files to the second disk and keeps them for {} days "
        "before they go."
    )
    assert surviving_ids(candidates, text.format(30), text.format(90)) == [0, 1]


@needs_corpora
def test_labeled_pairs_are_merged_as_labeled() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    merged = {
        row["id"]: trigram_similarity(row["a"], row["b"]) >= 0.7
        and text_difference(row["a"], row["b"]) is None
        for row in rows
    }
    wrong = [
        row["id"]
        for row in rows
        if row["label"] != "near-duplicate" and merged[row["id"]] != (row["label"] == "duplicate")
    ]
    assert wrong == []
