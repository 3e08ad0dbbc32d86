"""The door to networkx: which document links to which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx

from thumbindex.model import DocumentId


class NetworkxLinkGraph:
    """LinkGraph over one snapshot's documents."""

    def __init__(self, documents: int, edges: Iterable[tuple[DocumentId, DocumentId]]) -> None:
        self._graph: Any = nx.DiGraph()
        self._graph.add_nodes_from(range(documents))
        self._graph.add_edges_from((a, b) for a, b in edges if a != b)

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to."""
        return tuple(sorted(self._graph.successors(document)))

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one."""
        return tuple(sorted(self._graph.predecessors(document)))
