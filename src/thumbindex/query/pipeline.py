"""The pipeline: the list of stages, and the loop that runs them and writes the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thumbindex.model import Query, QueryKind, TraceStep
from thumbindex.ports import Selection, Snapshot
from thumbindex.query.confidence import confidence
from thumbindex.query.copies import (
    dedup_hash,
    dedup_known,
    dedup_ngram,
    dedup_semantic,
    dedup_versions,
    deduplicate,
)
from thumbindex.query.expansion import expand, synonyms
from thumbindex.query.in_force import in_force
from thumbindex.query.match_names import find_by_date, find_by_reference, match_names
from thumbindex.query.operators import (
    count_undated,
    intersect,
    newest_candidates,
    parse_filters,
    select_chunks,
)
from thumbindex.query.parents import chunks_as_passages, parents
from thumbindex.query.rank import fuse, headings, normalize, recency, salience, take_first_list
from thumbindex.query.reorder import all_words, contradict, diversify, rerank, shared
from thumbindex.query.retrieve import (
    aggregate,
    chunk_ids_of,
    search_code,
    search_graph,
    search_keyword,
    search_vector,
)
from thumbindex.query.shorten import shorten
from thumbindex.query.stage import Phrasing, Search, Stage, Tools
from thumbindex.query.understand import (
    QUOTATION_MARK,
    classify,
    correct,
    parse_terms,
    truncate_cjk_runs,
)
from thumbindex.text import words

STAGES: tuple[tuple[str, Stage], ...] = (
    ("classify", classify),
    ("correct", correct),
    ("synonyms", synonyms),
    ("expand", expand),
    ("search_vector", search_vector),
    ("search_keyword", search_keyword),
    ("search_code", search_code),
    ("search_graph", search_graph),
    ("aggregate", aggregate),
    ("salience", salience),
    ("fuse", fuse),
    ("headings", headings),
    ("all_words", all_words),
    ("recency", recency),
    ("normalize", normalize),
    ("shared", shared),
    ("in_force", in_force),
    ("match_names", match_names),
    ("confidence", confidence),
    ("dedup_versions", dedup_versions),
    ("dedup_known", dedup_known),
    ("dedup_hash", dedup_hash),
    ("deduplicate", deduplicate),
    ("dedup_ngram", dedup_ngram),
    ("dedup_semantic", dedup_semantic),
    ("contradict", contradict),
    ("diversify", diversify),
    ("rerank", rerank),
    ("parents", parents),
)
"""All stages in order. A stage's function, settings table and trace step have the same name."""

RETRIEVERS: Mapping[str, Stage] = {
    name: stage for name, stage in STAGES if name.startswith("search_")
}
"""The stages that find chunks. Later stages rank and select them."""

StageObserver = Callable[[str, Search], None]
"""Function that is called after each stage, with the stage's name and the search.

Before the first stage, it is called with "" and the first search.
"""


def run_pipeline(
    query: Query,
    tools: Tools,
    clock: Callable[[], float],
    observe: StageObserver = lambda stage, search: None,
) -> tuple[Search, tuple[TraceStep, ...]]:
    """Run all stages, and return the final search and the trace.

    If the query contains only filters, or no chunk passes the filters, no stage runs.
    """
    search, steps = _run_stages(STAGES, query, tools, clock, observe)
    return _finish(search, tools), steps


def find_candidates(query: Query, tools: Tools) -> Search:
    """Run the stages up to `headings`, which rank all candidates."""
    last = [name for name, _ in STAGES].index("headings")
    return _run_stages(STAGES[: last + 1], query, tools)[0]


def _run_stages(
    stages: Sequence[tuple[str, Stage]],
    query: Query,
    tools: Tools,
    clock: Callable[[], float] = lambda: 0.0,
    observe: StageObserver = lambda stage, search: None,
) -> tuple[Search, tuple[TraceStep, ...]]:
    search, steps = start_search(query, tools), []
    observe("", search)
    for name, stage in stages if search.listed is None and search.found else ():
        if query.verbatim and name in ("correct", "synonyms"):
            continue
        if tools.settings.runs(name):
            started = clock()
            after = stage(search, tools)
            steps.append(_trace_step(name, search, after, clock() - started))
            search = after
        elif name == "fuse":  # later stages need candidates
            search = take_first_list(search, tools)
        else:
            continue
        observe(name, search)
    return search, tuple(steps)


