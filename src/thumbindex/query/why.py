"""Why a note is not among the answers: where it stood after each stage, what took it out, and how far it was from being found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thumbindex.model import ChunkId, Document, Fate, Filters, Passage, Place, RankedList, Reach, Standpoint, Why, day_of
from thumbindex.query.equate import as_searched
from thumbindex.query.explain import Seen, best_cosine, best_hit, dropped_since, term_fields
from thumbindex.query.fuse import fuse
from thumbindex.query.parents import is_inside, parents, says_something
from thumbindex.query.pipeline import RETRIEVERS
from thumbindex.query.stage import Search, Tools

Verdict = tuple[Fate, str, str, int | None]
"""What became of it, the stage that did it, the reason in words, and the rank of the passage that shows it."""


def why(document: Document, heading: str, wanted: Sequence[ChunkId], seen: Seen, answer: Search, tools: Tools) -> Why:
    """Tell what became of a document's chunks in a run that was watched; the retrievers are asked again without their limits."""
    last = seen[-1][1]
    found = Why(last.query.text, as_searched(last), document.folder, document.path, heading, "not_found", "", "")
    found = replace(
        found,
        chunks=len(wanted),
        without_vector=int(np.isnan(tools.snapshot.vector.vectors(wanted)[:, 0]).sum()) if wanted else 0,
        cosine=best_cosine(wanted, last, tools),
        standpoints=tuple(standpoints(set(wanted), seen, tools)),
        reaches=tuple(reaches(set(wanted), seen, tools)),
        terms=term_fields(last, [wanted], tools)[0],
        answerable=bool(answer.answerable and answer.passages),
        confidence=answer.confidence,
    )
    fate, stage, reason, rank = verdict(document, set(wanted), seen, answer, tools) or ("not_found", "", out_of_reach(found), None)
    return replace(found, fate=fate, stage=stage, reason=reason, rank=rank)


def verdict(document: Document, wanted: set[ChunkId], seen: Seen, answer: Search, tools: Tools) -> Verdict | None:
    """Return what became of some chunks of a document; None where no retriever found them."""
    if not wanted:
        return "not_found", "", "it holds no text that could be found", None
    mask = seen[0][1].mask
    if mask is not None and not any(mask[n] for n in wanted):
        return "filtered", "", not_searched(document, wanted, answer.query.filters, tools), None
    return _in_answer(wanted, seen, answer, tools) or _taken_out(wanted, seen, tools)


# ------------------------------------------------------------------ not searched


def not_searched(document: Document, wanted: Collection[ChunkId], filters: Filters, tools: Tools) -> str:
    """Say which filter keeps chunks out of the search, or that they only repeat others of their document."""
    tags = ", ".join(document.tags) or "none"
    each = (
        (Filters(path=filters.path), f"the filter `path` does not match it: {', '.join(filters.path)}"),
        (Filters(tag=filters.tag), f"the filter `tag` asks for {', '.join(filters.tag)}; its tags: {tags}"),
        (Filters(since=filters.since), f"the filter `since` asks for {filters.since} or later; it is of {day_of(document)}"),
    )
    for one, reason in each:
        mask = tools.snapshot.catalog.select(one)
        if mask is not None and not any(mask[n] for n in wanted):
            return reason
    return "it only repeats other chunks of the document, which are found for it"


# ------------------------------------------------------------------ in the answer


def _in_answer(wanted: Collection[ChunkId], seen: Seen, answer: Search, tools: Tools) -> Verdict | None:
    places = tools.snapshot.catalog.places(sorted(wanted))
    for passage in answer.passages:
        if any(is_inside(place, _lines(passage)) for place in places):
            return "shown", "", f"passage {passage.rank} of {len(answer.passages)}, {passage.citation}", passage.rank
    for passage in answer.passages:
        if any(place in passage.also_in for place in places):
            gone = [(stage, said.reason) for stage, n, said in dropped_since(seen, tools) if n in wanted]
            stage, how = gone[-1] if gone else ("parents", "what it says stands there too")
            return "copy", stage, f"passage {passage.rank}, {passage.citation} ({stage}: {how})", passage.rank
    return None


def _lines(passage: Passage) -> Place:
    return Place(passage.folder, passage.path, passage.start_line, passage.end_line)


# ------------------------------------------------------------------ found and taken out


def _taken_out(wanted: Collection[ChunkId], seen: Seen, tools: Tools) -> Verdict | None:
    """Return the last stage that took one of the chunks out, and why; None where none was ever found."""
    for (_, before), (name, after) in reversed(list(pairwise(seen))):
        held = [each.id for each in before.candidates if each.id in wanted]
        if name == "parents" and held:
            return "dropped", name, _behind_the_limit(wanted, before, tools), None
        if held and not any(each.id in wanted for each in after.candidates):
            said = {n: gone.reason for stage, n, gone in dropped_since(seen, tools) if stage == name}
            return "dropped", name, said.get(held[0], "taken out"), None
        if name == "fuse" and any(best_hit(wanted, found) for found in before.lists.values()):
            return "dropped", name, _behind_fusion(wanted, before, after, tools), None
    return None


