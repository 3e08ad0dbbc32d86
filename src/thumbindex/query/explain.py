"""Explain the rank of a passage, and why a note is or is not in an answer."""

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
    WhyReport,
)
from thumbindex.ports import Catalog, KeywordWeights, Vector
from thumbindex.query.expansion import corrected_query
from thumbindex.query.operators import select_chunks
from thumbindex.query.parents import chunk_place, chunk_places
from thumbindex.query.pipeline import RETRIEVERS
from thumbindex.query.rank import retriever_weights
from thumbindex.query.retrieve import field_weights, merge_identifiers, merge_terms, neighbors
from thumbindex.query.stage import Search, Tools
from thumbindex.text import plural

_History = Sequence[tuple[str, Search]]
"""Pairs of a stage's name and the search after that stage.

The first pair is "" and the search before all stages.
"""

_DIGITS = 4
"""Decimal places of a reported cosine."""


def explain_passages(
    passages: Sequence[Passage], history: _History, tools: Tools
) -> tuple[Passage, ...]:
    """Add explanations to passages. A passage whose chunk no longer exists gets none."""
    last, catalog = history[-1][1], tools.snapshot.catalog
    groups = [_passage_candidates(passage, last.candidates, catalog) for passage in passages]
    terms = _term_fields(last, [[candidate.id for candidate in group] for group in groups], tools)
    results = []
    for passage, group, fields in zip(passages, groups, terms, strict=True):
        explanation = _explanation(passage, group, fields, history, tools) if group else None
        results.append(replace(passage, explanation=explanation))
    return tuple(results)


def _passage_candidates(
    passage: Passage, candidates: Sequence[Candidate], catalog: Catalog
) -> list[Candidate]:
    """Return the candidates of a passage, the matched chunk first."""
    lines = passage.place
    matched = replace(lines, start_line=passage.match_start_line, end_line=passage.match_end_line)
    places = {candidate.id: chunk_place(candidate, catalog) for candidate in candidates}
    group = [each for each in candidates if lines.contains(places[each.id])]
    return sorted(group, key=lambda each: places[each.id] != matched)


def _explanation(
    passage: Passage,
    group: Sequence[Candidate],
    terms: Mapping[str, tuple[str, ...]],
    history: _History,
    tools: Tools,
) -> Explanation:
    lead, last = group[0], history[-1][1]
    chunks = [n for candidate in group for n in (candidate.id, *candidate.also_in)]
    stages = _only_changes(_rank_changes({lead.id, *lead.also_in}, history, tools))
    return Explanation(
        evidence=_match_evidence(chunks, last, tools),
        terms=terms,
        cosine=_best_cosine([lead.id], last.vector, tools),
        edges=_link_edges(lead.document, last, tools),
        rank_by_stage=tuple(stage for stage in stages if stage.stage not in RETRIEVERS),
        copies=tuple(
            DroppedCopy(dropped.path, dropped.line, dropped.reason, stage)
            for stage, n, dropped in _dropped_chunks(history, tools)
            if n in chunks
        ),
        reranked=lead.reranked,
        name_kind=lead.name_kind,
    )


# ------------------------------------------------------------------ evidence from the retrievers


def _match_evidence(
    chunks: Sequence[ChunkId], search: Search, tools: Tools
) -> tuple[MatchEvidence, ...]:
    """For each list that contains any of the chunks, return the rank and score of the best."""
    weights = retriever_weights(search, tools.settings)
    hits = {name: _best_hit(chunks, ranked) for name, ranked in search.lists.items()}
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


def _best_hit(chunks: Collection[ChunkId], ranked: RankedList) -> Hit | None:
    return next((hit for hit in ranked.hits if hit.chunk in chunks), None)


def _line(chunk: ChunkId, tools: Tools) -> int:
    """Return a chunk's first line; 1 if it no longer exists."""
    return next(
        (found_chunk.start_line for found_chunk in tools.snapshot.catalog.chunks([chunk]).values()),
        1,
    )