def start_search(query: Query, tools: Tools) -> Search:
    """Return a search with the query's terms, its typed filters, and the searchable chunks."""
    snapshot, catalog = tools.snapshot, tools.snapshot.catalog
    query = replace(
        query,
        text=truncate_cjk_runs(query.text),
        also=tuple(map(truncate_cjk_runs, query.also)),
        passage=truncate_cjk_runs(query.passage),
    )
    typed = parse_filters(query.text, snapshot)
    searchable = intersect(catalog.select(query.filters), select_chunks(typed.filters, snapshot))
    searchable = _without_repeats(searchable, snapshot)
    query = replace(query, text=typed.text)
    search = Search(
        query, typed.text, searchable=searchable, typed_filters=typed.filters, unmet=typed.unmet
    )
    if not typed.text.strip():
        return _list_newest(search, tools)
    terms, identifiers = parse_terms(typed.text, tools)
    dated = find_by_date(typed.text, catalog)
    return replace(
        search,
        found=searchable is None or bool(searchable),
        terms=terms,
        identifiers=identifiers,
        reference_matches=find_by_reference(typed.text, catalog),
        date_matches={
            n: m for n, m in dated.items() if search.keep_searchable(chunk_ids_of(n, tools))
        },
        other_phrasings=_parse_other_phrasings(query, tools),
    )


def _without_repeats(searchable: Selection | None, snapshot: Snapshot) -> Selection | None:
    """Exclude chunks that repeat another searchable chunk.

    None means that all chunks are searchable.
    """
    repeated = snapshot.duplicates.repeats(searchable)
    if repeated is None:
        return searchable
    return (snapshot.catalog.everything() if searchable is None else searchable) - repeated


def _list_newest(search: Search, tools: Tools) -> Search:
    """Answer a query that contains only filters: return the newest notes."""
    catalog, limit = tools.snapshot.catalog, tools.limit(search.query)
    candidates, count = newest_candidates(search.searchable, limit, catalog)
    certainty = {"confidence": 1.0, "confidence_level": "high"} if count else {"found": False}
    kind = QueryKind.NAVIGATIONAL
    return replace(search, kind=kind, candidates=candidates, listed=count, **certainty)


def _parse_other_phrasings(query: Query, tools: Tools) -> tuple[Phrasing, ...]:
    """Parse the query's rewordings and hypothetical answer.

    Repeats and texts without terms are omitted.
    """
    rewordings = [(f"also {number}", text) for number, text in enumerate(query.also, 1)]
    keys, phrasings = {tuple(words(query.text))}, []
    for name, text in (*rewordings, ("passage", query.passage)):
        if text.strip() and (key := tuple(words(text))) not in keys:
            keys.add(key)
            # only the query itself narrows a search
            plain = QUOTATION_MARK.sub(" ", text)
            phrasings.append(Phrasing(name, plain, *parse_terms(plain, tools)))
    return tuple(phrasing for phrasing in phrasings if phrasing.terms)


def _finish(search: Search, tools: Tools) -> Search:
    """Select the passages of the answer. If `parents` did not run, make the passages first."""
    if search.listed is not None:
        search = parents(search, tools)
    elif not tools.settings.runs("parents"):
        search = chunks_as_passages(search, tools)
    query, limit = search.query, tools.limit(search.query)
    search = shorten(search, limit)
    is_short = len(search.passages) + len(search.weaker) < limit or not search.found
    undated = count_undated(query.filters, search.typed_filters, tools.snapshot) if is_short else 0
    return replace(search, undated=undated)


def _trace_step(stage: str, before: Search, after: Search, seconds: float) -> TraceStep:
    dropped = after.dropped[len(before.dropped) :]
    moved = _count_moved(before, after)
    return TraceStep(stage, _count(before), _count(after), moved, seconds, dropped)


def _count(search: Search) -> int:
    """Count the passages, or else the candidates, or else the chunks in the retrievers' lists."""
    if search.passages:
        return len(search.passages)
    if search.candidates or search.dropped or not search.found:
        return len(search.candidates)
    return len({hit.chunk for ranked in search.lists.values() for hit in ranked.hits})


def _count_moved(before: Search, after: Search) -> int:
    """Count the remaining candidates whose position changed."""
    if before.candidates is after.candidates:
        return 0
    old, new = ([candidate.id for candidate in search.candidates] for search in (before, after))
    remaining = set(old) & set(new)
    old, new = ([n for n in ids if n in remaining] for ids in (old, new))
    return sum(first != second for first, second in zip(old, new, strict=True))
