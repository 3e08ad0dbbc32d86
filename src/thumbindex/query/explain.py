"""Explain an answer: how a passage came to its place, and why a note is not among the passages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thumbindex.model import (
    Agreement,
    Candidate,
    ChunkId,
    Condition,
    Document,
    DocumentId,
    Dropped,
    DroppedCopy,
    Edge,
    Effect,
    Evidence,
    Explanation,
    Fate,
    Filters,
    Hit,
    Passage,
    RankedList,
    Reach,
    Standpoint,
    Why,
    day_of,
)
from thumbindex.ports import Catalog, KeywordWeights, Vector
from thumbindex.query.confidence import query_terms, share
from thumbindex.query.filters import select
from thumbindex.query.parents import (
    is_inside,
    is_more_than_headings,
    parents,
    place_of_chunk,
    place_of_passage,
)
from thumbindex.query.pipeline import RETRIEVERS
from thumbindex.query.rank import fuse, retriever_weights
from thumbindex.query.retrieve import (
    all_identifiers,
    all_terms,
    field_weights,
    first_documents,
    neighbors,
)
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import as_searched
from thumbindex.text import plural

History = Sequence[tuple[str, Search]]
"""The search as each stage left it, by the stage's name, and before the first one ("")."""

_DIGITS = 4


def explained(passages: Sequence[Passage], seen: History, tools: Tools) -> tuple[Passage, ...]:
    """Return an answer's passages with their explanations; a passage of which the chunk is gone
    meanwhile has none.
    """
    last, catalog = seen[-1][1], tools.snapshot.catalog
    families = [family_of(each, last.candidates, catalog) for each in passages]
    terms = term_fields(last, [[child.id for child in family] for family in families], tools)
    results = []
    for passage, family, fields in zip(passages, families, terms, strict=True):
        explanation = _explanation(passage, family, fields, seen, tools) if family else None
        results.append(replace(passage, explanation=explanation))
    return tuple(results)


def family_of(
    passage: Passage, candidates: Sequence[Candidate], catalog: Catalog
) -> list[Candidate]:
    """Return the candidates that come in a passage, the one that is marked in it first."""
    lines = place_of_passage(passage)
    marked = replace(lines, start_line=passage.match_start, end_line=passage.match_end)
    places = {each.id: place_of_chunk(each, catalog) for each in candidates}
    family = [
        each
        for each in candidates
        if is_inside(places[each.id], lines) or places[each.id] in passage.also_in
    ]
    return sorted(family, key=lambda each: places[each.id] != marked)


def _explanation(
    passage: Passage,
    family: Sequence[Candidate],
    terms: Mapping[str, tuple[str, ...]],
    seen: History,
    tools: Tools,
) -> Explanation:
    lead, last = family[0], seen[-1][1]
    standing = [n for child in family for n in (child.id, *child.also_in)]
    return Explanation(
        evidence=evidence_of(standing, last, tools),
        terms=terms,
        cosine=best_cosine([lead.id], last.vector, tools),
        edges=edges(lead.document, seen, tools),
        effects=effects((lead.id, *lead.also_in), passage, seen),
        copies=tuple(
            DroppedCopy(gone.path, gone.line, gone.reason, stage)
            for stage, n, gone in dropped_since(seen, tools)
            if n in set(standing)
        ),
        reranked=lead.reranked,
        name_kind=lead.name_kind,
        phrasings=agreements(standing, last, tools),
    )


# ------------------------------------------------------------------ what the retrievers say