def _best_cosine(chunks: Sequence[ChunkId], vector: Vector | None, tools: Tools) -> float | None:
    """Return the highest cosine of chunks with the query, or None if there are no vectors."""
    if vector is None or not chunks:
        return None
    cosines = tools.cosines(chunks, vector)
    return None if np.isnan(cosines).all() else round(float(np.nanmax(cosines)), _DIGITS)


def _term_fields(
    search: Search, groups: Sequence[Collection[ChunkId]], tools: Tools
) -> list[dict[str, tuple[str, ...]]]:
    """For each group of chunks, map each term of the query to the fields that contain it."""
    chunks = sorted({n for group in groups for n in group})
    within = tools.snapshot.catalog.only(chunks)
    boosts = field_weights(tools.settings.search_keyword).fields
    terms = merge_terms(search.terms, [phrasing.terms for phrasing in search.other_phrasings])
    forms = [form for term in terms for form in (replace(term, forms=()), *term.forms)]
    lookups = [(form, name) for form in forms for name in boosts]
    lookups += [(replace(term, forms=()), "code") for term in merge_identifiers(search)]
    matches: dict[str, dict[str, set[ChunkId]]] = {}
    for term, name in lookups:
        ranked = tools.snapshot.keyword.search(
            [replace(term, weight=1.0)], KeywordWeights({name: 1.0}), len(chunks), within
        )
        matches.setdefault(term.text, {})[name] = {hit.chunk for hit in ranked.hits}

    def fields_by_term(group: set[ChunkId]) -> dict[str, tuple[str, ...]]:
        return {
            text: tuple(name for name, ids in by_field.items() if ids & group)
            for text, by_field in matches.items()
        }

    return [fields_by_term(set(group)) for group in groups]


def _link_edges(document: DocumentId, search: Search, tools: Tools) -> tuple[Edge, ...]:
    """Return the links to a document from the documents whose links search_graph followed."""
    settings, graph = tools.settings.search_graph, tools.snapshot.graph
    documents = tools.snapshot.catalog.documents
    return tuple(
        Edge(documents[seed].path, rank)
        for rank, seed in enumerate(search.seeds, 1)
        if document in neighbors(seed, graph, settings)
    )


# ------------------------------------------------------------------ effects of the stages


def _rank_changes(
    wanted: Collection[ChunkId], history: _History, tools: Tools
) -> Iterator[StageRank]:
    """Yield the rank of the best wanted chunk after each stage."""
    for name, search in history:
        if name not in RETRIEVERS and not search.candidates and not search.dropped:
            continue
        ranked = _ranked_chunks(name, search, wanted)
        at = next((n for n, (chunk, _) in enumerate(ranked) if chunk in wanted), None)
        if at is None:
            yield StageRank(name, None, len(ranked))
        else:
            chunk, score = ranked[at]
            yield StageRank(name, at + 1, len(ranked), score, _line(chunk, tools))


def _ranked_chunks(
    name: str, search: Search, wanted: Collection[ChunkId]
) -> Sequence[tuple[ChunkId, float]]:
    """Return the chunks after a stage and their scores, best first."""
    if name in RETRIEVERS:
        hits = search.lists.get(name, RankedList()).hits
        return [(hit.chunk, hit.score) for hit in hits]
    scores = {candidate.id: candidate.score for candidate in search.candidates}
    if name != "parents":
        return list(scores.items())
    # a passage is represented by a wanted chunk, or else by its best chunk
    return [
        (next((n for n in group if n in wanted), group[0]), scores[group[0]])
        for group in search.passage_chunks
    ]


def _only_changes(ranks: Iterable[StageRank]) -> tuple[StageRank, ...]:
    """Keep the ranks in retrievers' lists, and the ranks after stages that changed the rank or
    score.
    """
    changes: list[StageRank] = []
    for rank in ranks:
        is_first = not changes or rank.stage in RETRIEVERS or changes[-1].stage in RETRIEVERS
        if is_first or (rank.rank, rank.score) != (changes[-1].rank, changes[-1].score):
            changes.append(rank)
    return tuple(changes)


