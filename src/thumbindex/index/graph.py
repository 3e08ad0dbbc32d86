"""The door to networkx: which document links to which."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thumbindex.model import DocumentId

MOST_CHANGED = 0.1
"""Share of the documents with links whose links may have changed before the graph is made anew:
until then an edit costs what it changes.
"""


class NetworkxLinkGraph:
    """LinkGraph over one snapshot's documents: those that are as they were in a graph of an earlier
    snapshot, the others in one of their own.

    `links` are the paths that each document's links lead to, as JSON by the document's path. Nodes
    are paths: positions change with every document that comes or goes. A link may name a document
    that is not there: between two batches of a run, say.
    """

    def __init__(
        self, paths: Sequence[str], links: Mapping[str, str], last: NetworkxLinkGraph | None = None
    ) -> None:
        self._paths = paths
        self._at = {path: DocumentId(n) for n, path in enumerate(paths)}
        self._kept_links: Mapping[str, str] = links if last is None else last._kept_links
        self._changed = frozenset(
            path for path, _ in set(self._kept_links.items()) ^ set(links.items())
        )
        if last is None or len(self._changed) > MOST_CHANGED * len(links):
            self._kept_links, self._changed, self._kept = links, frozenset(), _graph(links.items())
        else:
            self._kept = last._kept
        self._newer = _graph((path, links[path]) for path in self._changed if path in links)

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        path = self._paths[document]
        graph = self._newer if path in self._changed else self._kept
        return self._positions(graph.successors(path)) if path in graph else ()

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        path = self._paths[document]
        kept = (
            other
            for other in (self._kept.predecessors(path) if path in self._kept else ())
            if other not in self._changed
        )
        return self._positions(
            (*kept, *(self._newer.predecessors(path) if path in self._newer else ()))
        )

    def _positions(self, paths: Iterable[str]) -> tuple[DocumentId, ...]:
        return tuple(sorted(self._at[path] for path in paths if path in self._at))


def _graph(links: Iterable[tuple[str, str]]) -> Any:
    """Return the graph of some links; where there are none, a set that holds no path, as such a
    graph would.
    """
    edges = [
        (path, target)
        for path, targets in links
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
