"""The stage search_graph follows links to a limited number of neighbors."""

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.model import DocumentId, Hit, RankedList
from thumbindex.query.retrieve import link_scores, top_documents
from thumbindex.settings import SearchGraphSettings

HUB = [
    document("hub.md", "# Hub\n\nStart.", links=[f"{n}.md" for n in range(9)]),
    *(document(f"{n}.md", f"# {n}\n\nText.") for n in range(9)),
]


def test_top_documents_sums_reciprocal_ranks():
    lists = {
        "search_vector": RankedList((Hit(0, 0, 1, 0.9), Hit(1, 1, 2, 0.8))),
        "search_keyword": RankedList((Hit(1, 1, 1, 9.0), Hit(2, 2, 2, 8.0))),
    }
    assert top_documents(lists, 2) == (1, 0)


def test_neighbors_are_limited_and_ordered():
    graph = memory_snapshot(HUB).graph
    hub = next(DocumentId(n) for n in range(10) if len(graph.outgoing(DocumentId(n))) > 1)
    assert list(link_scores([hub], graph, SearchGraphSettings(neighbors=3))) == [0, 1, 2]


def test_neighbor_without_vectors_is_represented_by_its_best_keyword_hit(ask):
    notes = [
        document("a.md", "# A\n\nOak trees.", links=["b.md"]),
        document("b.md", "# B\n\nRoads and cars.\n\nAn oak forest."),
    ]
    search, _ = ask(
        memory_snapshot(notes, FakeEmbedder(), pending=["b.md"]),
        "oak",
        embedder=FakeEmbedder(),
        off="fuse confidence",
    )
    assert [hit.chunk for hit in search.lists["search_graph"].hits] == [2]
