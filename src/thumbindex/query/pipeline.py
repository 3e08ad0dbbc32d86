"""The pipeline: the list of stages, and the one loop that runs them and writes down what each
did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thumbindex.model import ChunkId, Passage, Query, QueryKind, Section, TraceStep
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
from thumbindex.query.match_names import find_by_date, find_by_reference, match_names
from thumbindex.query.operators import (
    count_undated,
    intersect,
    newest_candidates,
    parse_filters,
    select_chunks,
)
from thumbindex.query.parents import (
    group_by_section,
    is_inside,
    keyword_coverage,
    make_passages,
    order_passages,
    parents,
    passage_place,
)
from thumbindex.query.rank import fuse, headings, normalize, recency, salience, take_first_list
from thumbindex.query.reorder import contradict, diversify, rerank
from thumbindex.query.retrieve import (
    aggregate,
    chunks_of,
    search_code,
    search_graph,
    search_keyword,
    search_vector,
)
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
    ("recency", recency),
    ("normalize", normalize),
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
"""Every stage in the order of the run; its name is its module, its function, its table and its step
in the trace.
"""

RETRIEVERS: Mapping[str, Stage] = {
    name: stage for name, stage in STAGES if name.startswith("search_")
}
"""Those that find; what comes after them orders and chooses."""

StageObserver = Callable[[str, Search], None]
"""Is told a stage's name, and the search as that stage left it; "" before the first one."""


def run(
    query: Query,
    tools: Tools,
    clock: Callable[[], float],
    watch: StageObserver = lambda stage, search: None,
) -> tuple[Search, tuple[TraceStep, ...]]:
    """Answer a query: the search after the last stage, its best passages cut to the limit, and what
    each stage did.

    No stage runs for a query that is filters alone: there is nothing to search for, and the newest
    notes that they let through are the answer. Nor does one where filters let nothing through.
    """
    search, steps = start_search(query, tools), []
    watch("", search)
    for name, stage in STAGES if search.listed is None and search.answerable else ():
        if tools.settings.runs(name):
            began = clock()
            after = stage(search, tools)
            steps.append(_trace_step(name, search, after, clock() - began))
            search = after
        elif name == "fuse":  # without it, the later stages still need candidates
            search = take_first_list(search, tools)
        else:
            continue
        watch(name, search)
    return _finish(search, tools), tuple(steps)


def start_search(query: Query, tools: Tools) -> Search:
    """Return a search with the query's terms, the filters typed in it, and which chunks may be
    found: what filters let through, and no repeats.
    """
    snapshot, catalog = tools.snapshot, tools.snapshot.catalog
    also, passage = tuple(map(truncate_cjk_runs, query.also)), truncate_cjk_runs(query.passage)
    query = replace(query, text=truncate_cjk_runs(query.text), also=also, passage=passage)
    typed = parse_filters(query.text, snapshot)
    given = catalog.select(query.filters)
    within = _without_repeats(intersect(given, select_chunks(typed.conditions, snapshot)), snapshot)
    search = Search(
        replace(query, text=typed.text),
        typed.text,
        within=within,
        conditions=typed.conditions,
        unmet=typed.unmet,
    )
    if not typed.text.strip():
        candidates, count = newest_candidates(within, query.limit, catalog)
        sure = {"confidence": 1.0, "confidence_level": "high"} if count else {"answerable": False}
        return replace(
            search, kind=QueryKind.NAVIGATIONAL, candidates=candidates, listed=count, **sure
        )
    search = replace(search, answerable=within is None or bool(within))
    terms, identifiers = parse_terms(typed.text, tools)
    dated = find_by_date(typed.text, catalog)
    phrasings = tuple(
        each
        for name, text in _distinct_phrasings(query)
        if (each := _parse_phrasing(name, text, tools)).terms
    )
    return replace(
        search,
        terms=terms,
        identifiers=identifiers,
        name_matches=find_by_reference(typed.text, catalog),
        date_matches={n: m for n, m in dated.items() if search.findable(chunks_of(n, tools))},
        phrasings=phrasings,
    )


