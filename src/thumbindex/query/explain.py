"""Explain the rank of a passage, and why a note is not in the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thumbindex.model import (
    Candidate,
    ChunkId,
    Document,
    DocumentId,
    DroppedChunk,
    DroppedCopy,
    Edge,
    Explanation,
    Filters,
    Hit,
    MatchEvidence,
    NoteOutcome,
    Passage,
    RankedList,
    StageRank,
    TypedFilter,
    WhyReport,
    day_of,
)
from thumbindex.ports import Catalog, KeywordWeights, Vector
from thumbindex.query.expansion import corrected_query
from thumbindex.query.operators import select_chunks
from thumbindex.query.parents import chunk_place, chunk_places, is_inside, passage_place
from thumbindex.query.pipeline import RETRIEVERS
from thumbindex.query.rank import retriever_weights
from thumbindex.query.retrieve import field_weights, merge_identifiers, merge_terms, neighbors
from thumbindex.query.stage import Search, Tools
from thumbindex.text import plural

_History = Sequence[tuple[str, Search]]
"""The search after each stage, by its name, and before the first one ("")."""

_DIGITS = 4


def explain_passages(
    passages: Sequence[Passage], seen: _History, tools: Tools
) -> tuple[Passage, ...]:
    """Return the passages with explanations; none if the chunk no longer exists."""
    last, catalog = seen[-1][1], tools.snapshot.catalog
    groups = [_passage_candidates(each, last.candidates, catalog) for each in passages]
    terms = _term_fields(last, [[candidate.id for candidate in group] for group in groups], tools)
    results = []
    for passage, group, fields in zip(passages, groups, terms, strict=True):
        explanation = _explanation(passage, group, fields, seen, tools) if group else None
        results.append(replace(passage, explanation=explanation))
    return tuple(results)


def _passage_candidates(
    passage: Passage, candidates: Sequence[Candidate], catalog: Catalog
) -> list[Candidate]:
    """Return the candidates of a passage, the marked one first."""
    lines = passage_place(passage)
    marked = replace(lines, start_line=passage.match_start, end_line=passage.match_end)
    places = {candidate.id: chunk_place(candidate, catalog) for candidate in candidates}
    group = [
        candidate
        for candidate in candidates
        if is_inside(places[candidate.id], lines) or places[candidate.id] in passage.also_in
    ]
    return sorted(group, key=lambda each: places[each.id] != marked)


def _explanation(
    passage: Passage,
    group: Sequence[Candidate],
    terms: Mapping[str, tuple[str, ...]],
    seen: _History,
    tools: Tools,
) -> Explanation:
    lead, last = group[0], seen[-1][1]
    chunks = [n for candidate in group for n in (candidate.id, *candidate.also_in)]
    stages = _only_changes(_rank_changes({lead.id, *lead.also_in}, seen, tools))
    return Explanation(
        evidence=_match_evidence(chunks, last, tools),
        terms=terms,
        cosine=_best_cosine([lead.id], last.vector, tools),
        edges=_link_edges(lead.document, last, tools),
        rank_by_stage=tuple(stage for stage in stages if stage.stage not in RETRIEVERS),
        copies=tuple(
            DroppedCopy(gone.path, gone.line, gone.reason, stage)
            for stage, n, gone in _dropped_chunks(seen, tools)
            if n in chunks
        ),
        reranked=lead.reranked,
        name_kind=lead.name_kind,
    )


# ------------------------------------------------------------------ what the retrievers say


def _match_evidence(
    chunks: Sequence[ChunkId], search: Search, tools: Tools
) -> tuple[MatchEvidence, ...]:
    """Return the best hit of the chunks in each retriever's list."""
    weights = retriever_weights(search, tools.settings)
    hits = {name: _best_hit(chunks, found) for name, found in search.lists.items()}
    return tuple(
        MatchEvidence(
            retriever=name,
            rank=hit.rank,
            of=len(search.lists[name].hits),
            score=hit.score,
            line=_line(hit.chunk, tools),
            weight=weights.get(name, 0.0),
        )
        for name, hit in hits.items()
        if hit
    )


def _best_hit(chunks: Collection[ChunkId], found: RankedList) -> Hit | None:
    """Return the first hit of the chunks."""
    return next((hit for hit in found.hits if hit.chunk in chunks), None)


def _line(chunk: ChunkId, tools: Tools) -> int:
    """Return a chunk's first line; 1 if it no longer exists."""
    return next((each.start_line for each in tools.snapshot.catalog.chunks([chunk]).values()), 1)


