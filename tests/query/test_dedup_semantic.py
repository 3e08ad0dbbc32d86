from dataclasses import replace

import numpy as np

from fakes import FakeEmbedder, MemoryVectorIndex, document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.copies import dedup_semantic
from thumbindex.query.stage import Search, Tools

SAME_WORDS = (
    "Copy all files to the backup disk tonight.",
    "Tonight copy to the backup disk all files.",
)


def surviving_ids(candidates, *documents, matrix=None) -> list[int]:
    snapshot = memory_snapshot(documents, FakeEmbedder())
    if matrix is not None:
        snapshot = replace(
            snapshot, vector=MemoryVectorIndex(snapshot.catalog, np.array(matrix, dtype=np.float32))
        )
    return [
        candidate.id
        for candidate in dedup_semantic(
            Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
        ).candidates
    ]


def test_threshold_is_higher_across_documents(candidates) -> None:
    rows = [[1, 0], [0.88, np.sqrt(1 - 0.88**2)]]
    inside, across = (
        document("a.md", "\n\n".join(SAME_WORDS)),
        [document(f"{n}.md", text) for n, text in enumerate(SAME_WORDS)],
    )
    assert (
        surviving_ids(candidates, inside, matrix=rows),
        surviving_ids(candidates, *across, matrix=rows),
    ) == (
        [0],
        [0, 1],
    )


def test_equal_vectors_with_different_words_are_not_merged(candidates) -> None:
    assert surviving_ids(
        candidates,
        document("a.md", "apples and pears grow here\n\nbridges and roads stay there"),
        matrix=[[1, 0], [1, 0]],
    ) == [0, 1]


def test_negation_is_not_merged(candidates) -> None:
    assert surviving_ids(
        candidates,
        document("a.md", "the app does support cloud sync\n\nthe app does not support cloud sync"),
        matrix=[[1, 0], [1, 0]],
    ) == [0, 1]


def test_chunk_without_vector_is_not_merged(candidates) -> None:
    assert surviving_ids(
        candidates, document("a.md", "\n\n".join(SAME_WORDS)), matrix=[[1, 0], [np.nan, np.nan]]
    ) == [0, 1]


def test_dedup_semantic_calls_no_model(candidates) -> None:
    embedder = FakeEmbedder()
    snapshot = memory_snapshot([document("a.md", "\n\n".join(SAME_WORDS))], embedder)
    before = embedder.embedded
    dedup_semantic(
        Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot, embedder=embedder)
    )
    assert embedder.embedded == before
