"""How a passage came to its place: what the retrievers, the stages, the links and the copies had to do with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thumbindex.model import Candidate, ChunkId, DocumentId, Dropped, Edge, Effect, Evidence, Explanation, Hit, Passage, Place, RankedList, TermFields
from thumbindex.ports import Catalog, KeywordWeights
from thumbindex.query.fuse import retriever_weights
from thumbindex.query.parents import is_inside
from thumbindex.query.search_graph import first_documents, neighbors
from thumbindex.query.search_keyword import field_weights
from thumbindex.query.stage import Search, Tools

Seen = Sequence[tuple[str, Search]]
"""The search as each stage left it, by the stage's name, and before the first one ("")."""

_DIGITS = 4


def explained(passages: Sequence[Passage], seen: Seen, tools: Tools) -> tuple[Passage, ...]:
    """Return an answer's passages with their explanations; a passage of which the chunk is gone meanwhile has none."""
    last, catalog = seen[-1][1], tools.snapshot.catalog
    families = [family_of(each, last.candidates, catalog) for each in passages]
    terms = term_fields(last, [[child.id for child in family] for family in families], tools)
    return tuple(
        replace(passage, explanation=_explanation(passage, family, known, seen, tools) if family else None)
        for passage, family, known in zip(passages, families, terms, strict=True)
    )


def family_of(passage: Passage, candidates: Sequence[Candidate], catalog: Catalog) -> list[Candidate]:
    """Return the candidates that come in a passage, the one that is marked in it first."""
    lines = Place(passage.folder, passage.path, passage.start_line, passage.end_line)
    marked = replace(lines, start_line=passage.match_start, end_line=passage.match_end)
    places = {each.id: _place(each, catalog) for each in candidates}
    family = [each for each in candidates if is_inside(places[each.id], lines) or places[each.id] in passage.also_in]
    return sorted(family, key=lambda each: places[each.id] != marked)


def _place(candidate: Candidate, catalog: Catalog) -> Place:
    document = catalog.documents[candidate.document]
    return Place(document.folder, document.path, candidate.chunk.start_line, candidate.chunk.end_line)


def _explanation(passage: Passage, family: Sequence[Candidate], terms: tuple[TermFields, ...], seen: Seen, tools: Tools) -> Explanation:
    lead, last = family[0], seen[-1][1]
    standing = [n for child in family for n in (child.id, *child.also_in)]
    return Explanation(
        evidence=evidence(standing, last, tools),
        terms=terms,
        cosine=best_cosine([lead.id], last, tools),
        edges=edges(lead.document, seen, tools),
        effects=effects((lead.id, *lead.also_in), passage, seen),
        copies=tuple((stage, gone) for stage, n, gone in dropped_since(seen, tools) if n in set(standing)),
        reranked=lead.reranked,
    )


# ------------------------------------------------------------------ what the retrievers say


def evidence(chunks: Collection[ChunkId], search: Search, tools: Tools) -> tuple[Evidence, ...]:
    """Return what each retriever that found one of the chunks says of the best of them."""
    wanted, weights = set(chunks), retriever_weights(search, tools.settings)
    best = {name: hit for name, found in search.lists.items() if (hit := best_hit(wanted, found))}
    texts = tools.snapshot.catalog.chunks(list({hit.chunk for hit in best.values()}))
    return tuple(
        Evidence(
            retriever=name,
            rank=hit.rank,
            found=len(search.lists[name].hits),
            score=hit.score,
            line=texts[hit.chunk].start_line if hit.chunk in texts else 1,
            weight=weights.get(name, 0.0),
            document_rank=document_rank(hit.document, search.lists[name]),
            document_score=search.lists[name].documents.get(hit.document),
            coverage=hit.coverage,
        )
        for name, hit in best.items()
    )


def document_rank(document: DocumentId, found: RankedList) -> int | None:
    """Return a document's rank among those that a retriever scored, from 1; None where it did not score this one."""
    own = found.documents.get(document)
    return None if own is None else 1 + sum(score > own for score in found.documents.values())


