"""The adapter to networkx: which document links to which."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thumbindex.model import DocumentId


class NetworkxLinkGraph:
    """LinkGraph over one snapshot's documents; the last snapshot's graph is kept if no link has
    changed since.

    `links` are the paths that each document's links lead to, as JSON by the document's path. Nodes
    are paths: positions change with every document that comes or goes. A link may name a document
    that is not there: between two batches of a run, say.
    """

    def __init__(
        self, paths: Sequence[str], links: Mapping[str, str], last: NetworkxLinkGraph | None = None
    ) -> None:
        self._paths, self._links = paths, links
        self._at = {path: DocumentId(n) for n, path in enumerate(paths)}
        if last is not None and last._links == links:
            self._graph: Any = last._graph
        else:
            self._graph = _graph(links)

    def outgoing(self, document: DocumentId) -> tuple[DocumentId, ...]:
        path = self._paths[document]
        return self._positions(self._graph.successors(path)) if path in self._graph else ()

    def incoming(self, document: DocumentId) -> tuple[DocumentId, ...]:
        path = self._paths[document]
        return self._positions(self._graph.predecessors(path)) if path in self._graph else ()

    def _positions(self, paths: Iterable[str]) -> tuple[DocumentId, ...]:
        return tuple(sorted(self._at[path] for path in paths if path in self._at))


def _graph(links: Mapping[str, str]) -> Any:
    """Return the graph of some links; where there are none, a set that holds no path, as such a
    graph would.
    """
    edges = [
        (path, target)
        for path, targets in links.items()
        for target in json.loads(targets)
        if target != path
    ]
    if not edges:
        return frozenset()
    # Imported here: of notes without links nobody has to wait for 300 modules, or to hold their 14
    # MB; nor has a process that only indexes.
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_edges_from(edges)
    return graph