def evidence_of(chunks: Collection[ChunkId], search: Search, tools: Tools) -> tuple[Evidence, ...]:
    """Return what each retriever that found one of the chunks says of the best of them."""
    wanted, weights = set(chunks), retriever_weights(search, tools.settings)
    best = {name: hit for name, found in search.lists.items() if (hit := best_hit(wanted, found))}
    texts = tools.snapshot.catalog.chunks(list({hit.chunk for hit in best.values()}))
    return tuple(
        Evidence(
            retriever=name,
            rank=hit.rank,
            of=len(search.lists[name].hits),
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
    """Return a document's rank among those that a retriever scored, from 1; None where it did not
    score this one.
    """
    own = found.documents.get(document)
    return None if own is None else 1 + sum(score > own for score in found.documents.values())


def best_cosine(chunks: Sequence[ChunkId], vector: Vector | None, tools: Tools) -> float | None:
    """Return the highest cosine of chunks with a query's vector; None where a vector is missing on
    either side.
    """
    if vector is None or not chunks:
        return None
    cosines = tools.snapshot.vector.similarities(chunks, vector)
    return None if np.isnan(cosines).all() else round(float(np.nanmax(cosines)), _DIGITS)


def agreements(chunks: Sequence[ChunkId], search: Search, tools: Tools) -> tuple[Agreement, ...]:
    """Return how well some chunks fit each phrasing of a query that came with others, the one first
    that fits best.
    """
    if not search.phrasings:
        return ()
    found = []
    for each in search.ways:
        asked = query_terms(each, tools)
        coverage = share(asked, [term.is_in(chunks) for term in asked])
        found.append(
            Agreement(
                each.name,
                each.text,
                best_cosine(chunks, each.vector, tools),
                round(coverage, _DIGITS),
            )
        )
    return tuple(sorted(found, key=lambda each: -((each.cosine or 0.0) + each.coverage)))


def term_fields(
    search: Search, groups: Sequence[Collection[ChunkId]], tools: Tools
) -> list[dict[str, tuple[str, ...]]]:
    """Say for each group of chunks in which fields each of the query's terms stands; the word index
    is asked for one at a time.
    """
    chunks = sorted({n for group in groups for n in group})
    within = tools.snapshot.catalog.only(chunks)
    boosts = field_weights(tools.settings.search_keyword).fields
    terms = all_terms(search.terms, [each.terms for each in search.phrasings])
    forms = [form for term in terms for form in (replace(term, others=()), *term.others)]
    asked = [(form, name) for form in forms for name in boosts]
    asked += [(replace(term, others=()), "code") for term in all_identifiers(search)]
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


def edges(document: DocumentId, seen: History, tools: Tools) -> tuple[Edge, ...]:
    """Return the links over which a document was reached from those that had been found first."""
    before = next(
        (search for (_, search), (name, _) in pairwise(seen) if name == "search_graph"), None
    )
    if before is None:
        return ()
    settings, graph, documents = (
        tools.settings.search_graph,
        tools.snapshot.graph,
        tools.snapshot.catalog.documents,
    )
    seeds = enumerate(first_documents(before.lists, settings.from_documents), 1)
    return tuple(
        Edge(
            documents[seed].path,
            rank,
            settings.direction == "in" or document not in graph.linked(seed),
        )
        for rank, seed in seeds
        if document in neighbors(seed, graph, settings)
    )


# ------------------------------------------------------------------ what the stages did


def effects(standing: Sequence[ChunkId], passage: Passage, seen: History) -> tuple[Effect, ...]:
    """Return where each stage that changed it left the first of some chunks, or what stood for it
    before: since fusion.
    """
    found: list[Effect] = []
    for name, search in seen:
        at = position(standing, search.candidates)
        if at is not None and (
            not found or (found[-1].rank, found[-1].score) != (at + 1, search.candidates[at].score)
        ):
            found.append(Effect(name, at + 1, len(search.candidates), search.candidates[at].score))
    if found and found[-1].rank != passage.rank:
        found.append(Effect("parents", passage.rank, len(seen[-1][1].passages), passage.score))
    return tuple(found)


def position(standing: Sequence[ChunkId], candidates: Sequence[Candidate]) -> int | None:
    """Return where the first of some chunks stands among candidates, else the best placed of the
    others; None where there is none.
    """
    at = {each.id: n for n, each in enumerate(candidates) if each.id in set(standing)}
    return at.get(standing[0], min(at.values(), default=None))


def dropped_since(seen: History, tools: Tools) -> Iterator[tuple[str, ChunkId, Dropped]]:
    """Yield each candidate that a stage took out, with the stage and its words."""
    documents = tools.snapshot.catalog.documents
    for (_, before), (name, after) in pairwise(seen):
        left, said = (
            {each.id for each in after.candidates},
            list(after.dropped[len(before.dropped) :]),
        )
        for each in before.candidates:
            if each.id not in left:
                path, line = documents[each.document].path, each.chunk.start_line
                gone = next(
                    (one for one in said if (one.path, one.line) == (path, line)),
                    Dropped(path, line, "taken out"),
                )
                said = [one for one in said if one is not gone]
                yield name, each.id, gone


def best_hit(chunks: Collection[ChunkId], found: RankedList) -> Hit | None:
    """Return the first hit on one of some chunks."""
    return next((hit for hit in found.hits if hit.chunk in chunks), None)


_Verdict = tuple[Fate, str, str, int | None]
"""What became of it, the stage that did it, the reason in words, and the rank of the passage that
shows it.
"""


def fate_of(
    document: Document,
    heading: str,
    wanted: Sequence[ChunkId],
    seen: History,
    answer: Search,
    tools: Tools,
) -> Why:
    """Tell what became of a document's chunks in a run that was watched; the retrievers are asked
    again without their limits.
    """
    last = seen[-1][1]
    found = Why(
        last.query.text,
        as_searched(last),
        document.folder,
        document.path,
        heading,
        "not_found",
        "",
        "",
    )
    without_vector = 0
    if wanted:
        without_vector = int(np.isnan(tools.snapshot.vector.vectors(wanted)[:, 0]).sum())
    found = replace(
        found,
        chunks=len(wanted),
        without_vector=without_vector,
        cosine=best_cosine(wanted, last.vector, tools),
        stages=tuple(standpoints(set(wanted), seen, tools)),
        retrievers=tuple(reaches(set(wanted), seen, tools)),
        terms=term_fields(last, [wanted], tools)[0],
        answerable=bool(answer.answerable and answer.passages),
        confidence=answer.confidence,
        phrasings=agreements(wanted, last, tools),
    )
    verdict = _verdict(document, set(wanted), seen, answer, tools)
    if verdict is not None:
        fate, stage, reason, rank = verdict
        return replace(found, fate=fate, stage=stage, reason=reason, rank=rank)
    if answer.listed:
        reason = (
            f"the query is filters alone, and {plural(answer.listed, 'note')} match: a higher "
            "limit shows more"
        )
    else:
        reason = out_of_reach(found)
    return replace(found, fate="not_found", stage="", reason=reason, rank=None)


def _verdict(
    document: Document, wanted: set[ChunkId], seen: History, answer: Search, tools: Tools
) -> _Verdict | None:
    """Return what became of some chunks of a document; None where no retriever found them."""
    if not wanted:
        return "not_found", "", "it holds no text that could be found", None
    if not seen[0][1].findable(list(wanted)):
        return "filtered", "", not_searched(document, wanted, answer, tools), None
    return _in_answer(wanted, seen, answer, tools) or _taken_out(wanted, seen, tools)


# ------------------------------------------------------------------ not searched


def not_searched(
    document: Document, wanted: Collection[ChunkId], answer: Search, tools: Tools
) -> str:
    """Say which filter keeps chunks out of the search, or that they only repeat others of their
    document.
    """
    filters = answer.query.filters
    tags, day = ", ".join(document.tags) or "none", day_of(document) or "no known date"
    each = (
        (
            Filters(path=filters.path),
            f"the filter `path` does not match it: {', '.join(filters.path)}",
        ),
        (
            Filters(tag=filters.tag),
            f"the filter `tag` asks for {', '.join(filters.tag)}; its tags: {tags}",
        ),
        (
            Filters(since=filters.since),
            f"the filter `since` asks for {filters.since} or later; it is of {day}",
        ),
        (
            Filters(until=filters.until),
            f"the filter `until` asks for {filters.until} or earlier; it is of {day}",
        ),
    )
    narrowed = [(tools.snapshot.catalog.select(one), reason) for one, reason in each]
    narrowed += [(select([one], tools.snapshot), _asked(one, tags)) for one in answer.conditions]
    for within, reason in narrowed:
        if within is not None and not within.among(list(wanted)).any():
            return reason
    return "it only repeats other chunks of the document, which are found for it"


def _asked(condition: Condition, tags: str) -> str:
    what = f"{condition.field} {condition.value!r}" + (
        f"; its tags: {tags}" if condition.field == "tag" else ""
    )
    return f"the query {'leaves out' if condition.excludes else 'asks for'} {what}"


# ------------------------------------------------------------------ in the answer


def _in_answer(
    wanted: Collection[ChunkId], seen: History, answer: Search, tools: Tools
) -> _Verdict | None:
    places = tools.snapshot.catalog.places(sorted(wanted))
    for passage in answer.passages:
        if any(is_inside(place, place_of_passage(passage)) for place in places):
            named = next(
                (
                    f"; the query is its {each.name_kind}"
                    for each in seen[-1][1].candidates
                    if each.name_kind and each.id in wanted
                ),
                "",
            )
            return (
                "shown",
                "",
                f"passage {passage.rank} of {len(answer.passages)}, {passage.citation}{named}",
                passage.rank,
            )
    for passage in answer.passages:
        if any(place in passage.also_in for place in places):
            gone = [
                (stage, said.reason) for stage, n, said in dropped_since(seen, tools) if n in wanted
            ]
            stage, how = gone[-1] if gone else ("parents", "what it says stands there too")
            return (
                "copy",
                stage,
                f"passage {passage.rank}, {passage.citation} ({stage}: {how})",
                passage.rank,
            )
    return None


# ------------------------------------------------------------------ found and taken out


def _taken_out(wanted: Collection[ChunkId], seen: History, tools: Tools) -> _Verdict | None:
    """Return the last stage that took one of the chunks out, and why; None where none was ever
    found.
    """
    for (_, before), (name, after) in reversed(list(pairwise(seen))):
        held = [each.id for each in before.candidates if each.id in wanted]
        if name == "parents" and held:
            return "dropped", name, _behind_the_limit(wanted, before, tools), None
        if held and not any(each.id in wanted for each in after.candidates):
            said = {
                n: gone.reason for stage, n, gone in dropped_since(seen, tools) if stage == name
            }
            return "dropped", name, said.get(held[0], "taken out"), None
        if name == "fuse" and any(best_hit(wanted, found) for found in before.lists.values()):
            return "dropped", name, _behind_fusion(wanted, before, after, tools), None
    return None


def _behind_the_limit(wanted: Collection[ChunkId], before: Search, tools: Tools) -> str:
    """Say at which place it would come if more passages were asked for."""
    limit = before.query.limit
    longer = parents(
        replace(before, query=replace(before.query, limit=len(before.candidates))), tools
    )
    places = tools.snapshot.catalog.places(sorted(wanted))
    behind = (
        each
        for each in longer.passages
        if any(
            is_inside(place, place_of_passage(each)) or place in each.also_in for place in places
        )
    )
    first = next(behind, None)
    if first is None:
        return "what it says comes with another passage"
    # it, or one behind it: then it keeps its place
    speaks = any(is_more_than_headings(each.text) for each in longer.passages[first.rank - 1 :])
    alone = "" if speaks else "it holds no text but headings and comes after all that do; "
    asked = f"{limit} {'was' if limit == 1 else 'were'} asked for"
    return (
        f"{alone}it ranks {first.rank} of {len(longer.passages)}, and {asked}: a higher limit "
        "shows it"
    )


def _behind_fusion(wanted: Collection[ChunkId], before: Search, after: Search, tools: Tools) -> str:
    """Say at which place it would be if fusion kept all."""
    settings, count = tools.settings, len(after.candidates)
    if not settings.runs("fuse"):
        return "fusion is switched off, and it is not in the one list that is taken"
    longer = fuse(
        before,
        replace(
            tools,
            settings=replace(
                settings, fuse=replace(settings.fuse, limit=len(tools.snapshot.catalog))
            ),
        ),
    )
    rank = next((n for n, each in enumerate(longer.candidates, 1) if each.id in wanted), None)
    if rank is None:
        return (
            f"its note has {settings.fuse.chunks} better chunks, and no more than that of one "
            "note go on"
        )
    return (
        f"its best chunk ranks {rank} of {len(longer.candidates)} that were found, and only the "
        f"first {count} go on"
    )


# ------------------------------------------------------------------ how far it was


def standpoints(wanted: Collection[ChunkId], seen: History, tools: Tools) -> Iterator[Standpoint]:
    """Yield where the best of the chunks stood after each stage: in its retriever's list, then
    among the candidates, then the passages.
    """
    for name, search in seen:
        if name in RETRIEVERS:
            found = search.lists.get(name, RankedList())
            hit = best_hit(wanted, found)
            size = len(found.hits)
            if hit:
                yield Standpoint(name, hit.rank, size, hit.score, _line(hit.chunk, tools))
            else:
                yield Standpoint(name, None, size)
        elif name == "parents":
            places = tools.snapshot.catalog.places(sorted(wanted))
            shown = next(
                (
                    each
                    for each in search.passages
                    if any(is_inside(place, place_of_passage(each)) for place in places)
                ),
                None,
            )
            size = len(search.passages)
            if shown:
                yield Standpoint(name, shown.rank, size, shown.score, shown.start_line)
            else:
                yield Standpoint(name, None, size)
        elif search.candidates or search.dropped:
            at = next((n for n, each in enumerate(search.candidates) if each.id in wanted), None)
            size = len(search.candidates)
            yield Standpoint(name, None, size) if at is None else _standpoint(name, at, search)


def _standpoint(name: str, at: int, search: Search) -> Standpoint:
    each = search.candidates[at]
    return Standpoint(name, at + 1, len(search.candidates), each.score, each.chunk.start_line)


def _line(chunk: ChunkId, tools: Tools) -> int | None:
    return next((each.start_line for each in tools.snapshot.catalog.chunks([chunk]).values()), None)


def reaches(wanted: Collection[ChunkId], seen: History, tools: Tools) -> Iterator[Reach]:
    """Yield where each retriever that ran has the best of the chunks if its list is not cut."""
    settings, everything = tools.settings, len(tools.snapshot.catalog)
    endless = {name: replace(getattr(settings, name), limit=everything) for name in RETRIEVERS}
    wide = replace(tools, settings=replace(settings, **endless))
    for (_, before), (name, after) in pairwise(seen):
        if name in RETRIEVERS:
            taken = after.lists.get(name, RankedList()).hits
            last = taken[-1].score if taken else None
            hit = None
            if wanted:
                uncut = RETRIEVERS[name](before, wide).lists.get(name, RankedList())
                hit = best_hit(wanted, uncut)
            if hit:
                line = _line(hit.chunk, tools)
                yield Reach(name, hit.rank, hit.score, line, len(taken), last)
            else:
                yield Reach(name, None, None, None, len(taken), last)


_IN_WORDS = {
    "search_vector": "search by meaning (search_vector)",
    "search_keyword": "search by words (search_keyword)",
    "search_code": "search for words as they are written (search_code)",
    "search_graph": "search over links (search_graph)",
}

_NOWHERE = {
    "search_vector": "has no vector of it",
    "search_keyword": "finds none of the query's words in it",
    "search_code": "finds none of the query's words in it",
    "search_graph": "finds no link to it from what was found first",
}


_NOTHING = {"search_vector": "was not asked, for want of a model or of vectors"}


def out_of_reach(found: Why) -> str:
    """Say how far each retriever was from a note that none of them found."""
    return "; ".join(map(_how_far, found.retrievers)) or "no retriever is switched on"


def _how_far(reach: Reach) -> str:
    name = _IN_WORDS[reach.retriever]
    if reach.rank is None:
        nothing = _NOTHING.get(reach.retriever, "found nothing at all")
        return f"{name} {_NOWHERE[reach.retriever] if reach.taken else nothing}"
    last = f", down to {reach.last:.2f}" if reach.last is not None else ""
    return (
        f"{name} ranks it {reach.rank} with {reach.score:.2f}, and only the first {reach.taken} "
        f"go on{last}"
    )