def _distinct_phrasings(query: Query) -> list[tuple[str, str]]:
    """Return what came with a query to be searched beside it, each with its name; what only repeats
    another is left out.
    """
    given = [
        *((f"also {number}", text) for number, text in enumerate(query.also, 1)),
        ("passage", query.passage),
    ]
    keys = {" ".join(words(query.text)): "query"}
    for name, text in given:
        keys.setdefault(" ".join(words(text)), name)
    return [
        (name, text) for name, text in given if text.strip() and keys[" ".join(words(text))] == name
    ]


def _parse_phrasing(name: str, text: str, tools: Tools) -> Phrasing:
    """Return a phrasing with its terms.

    Quotes, filters and dashes in it are no more than words: only the query narrows a search.
    """
    text = QUOTATION_MARK.sub(" ", text)
    return Phrasing(name, text, *parse_terms(text, tools))


def _without_repeats(within: Selection | None, snapshot: Snapshot) -> Selection | None:
    """Take out what repeats another chunk of its document; None where all chunks may be found."""
    repeated = snapshot.duplicates.repeated()
    if repeated is None:
        return within
    return (snapshot.catalog.everything() if within is None else within) - repeated


def _finish(search: Search, tools: Tools) -> Search:
    """Cut the passages to the limit, but not between two that disagree; where parents are off,
    chunks stand for themselves.
    """
    catalog, limit = tools.snapshot.catalog, search.query.limit
    passages = _cut_to_limit(search.passages, limit)
    if search.listed is not None or not tools.settings.runs("parents"):
        sections: Mapping[ChunkId, Section] = {}
        if search.listed is not None:
            sections = catalog.sections([each.id for each in search.candidates])
        families = group_by_section(search.candidates, sections, catalog)
        ordered = order_passages(families, sections, keyword_coverage(search))
        passages = make_passages(ordered, sections, catalog, limit)
        passages = _cut_to_limit(passages, limit)
    short = len(passages) < limit or not search.answerable
    return replace(
        search,
        passages=passages,
        undated=count_undated(search.query.filters, search.conditions, tools.snapshot)
        if short
        else 0,
    )


def _cut_to_limit(passages: Sequence[Passage], limit: int) -> tuple[Passage, ...]:
    """Return the first passages; the last one's partner, which stands right behind, comes in the
    place of the one before that has none.
    """
    shown, last = tuple(passages[:limit]), limit - 1
    is_parted = limit < len(passages) and any(
        is_inside(each, passage_place(passages[limit])) for each in passages[last].disagrees
    )
    if is_parted and limit > 1 and not passages[last - 1].disagrees:
        return (*passages[: last - 1], *(replace(passages[n], rank=n) for n in (last, limit)))
    return shown


def _trace_step(stage: str, before: Search, after: Search, seconds: float) -> TraceStep:
    """Return what a stage did: how many came in and went out, moved among the survivors, and were
    dropped.
    """
    return TraceStep(
        stage,
        _count(before),
        _count(after),
        _count_moved(before, after),
        seconds,
        after.dropped[len(before.dropped) :],
    )


def _count(search: Search) -> int:
    """Count the passages, else the candidates, else the chunks that retrievers have found so
    far.
    """
    if search.passages:
        return len(search.passages)
    # only candidates are dropped: none are left then
    if search.candidates or search.dropped or not search.answerable:
        return len(search.candidates)
    return len({hit.chunk for found in search.lists.values() for hit in found.hits})


def _count_moved(before: Search, after: Search) -> int:
    """Count the chunks whose place among those that stayed is another one: a gap that closes moves
    nobody.
    """
    if before.candidates is after.candidates:
        return 0
    was, now = _ids(before), _ids(after)
    if was == now:
        return 0
    stayed = set(was) & set(now)
    pairs = zip([n for n in was if n in stayed], [n for n in now if n in stayed], strict=True)
    return sum(first != second for first, second in pairs)


def _ids(search: Search) -> Sequence[ChunkId]:
    return [each.id for each in search.candidates]