def _best_cosine(chunks: Sequence[ChunkId], vector: Vector | None, tools: Tools) -> float | None:
    """Return the highest cosine of chunks with the query; None without vectors."""
    if vector is None or not chunks:
        return None
    cosines = tools.cosines(chunks, vector)
    return None if np.isnan(cosines).all() else round(float(np.nanmax(cosines)), _DIGITS)


def _term_fields(
    search: Search, groups: Sequence[Collection[ChunkId]], tools: Tools
) -> list[dict[str, tuple[str, ...]]]:
    """Return, for each group of chunks, the fields that hold each of the query's terms."""
    chunks = sorted({n for group in groups for n in group})
    within = tools.snapshot.catalog.only(chunks)
    boosts = field_weights(tools.settings.search_keyword).fields
    terms = merge_terms(
        search.terms, [other_phrasing.terms for other_phrasing in search.other_phrasings]
    )
    forms = [form for term in terms for form in (replace(term, forms=()), *term.forms)]
    asked = [(form, name) for form in forms for name in boosts]
    asked += [(replace(term, forms=()), "code") for term in merge_identifiers(search)]
    held: dict[str, dict[str, set[ChunkId]]] = {}
    for term, name in asked:
        found = tools.snapshot.keyword.search(
            [replace(term, weight=1.0)], KeywordWeights({name: 1.0}), len(chunks), within
        )
        held.setdefault(term.text, {})[name] = {hit.chunk for hit in found.hits}

    def fields_by_term(group: set[ChunkId]) -> dict[str, tuple[str, ...]]:
        return {
            text: tuple(name for name, ids in by_field.items() if ids & group)
            for text, by_field in held.items()
        }

    return [fields_by_term(set(group)) for group in groups]


def _link_edges(document: DocumentId, search: Search, tools: Tools) -> tuple[Edge, ...]:
    """Return the links that lead to a document from the seeds of search_graph."""
    settings, graph = tools.settings.search_graph, tools.snapshot.graph
    documents = tools.snapshot.catalog.documents
    return tuple(
        Edge(documents[seed].path, rank)
        for rank, seed in enumerate(search.seeds, 1)
        if document in neighbors(seed, graph, settings)
    )


# ------------------------------------------------------------------ what the stages did


def _rank_changes(wanted: Collection[ChunkId], seen: _History, tools: Tools) -> Iterator[StageRank]:
    """Yield the best rank of the chunks after each stage: in a retriever's list, among the
    candidates, or among all passages.
    """
    for name, search in seen:
        if name not in RETRIEVERS and not search.candidates and not search.dropped:
            continue
        ranked = _ranked(name, search, wanted)
        at = next((n for n, (chunk, _) in enumerate(ranked) if chunk in wanted), None)
        if at is None:
            yield StageRank(name, None, len(ranked))
        else:
            chunk, score = ranked[at]
            yield StageRank(name, at + 1, len(ranked), score, _line(chunk, tools))


def _ranked(
    name: str, search: Search, wanted: Collection[ChunkId]
) -> Sequence[tuple[ChunkId, float]]:
    """Return the chunks in a stage's order with their scores; a passage by its wanted chunk."""
    if name in RETRIEVERS:
        hits = search.lists.get(name, RankedList()).hits
        return [(hit.chunk, hit.score) for hit in hits]
    scores = {candidate.id: candidate.score for candidate in search.candidates}
    if name != "parents":
        return list(scores.items())
    return [
        (next((n for n in group if n in wanted), group[0]), scores[group[0]])
        for group in search.passage_chunks
    ]


def _only_changes(found: Iterable[StageRank]) -> tuple[StageRank, ...]:
    """Return the standpoints in the retrievers, and those after stages that changed rank or
    score.
    """
    kept: list[StageRank] = []
    for each in found:
        is_first = not kept or each.stage in RETRIEVERS or kept[-1].stage in RETRIEVERS
        if is_first or (each.rank, each.score) != (kept[-1].rank, kept[-1].score):
            kept.append(each)
    return tuple(kept)


def _passage_with(
    wanted: Collection[ChunkId], passages: Sequence[Passage], tools: Tools
) -> Passage | None:
    """Return the first passage with one of the chunks."""
    places = chunk_places(sorted(wanted), tools.snapshot.catalog)
    return next(
        (
            passage
            for passage in passages
            if any(is_inside(place, passage_place(passage)) for place in places)
        ),
        None,
    )