def _first_passage_with(
    wanted: Collection[ChunkId], passages: Sequence[Passage], tools: Tools
) -> Passage | None:
    places = chunk_places(sorted(wanted), tools.snapshot.catalog)
    return next(
        (passage for passage in passages if any(map(passage.place.contains, places))),
        None,
    )


def _dropped_chunks(history: _History, tools: Tools) -> Iterator[tuple[str, ChunkId, DroppedChunk]]:
    """Yield each dropped candidate: the stage, the chunk's id, and a record with the reason."""
    documents = tools.snapshot.catalog.documents
    for (_, before), (name, after) in pairwise(history):
        remaining = {candidate.id for candidate in after.candidates}
        records = list(after.dropped[len(before.dropped) :])
        for candidate in before.candidates:
            if candidate.id not in remaining:
                path, line = documents[candidate.document].path, candidate.chunk.start_line
                dropped = next(
                    (record for record in records if (record.path, record.line) == (path, line)),
                    DroppedChunk(path, line, "removed"),
                )
                records = [record for record in records if record is not dropped]
                yield name, candidate.id, dropped


# ------------------------------------------------------------------ the outcome for a note


_Outcome = tuple[NoteOutcome, str, str, int | None]
"""The outcome, the stage that decided it, the reason in words, and the rank of the passage."""


def outcome_of(
    document: Document,
    heading: str,
    wanted: Sequence[ChunkId],
    history: _History,
    answer: Search,
    tools: Tools,
) -> WhyReport:
    """Explain why an answer contains a document's chunks, or does not contain them.

    `history` has the search after each stage. `answer` is the final search.
    """
    last = history[-1][1]
    outcome, stage, reason, rank = _outcome(set(wanted), history, answer, tools)
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
        stages=_only_changes(_rank_changes(set(wanted), history, tools)),
        terms=_term_fields(last, [wanted], tools)[0],
        found=bool(answer.found and answer.passages),
        confidence=answer.confidence,
    )


def _outcome(wanted: set[ChunkId], history: _History, answer: Search, tools: Tools) -> _Outcome:
    if not wanted:
        return "not_found", "", "it has no searchable text", None
    if not history[0][1].keep_searchable(list(wanted)):
        return "filtered", "", _filter_reason(wanted, answer, tools), None
    outcome = _outcome_in_answer(wanted, history, answer, tools) or _outcome_dropped(
        wanted, history, answer, tools
    )
    return outcome or ("not_found", "", _retriever_reason(wanted, history, answer, tools), None)


# ------------------------------------------------------------------ not searched


def _filter_reason(wanted: Collection[ChunkId], answer: Search, tools: Tools) -> str:
    """Return why the chunks were not searched: because of a filter, or because they are copies."""
    filters, snapshot = answer.query.filters, tools.snapshot
    selections = [
        (f"`{name}`", snapshot.catalog.select(replace(Filters(), **{name: value})))
        for name in ("path", "tag", "since", "until")
        if (value := getattr(filters, name))
    ]
    selections += [
        (f"`{condition.as_typed}`", select_chunks([condition], snapshot))
        for condition in (*filters.where, *answer.typed_filters)
    ]
    for name, selection in selections:
        if selection is not None and not selection.among(list(wanted)).any():
            return f"the filter {name} excludes it"
    return "its text is also elsewhere, and only one copy is searched"


# ------------------------------------------------------------------ in the answer