def best_cosine(chunks: Sequence[ChunkId], search: Search, tools: Tools) -> float | None:
    """Return the highest cosine of chunks with the query; None where a vector is missing on either side."""
    if search.vector is None or not chunks:
        return None
    cosines = tools.snapshot.vector.vectors(chunks) @ search.vector
    return None if np.isnan(cosines).all() else round(float(np.nanmax(cosines)), _DIGITS)


def term_fields(search: Search, groups: Sequence[Collection[ChunkId]], tools: Tools) -> list[tuple[TermFields, ...]]:
    """Say for each group of chunks in which fields each of the query's terms stands; the word index is asked for one at a time."""
    mask = np.zeros(len(tools.snapshot.catalog), dtype=np.bool_)
    mask[[n for group in groups for n in group]] = True
    boosts = field_weights(tools.settings.search_keyword).fields
    asked = [(each, name) for term in search.terms for each in (replace(term, others=()), *term.others) for name in boosts]
    asked += [(replace(term, others=()), "code") for term in search.identifiers]
    held: dict[str, dict[str, set[ChunkId]]] = {}
    for term, name in asked:
        found = tools.snapshot.keyword.search([replace(term, weight=1.0)], KeywordWeights({name: 1.0}), int(mask.sum()), mask)
        held.setdefault(term.text, {})[name] = {hit.chunk for hit in found.hits}
    return [tuple(TermFields(text, tuple(name for name, ids in by.items() if ids & set(group))) for text, by in held.items()) for group in groups]


def edges(document: DocumentId, seen: Seen, tools: Tools) -> tuple[Edge, ...]:
    """Return the links over which a document was reached from those that had been found first."""
    before = next((search for (_, search), (name, _) in pairwise(seen) if name == "search_graph"), None)
    if before is None:
        return ()
    settings, graph, documents = tools.settings.search_graph, tools.snapshot.graph, tools.snapshot.catalog.documents
    seeds = enumerate(first_documents(before.lists, settings.from_documents), 1)
    return tuple(
        Edge(documents[seed].path, rank, settings.direction == "in" or document not in graph.linked(seed))
        for rank, seed in seeds
        if document in neighbors(seed, graph, settings)
    )


# ------------------------------------------------------------------ what the stages did


def effects(standing: Sequence[ChunkId], passage: Passage, seen: Seen) -> tuple[Effect, ...]:
    """Return where each stage that changed it left the first of some chunks, or what stood for it before: since fusion."""
    found: list[Effect] = []
    for name, search in seen:
        at = position(standing, search.candidates)
        if at is not None and (not found or (found[-1].rank, found[-1].score) != (at + 1, search.candidates[at].score)):
            found.append(Effect(name, at + 1, len(search.candidates), search.candidates[at].score))
    if found and found[-1].rank != passage.rank:
        found.append(Effect("parents", passage.rank, len(seen[-1][1].passages), passage.score))
    return tuple(found)


def position(standing: Sequence[ChunkId], candidates: Sequence[Candidate]) -> int | None:
    """Return where the first of some chunks stands among candidates, else the best placed of the others; None where there is none."""
    at = {each.id: n for n, each in enumerate(candidates) if each.id in set(standing)}
    return at.get(standing[0], min(at.values(), default=None))


def dropped_since(seen: Seen, tools: Tools) -> Iterator[tuple[str, ChunkId, Dropped]]:
    """Yield each candidate that a stage took out, with the stage and its words."""
    documents = tools.snapshot.catalog.documents
    for (_, before), (name, after) in pairwise(seen):
        left, said = {each.id for each in after.candidates}, list(after.dropped[len(before.dropped) :])
        for each in before.candidates:
            if each.id not in left:
                path, line = documents[each.document].path, each.chunk.start_line
                gone = next((one for one in said if (one.path, one.line) == (path, line)), Dropped(path, line, "taken out"))
                said = [one for one in said if one is not gone]
                yield name, each.id, gone


def best_hit(chunks: Collection[ChunkId], found: RankedList) -> Hit | None:
    """Return the first hit on one of some chunks."""
    return next((hit for hit in found.hits if hit.chunk in chunks), None)