def _dropped_chunks(seen: _History, tools: Tools) -> Iterator[tuple[str, ChunkId, DroppedChunk]]:
    """Yield the candidates that a stage dropped, with the stage and its reason."""
    documents = tools.snapshot.catalog.documents
    for (_, before), (name, after) in pairwise(seen):
        left, said = (
            {each.id for each in after.candidates},
            list(after.dropped[len(before.dropped) :]),
        )
        for candidate in before.candidates:
            if candidate.id not in left:
                path, line = documents[candidate.document].path, candidate.chunk.start_line
                gone = next(
                    (one for one in said if (one.path, one.line) == (path, line)),
                    DroppedChunk(path, line, "taken out"),
                )
                said = [one for one in said if one is not gone]
                yield name, candidate.id, gone


# ------------------------------------------------------------------ what became of a note


_Outcome = tuple[NoteOutcome, str, str, int | None]
"""What became of it, the stage that did it, the reason in words, and the rank of the passage that
shows it.
"""


def outcome_of(
    document: Document,
    heading: str,
    wanted: Sequence[ChunkId],
    seen: _History,
    answer: Search,
    tools: Tools,
) -> WhyReport:
    """Return what each stage of a traced run did to a document's chunks."""
    last = seen[-1][1]
    outcome, stage, reason, rank = _outcome(document, set(wanted), seen, answer, tools)
    without_vector = 0
    if wanted:
        without_vector = int(np.isnan(tools.snapshot.vector.vectors(wanted)[:, 0]).sum())
    return WhyReport(
        last.query.text,
        corrected_query(last),
        document.folder,
        document.path,
        heading,
        outcome,
        stage,
        reason,
        rank,
        chunks=len(wanted),
        without_vector=without_vector,
        cosine=_best_cosine(wanted, last.vector, tools),
        stages=_only_changes(_rank_changes(set(wanted), seen, tools)),
        terms=_term_fields(last, [wanted], tools)[0],
        answerable=bool(answer.answerable and answer.passages),
        confidence=answer.confidence,
    )


def _outcome(
    document: Document, wanted: set[ChunkId], seen: _History, answer: Search, tools: Tools
) -> _Outcome:
    if not wanted:
        return "not_found", "", "it holds no text that could be found", None
    if not seen[0][1].keep_searchable(list(wanted)):
        return "filtered", "", _filter_reason(document, wanted, answer, tools), None
    verdict = _outcome_in_answer(wanted, seen, answer, tools) or _outcome_dropped(
        wanted, seen, tools
    )
    return verdict or ("not_found", "", _retriever_reason(wanted, seen, answer, tools), None)


# ------------------------------------------------------------------ not searched


def _filter_reason(
    document: Document, wanted: Collection[ChunkId], answer: Search, tools: Tools
) -> str:
    """Return the filter that excludes the chunks, or that they repeat others of their document."""
    filters, tags = answer.query.filters, f"its tags: {', '.join(document.tags) or 'none'}"
    day = f"it is of {day_of(document) or 'no known date'}"
    narrowed = [
        (
            tools.snapshot.catalog.select(replace(Filters(), **{name: value})),
            f"the filter `{name}` asks for {_join(value)}; {own}",
        )
        for name, own in (("path", document.path), ("tag", tags), ("since", day), ("until", day))
        if (value := getattr(filters, name))
    ]
    narrowed += [
        (select_chunks([one], tools.snapshot), _describe_condition(one, tags))
        for one in answer.typed_filters
    ]
    for within, reason in narrowed:
        if within is not None and not within.among(list(wanted)).any():
            return reason
    return "it only repeats other chunks of the document, which are found for it"