def _outcome_in_answer(
    wanted: Collection[ChunkId], history: _History, answer: Search, tools: Tools
) -> _Outcome | None:
    if shown := _first_passage_with(wanted, answer.passages, tools):
        candidates = history[-1][1].candidates
        kinds = (
            candidate.name_kind
            for candidate in candidates
            if candidate.name_kind and candidate.id in wanted
        )
        named = next((f"; the query is its {kind}" for kind in kinds), "")
        reason = f"passage {shown.rank} of {len(answer.passages)}{named}"
        return "shown", "", reason, shown.rank
    places = chunk_places(sorted(wanted), tools.snapshot.catalog)
    for passage in answer.passages:
        if any(place in passage.also_in for place in places):
            reasons = [
                (stage, dropped.reason)
                for stage, n, dropped in _dropped_chunks(history, tools)
                if n in wanted
            ]
            stage, how = reasons[-1] if reasons else ("parents", "its text is part of that passage")
            reason = f"passage {passage.rank}, {passage.citation}: {how}"
            return "copy", stage, reason, passage.rank
    return None


# ------------------------------------------------------------------ found, then dropped


def _outcome_dropped(
    wanted: AbstractSet[ChunkId], history: _History, answer: Search, tools: Tools
) -> _Outcome | None:
    """Return the outcome for chunks that a stage dropped, or None if no retriever found them."""
    for (_, before), (name, after) in reversed(list(pairwise(history))):
        candidates = [candidate.id for candidate in before.candidates if candidate.id in wanted]
        if name == "parents" and candidates:
            return "dropped", name, _limit_reason(wanted, answer, tools), None
        if candidates and not any(candidate.id in wanted for candidate in after.candidates):
            reasons = {
                n: dropped.reason
                for stage, n, dropped in _dropped_chunks(history, tools)
                if stage == name
            }
            return "dropped", name, reasons.get(candidates[0], "removed"), None
        if name == "fuse" and any(_best_hit(wanted, ranked) for ranked in before.lists.values()):
            return "dropped", name, _fusion_reason(wanted, after), None
    return None


def _limit_reason(wanted: AbstractSet[ChunkId], answer: Search, tools: Tools) -> str:
    groups, shown = answer.passage_chunks, answer.passages
    rank = next((n for n, group in enumerate(groups, 1) if not wanted.isdisjoint(group)), None)
    if rank is None or _first_passage_with(groups[rank - 1], shown, tools):
        return "its text is part of another passage"
    return (
        f"it ranks {rank} of {len(groups)}, and the answer has {plural(len(shown), 'passage')}: "
        "a higher `limit` shows it"
    )


def _fusion_reason(wanted: Collection[ChunkId], after: Search) -> str:
    rank = next((n for n, chunk in enumerate(after.fused, 1) if chunk in wanted), None)
    if rank is None:
        return "the note has better chunks, and no more are kept per note"
    return (
        f"its best chunk ranks {rank} of {len(after.fused)}, and only the first "
        f"{len(after.candidates)} are kept"
    )


# ------------------------------------------------------------------ not found

_RETRIEVER_NAMES = {
    "search_vector": "by meaning",
    "search_keyword": "by words",
    "search_code": "by exact words",
    "search_graph": "by links",
}


def _retriever_reason(
    wanted: Collection[ChunkId], history: _History, answer: Search, tools: Tools
) -> str:
    """Describe the rank of the note in each retriever's list."""
    if answer.listed:
        notes = plural(answer.listed, "note")
        return f"the query has only filters, and {notes} match: a higher `limit` shows more"
    document = tools.snapshot.catalog.document_of(next(iter(wanted)))
    results = []
    for name, search in history:
        if name in RETRIEVERS:
            ranked = search.lists.get(name, RankedList())
            result = f"it is not among the first {plural(len(ranked.hits), 'passage')}"
            if name == "search_vector" and search.vector is None:
                result = "nothing was searched: there is no model, or there are no vectors"
            elif score := ranked.documents.get(document):
                rank = 1 + sum(other > score for other in ranked.documents.values())
                result = f"it ranks {rank} of {len(ranked.documents)}"
            results.append(f"{_RETRIEVER_NAMES[name]} {result}")
    return "; ".join(results) or "no retriever is enabled"
