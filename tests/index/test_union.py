"""Several folders are asked as one, whatever state each of them is in."""

import numpy as np

from thumbindex.index.union import unite
from thumbindex.model import Abbreviation, ChunkId, DocumentId, Term
from thumbindex.ports import KeywordWeights
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

BODY = KeywordWeights({"body": 1.0})


def two(second_embedder=None):
    embedder = FakeEmbedder()
    first = memory_snapshot([document("a.md", "# A\n\nApples.", links=["b.md"]), document("b.md", "# B\n\nPears.")], embedder)
    second = memory_snapshot([document("c.md", "# C\n\nApples and more apples.")], second_embedder)
    return embedder, unite([first, second])


def test_one_folder_is_its_own_union():
    alone = memory_snapshot([document("a.md", "text")])
    assert unite([alone]) is alone


def test_hits_of_all_folders_are_ranked_together():
    _, united = two()
    hits = united.keyword.search([Term("apples")], BODY, 10).hits
    assert (sorted(hit.chunk for hit in hits), [hit.rank for hit in hits]) == ([0, 2], [1, 2])
    assert [united.catalog.documents[hit.document].path for hit in sorted(hits, key=lambda h: h.chunk)] == ["a.md", "c.md"]


def test_the_chunks_that_hold_a_word_are_those_of_all_folders():
    _, united = two()
    assert [united.keyword.holding(word, ("body",)).tolist() for word in ("apples", "pears")] == [[True, False, True], [False, True, False]]


def test_what_one_folder_defines_counts_in_all_of_them():
    parts = [[("sso", "single sign on")], [("sso", "single sign on"), ("k8s", "kubernetes")]]
    notes = [document(f"{n}.md", "text in spring", abbreviations=tuple(Abbreviation(*each) for each in part)) for n, part in enumerate(parts)]
    united = unite([memory_snapshot([note]) for note in notes])
    assert (united.catalog.abbreviations, united.keyword.adjacent("in spring")) == ({("sso", "single sign on"): 2, ("k8s", "kubernetes"): 1}, 2)


def test_a_folder_without_vectors_beside_one_with_them_gives_missing_rows():
    embedder, united = two()
    rows = united.vector.vectors([ChunkId(2), ChunkId(0)])
    assert (rows.shape, np.isnan(rows).all(axis=1).tolist()) == ((2, embedder.dimensions), [True, False])
    assert united.vector.vectors([ChunkId(2)]).shape == (1, embedder.dimensions)


def test_vectors_of_both_folders_are_searched():
    _, united = two(FakeEmbedder())
    hits = united.vector.search(FakeEmbedder().embed_query("apples"), 10)
    assert (len(united.vector), {hit.chunk for hit in hits}) == (3, {0, 1, 2})


def test_links_stay_in_their_folder():
    _, united = two()
    assert (united.graph.linked(DocumentId(0)), united.graph.linking(DocumentId(1)), united.graph.linked(DocumentId(2))) == ((1,), (0,), ())