def _join(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _describe_condition(condition: TypedFilter, tags: str) -> str:
    own = f"; {tags}" if condition.field == "tag" else ""
    asks = "leaves out" if condition.excludes else "asks for"
    return f"the query {asks} {condition.field} {condition.value!r}{own}"


# ------------------------------------------------------------------ in the answer


def _outcome_in_answer(
    wanted: Collection[ChunkId], seen: _History, answer: Search, tools: Tools
) -> _Outcome | None:
    if shown := _passage_with(wanted, answer.passages, tools):
        candidates = seen[-1][1].candidates
        kinds = (
            candidate.name_kind
            for candidate in candidates
            if candidate.name_kind and candidate.id in wanted
        )
        named = next((f"; the query is its {kind}" for kind in kinds), "")
        reason = f"passage {shown.rank} of {len(answer.passages)}, {shown.citation}{named}"
        return "shown", "", reason, shown.rank
    places = chunk_places(sorted(wanted), tools.snapshot.catalog)
    for passage in answer.passages:
        if any(place in passage.also_in for place in places):
            gone = [
                (stage, said.reason)
                for stage, n, said in _dropped_chunks(seen, tools)
                if n in wanted
            ]
            stage, how = gone[-1] if gone else ("parents", "what it says stands there too")
            reason = f"passage {passage.rank}, {passage.citation} ({stage}: {how})"
            return "copy", stage, reason, passage.rank
    return None


# ------------------------------------------------------------------ found and taken out


def _outcome_dropped(wanted: AbstractSet[ChunkId], seen: _History, tools: Tools) -> _Outcome | None:
    """Return the last stage that dropped one of the chunks; None if none was found."""
    for (_, before), (name, after) in reversed(list(pairwise(seen))):
        held = [candidate.id for candidate in before.candidates if candidate.id in wanted]
        if name == "parents" and held:
            return "dropped", name, _limit_reason(wanted, after), None
        if held and not any(candidate.id in wanted for candidate in after.candidates):
            said = {
                n: gone.reason for stage, n, gone in _dropped_chunks(seen, tools) if stage == name
            }
            return "dropped", name, said.get(held[0], "taken out"), None
        if name == "fuse" and any(_best_hit(wanted, found) for found in before.lists.values()):
            return "dropped", name, _fusion_reason(wanted, after, tools), None
    return None


def _limit_reason(wanted: AbstractSet[ChunkId], after: Search) -> str:
    """Return the rank that it has behind the limit."""
    limit = after.query.limit
    ranks = (n for n, each in enumerate(after.passage_chunks, 1) if not wanted.isdisjoint(each))
    rank = next(ranks, None)
    if rank is None or rank <= limit:
        return "what it says comes with another passage"
    asked = f"{limit} {'was' if limit == 1 else 'were'} asked for"
    return f"it ranks {rank} of {len(after.passage_chunks)}, and {asked}: a higher limit shows it"


def _fusion_reason(wanted: Collection[ChunkId], after: Search, tools: Tools) -> str:
    """Return the rank that it has in fusion."""
    if not tools.settings.runs("fuse"):
        return "fusion is switched off, and it is not in the one list that is taken"
    rank = next((n for n, chunk in enumerate(after.fused, 1) if chunk in wanted), None)
    if rank is None:
        return (
            f"its note has {tools.settings.fuse.chunks} better chunks, and no more than that of "
            "one note go on"
        )
    return (
        f"its best chunk ranks {rank} of {len(after.fused)} that were found, and only the first "
        f"{len(after.candidates)} go on"
    )


# ------------------------------------------------------------------ not found

_RETRIEVER_NAMES = {
    "search_vector": "search by meaning (search_vector)",
    "search_keyword": "search by words (search_keyword)",
    "search_code": "search for words as they are written (search_code)",
    "search_graph": "search over links (search_graph)",
}


def _retriever_reason(
    wanted: Collection[ChunkId], seen: _History, answer: Search, tools: Tools
) -> str:
    """Return what each retriever returned, and the rank of the note if it has one."""
    if answer.listed:
        matches = plural(answer.listed, "note")
        return f"the query is filters alone, and {matches} match: a higher limit shows more"
    document = tools.snapshot.catalog.document_of(next(iter(wanted)))
    said = []
    for name, search in seen:
        if name in RETRIEVERS:
            found = search.lists.get(name, RankedList())
            taken = plural(len(found.hits), "chunk")
            if name == "search_vector" and search.vector is None:
                said.append(
                    f"{_RETRIEVER_NAMES[name]} was not asked, for want of a model or of vectors"
                )
            elif not found.hits:
                said.append(f"{_RETRIEVER_NAMES[name]} found nothing")
            elif document in found.documents:
                scores, own = found.documents.values(), found.documents[document]
                rank = 1 + sum(score > own for score in scores)
                said.append(
                    f"{_RETRIEVER_NAMES[name]} ranks its note {rank} of {len(scores)}, "
                    f"and takes the best {taken} of all"
                )
            else:
                said.append(f"{_RETRIEVER_NAMES[name]} takes the best {taken}, and none of its own")
    return "; ".join(said) or "no retriever is switched on"
