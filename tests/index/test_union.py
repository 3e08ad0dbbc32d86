"""A union of folders is searched like one folder."""

import numpy as np
import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.index.union import unite
from thumbindex.model import ChunkId, DocumentId, Term, TypedFilter
from thumbindex.ports import KeywordWeights

BODY = KeywordWeights({"body": 1.0})
SECOND = ChunkId(2)
"""The first chunk of the second folder."""


def two(second_embedder=None):
    embedder = FakeEmbedder()
    first = memory_snapshot(
        [document("a.md", "# A\n\nApples.", links=["b.md"]), document("b.md", "# B\n\nPears.")],
        embedder,
    )
    second = memory_snapshot([document("c.md", "# C\n\nApples and more apples.")], second_embedder)
    return embedder, unite([first, second])


def test_one_folder_is_its_own_union():
    snapshot = memory_snapshot([document("a.md", "text")])
    assert unite([snapshot]) is snapshot


@pytest.mark.parametrize(
    "fields",
    [{"body": 1.0}, {"title": 2.0, "body": 1.0}, {"code": 1.0}],
    ids=["text", "title and text", "as written"],
)
def test_union_scores_equal_those_of_one_merged_folder(fields):
    texts = [
        "apple pie",
        "apple and pear",
        "a pear tree",
        "plum",
        "an apple tree",
        "pears and pear trees",
    ]
    notes = [document(f"{n}.md", f"# Note {n}\n\n{text}.") for n, text in enumerate(texts)]
    terms = [
        Term("apple"),
        Term("pear", 2.0),
        Term("tree", forms=(Term("plum", 0.5),)),
        Term("nowhere"),
    ]
    weights = KeywordWeights(fields, b=0.0, coverage=0.5)  # length statistics differ by folder
    results = [
        snapshot.keyword.search(terms, weights, 10).hits
        for snapshot in (
            memory_snapshot(notes),
            unite([memory_snapshot(notes[:1]), memory_snapshot(notes[1:])]),
        )
    ]
    scores = [
        sorted(((round(hit.score, 5), round(hit.coverage, 5)) for hit in hits), reverse=True)
        for hits in results
    ]
    assert scores[0] == scores[1]
    assert len(scores[0]) == len(
        [
            text
            for text in texts
            if fields != {"code": 1.0} or {"apple", "pear", "tree", "plum"} & set(text.split())
        ]
    )


def test_rare_word_in_a_small_folder_ranks_first():
    small = memory_snapshot([document("small.md", "# Small\n\nzebra decided.")])
    large = memory_snapshot(
        [
            document(f"{n}.md", f"# Note {n}\n\n{'decided' if n % 10 == 0 else 'nothing'} here.")
            for n in range(40)
        ]
    )
    hits = unite([small, large]).keyword.search([Term("zebra"), Term("decided")], BODY, 3).hits
    assert [hit.chunk for hit in hits][:1] == [0]


def test_folder_without_vectors_returns_nan_rows():
    embedder, united = two()
    rows = united.vector.vectors([SECOND, ChunkId(0)])
    assert (rows.shape, np.isnan(rows).all(axis=1).tolist()) == (
        (2, embedder.dimensions),
        [True, False],
    )
    assert united.vector.vectors([SECOND]).shape == (1, embedder.dimensions)


def test_vectors_of_both_folders_are_searched():
    _, united = two(FakeEmbedder())
    hits = united.vector.search(FakeEmbedder().embed_query("apples"), 10)
    assert (len(united.vector), {hit.chunk for hit in hits}) == (3, {0, 1, SECOND})


def test_links_stay_within_their_folder():
    _, united = two()
    assert (
        united.graph.outgoing(DocumentId(0)),
        united.graph.incoming(DocumentId(1)),
        united.graph.outgoing(DocumentId(2)),
    ) == ((1,), (0,), ())


def test_ids_of_folders_are_concatenated():
    _, united = two()
    catalog = united.catalog
    matching = catalog.chunks_matching(TypedFilter("file", "c")) | catalog.chunks_matching(
        TypedFilter("file", "a")
    )
    assert (catalog.every_nth(1, None), matching.first(9)) == ([0, 1, SECOND], [0, SECOND])
    assert [catalog.documents[catalog.document_of(n)].path for n in (0, 1, SECOND)] == [
        "a.md",
        "b.md",
        "c.md",
    ]
    assert [chunk.text for chunk in catalog.chunks([SECOND]).values()] == [
        "Apples and more apples."
    ]