def _behind_the_limit(wanted: Collection[ChunkId], before: Search, tools: Tools) -> str:
    """Say at which place it would come if more passages were asked for."""
    limit = before.query.limit
    longer = parents(replace(before, query=replace(before.query, limit=len(before.candidates))), tools)
    places = tools.snapshot.catalog.places(sorted(wanted))
    behind = (each for each in longer.passages if any(is_inside(place, _lines(each)) or place in each.also_in for place in places))
    first = next(behind, None)
    if first is None:
        return "what it says comes with another passage"
    alone = "" if says_something(first.text) else "it holds no text but headings and comes after all that do; "
    asked = f"{limit} {'was' if limit == 1 else 'were'} asked for"
    return f"{alone}it is at place {first.rank} of {len(longer.passages)}, and {asked}: a higher limit shows it"


def _behind_fusion(wanted: Collection[ChunkId], before: Search, after: Search, tools: Tools) -> str:
    """Say at which place it would be if fusion kept all."""
    settings, count = tools.settings, len(after.candidates)
    if not settings.fuse.enabled:
        return "fusion is switched off, and it is not in the one list that is taken"
    longer = fuse(before, replace(tools, settings=replace(settings, fuse=replace(settings.fuse, limit=len(tools.snapshot.catalog)))))
    rank = next((n for n, each in enumerate(longer.candidates, 1) if each.id in wanted), None)
    if rank is None:
        return f"{settings.fuse.chunks} better chunks of its document were taken (query.fuse.chunks)"
    return f"it is at place {rank} of {len(longer.candidates)} that were found, and the first {count} were taken (query.fuse.limit)"


# ------------------------------------------------------------------ how far it was


def standpoints(wanted: Collection[ChunkId], seen: Seen, tools: Tools) -> Iterator[Standpoint]:
    """Yield where the best of the chunks stood after each stage: in its retriever's list, then among the candidates, then the passages."""
    for name, search in seen:
        if name in RETRIEVERS:
            found = search.lists.get(name, RankedList())
            hit = best_hit(wanted, found)
            yield Standpoint(name, hit.rank, len(found.hits), hit.score, _line(hit.chunk, tools)) if hit else Standpoint(name, None, len(found.hits))
        elif name == "parents":
            places = tools.snapshot.catalog.places(sorted(wanted))
            shown = next((each for each in search.passages if any(is_inside(place, _lines(each)) for place in places)), None)
            size = len(search.passages)
            yield Standpoint(name, shown.rank, size, shown.score, shown.start_line) if shown else Standpoint(name, None, size)
        elif search.candidates or search.dropped:
            at = next((n for n, each in enumerate(search.candidates) if each.id in wanted), None)
            size = len(search.candidates)
            yield Standpoint(name, None, size) if at is None else _standpoint(name, at, search)


def _standpoint(name: str, at: int, search: Search) -> Standpoint:
    each = search.candidates[at]
    return Standpoint(name, at + 1, len(search.candidates), each.score, each.chunk.start_line)


def _line(chunk: ChunkId, tools: Tools) -> int | None:
    return next((each.start_line for each in tools.snapshot.catalog.chunks([chunk]).values()), None)


def reaches(wanted: Collection[ChunkId], seen: Seen, tools: Tools) -> Iterator[Reach]:
    """Yield where each retriever that ran has the best of the chunks if its list is not cut."""
    settings, everything = tools.settings, len(tools.snapshot.catalog)
    endless = {name: replace(getattr(settings, name), limit=everything) for name in RETRIEVERS}
    wide = replace(tools, settings=replace(settings, **endless))
    for (_, before), (name, after) in pairwise(seen):
        if name in RETRIEVERS:
            taken = after.lists.get(name, RankedList()).hits
            hit = best_hit(wanted, RETRIEVERS[name](before, wide).lists.get(name, RankedList())) if wanted else None
            rank, score, line = (hit.rank, hit.score, _line(hit.chunk, tools)) if hit else (None, None, None)
            yield Reach(name, rank, score, line, len(taken), taken[-1].score if taken else None)


_NOWHERE = {
    "search_vector": "has no vector of it",
    "search_keyword": "finds none of the query's words in it",
    "search_code": "finds none of the query's words as they are written in it",
    "search_graph": "finds no link to it from what was found first",
}


_NOTHING = {"search_vector": "was not asked, for want of a model or of vectors"}


def out_of_reach(found: Why) -> str:
    """Say how far each retriever was from a note that none of them found."""
    return "; ".join(map(_how_far, found.reaches)) or "no retriever is switched on"


def _how_far(reach: Reach) -> str:
    if reach.rank is None:
        return f"{reach.retriever} {_NOWHERE[reach.retriever] if reach.taken else _NOTHING.get(reach.retriever, 'found nothing at all')}"
    last = f", the last with {reach.last:.2f}" if reach.last is not None else ""
    return f"{reach.retriever} has it at place {reach.rank} ({reach.score:.2f}), and {reach.taken} were taken{last}"
