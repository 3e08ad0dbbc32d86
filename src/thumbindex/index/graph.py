"""The adapter to networkx: links between documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thumbindex.model import DocumentId


class NetworkxLinkGraph:
    """Link graph over a snapshot's documents. Reuses the graph of `last` if no link has changed.

    `links` maps each document's path to the target paths of the document's links, as JSON. Nodes
    are paths, because document ids differ between snapshots.
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
        # between two batches of a run, the target of a link may not be in `paths` yet
        return tuple(sorted(self._at[path] for path in paths if path in self._at))


def _graph(links: Mapping[str, str]) -> Any:
    edges = [
        (path, target)
        for path, targets in links.items()
        for target in json.loads(targets)
        if target != path
    ]
    if not edges:
        return frozenset()  # works like an empty graph: it contains no path
    # imported here: it loads 300 modules, which notes without links do not need
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_edges_from(edges)
    return graph
