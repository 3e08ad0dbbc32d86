"""Stage parents: chunks become the sections that hold them, each once, with the chunk that matched marked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from thumbindex.model import Candidate, ChunkId, Disagreement, Passage, Place, Section, day_of
from thumbindex.ports import Catalog
from thumbindex.query.contradict import together
from thumbindex.query.facts import facts
from thumbindex.query.families import Families, as_families, in_larger, without_copies
from thumbindex.query.stage import Search, Tools

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")


def parents(search: Search, tools: Tools) -> Search:
    """Return the candidates' sections as passages, best child first; what stands in one as a copy already comes with that one."""
    catalog = tools.snapshot.catalog
    sections = catalog.sections(list(dict.fromkeys(n for each in search.candidates for n in (each.id, *each.also_in))))
    families = as_families(search.candidates, sections, catalog)
    if tools.settings.dedup_ngram.enabled:
        families = without_copies(in_larger(families, sections, catalog), sections, search.query.limit, tools)
    return replace(search, passages=as_passages(families, sections, catalog, search.query.limit))


def as_passages(families: Families, sections: Mapping[ChunkId, Section], catalog: Catalog, limit: int) -> tuple[Passage, ...]:
    """Return one passage a family, at its best child's place, and behind it those that disagree with it: its section, or its own lines.

    There are as many as the limit, and those behind the last of them that may disagree with it.
    """
    of = {each.id: key for key, family in families.items() for each in family}
    ordered = together(
        list(families.items()), lambda item: item[0], lambda item: {of[n] for each in item[1] for n, _ in each.disagrees if n in of} - {item[0]}
    )
    # A note that is a title alone answers nothing: it comes when those that say something are through.
    ordered.sort(key=lambda item: not says_something(_text(item[1], sections.get(item[1][0].id))))
    end = limit
    while end < len(ordered) and any(each.disagrees for each in ordered[end][1]):
        end += 1
    return _descending([_passage(rank, family, sections.get(family[0].id), catalog) for rank, (_, family) in enumerate(ordered[:end], 1)])


def _descending(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages, the score of one that says nothing no higher than what stands before it."""
    speaking = [says_something(each.text) for each in passages]
    least = min((each.score for each, speaks in zip(passages, speaking, strict=True) if speaks), default=1.0)
    return tuple(each if speaks else replace(each, score=min(each.score, least)) for each, speaks in zip(passages, speaking, strict=True))


def says_something(text: str) -> bool:
    """Tell whether a text has more than headings in it."""
    return any(line.strip() and not _HEADING.match(line) for line in text.split("\n"))


def _text(family: Sequence[Candidate], section: Section | None) -> str:
    return section.text if section else family[0].chunk.text


def _passage(rank: int, family: Sequence[Candidate], section: Section | None, catalog: Catalog) -> Passage:
    best = family[0]
    document = catalog.documents[best.document]
    start, end = (section.start_line, section.end_line) if section else (best.chunk.start_line, best.chunk.end_line)
    passage_lines = Place(document.folder, document.path, start, end)
    copies = dict.fromkeys(n for child in family for n in child.also_in)
    beside = dict.fromkeys((*(_place_of(child, catalog) for child in family), *catalog.places(list(copies))))
    others = tuple(place for place in beside if not is_inside(place, passage_lines))
    known = facts([catalog.documents[n] for n in dict.fromkeys((*(child.document for child in family), *map(catalog.document_of, copies)))])
    return Passage(
        rank=rank,
        folder=document.folder,
        path=document.path,
        title=document.title,
        heading_path=best.chunk.heading_path,
        start_line=start,
        end_line=end,
        match_start=best.chunk.start_line,
        match_end=best.chunk.end_line,
        score=best.score,
        text=_text(family, section),
        sources=_best_ranks(family),
        cluster_size=1 + len(others),
        also_in=others,
        match=best.chunk.text,
        disagrees=tuple(each for each in _disagreements(family, catalog) if not is_inside(each.place, passage_lines)),
        created=known.created,
        status=known.status,
        owner=known.owner,
        flags=document.flags,
    )


def _place_of(child: Candidate, catalog: Catalog) -> Place:
    document = catalog.documents[child.document]
    return Place(document.folder, document.path, child.chunk.start_line, child.chunk.end_line)


def _disagreements(family: Sequence[Candidate], catalog: Catalog) -> list[Disagreement]:
    """Return what the children disagree with; a text that is gone meanwhile disagrees with nothing."""
    found = [(n, differs, place) for child in family for n, differs in (*child.disagrees, *child.variants) for place in catalog.places([n])]
    return [Disagreement(place, day_of(catalog.documents[catalog.document_of(n)]).isoformat(), differs) for n, differs, place in found]


def _best_ranks(family: Sequence[Candidate]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for child in family:
        for name, rank in child.sources.items():
            ranks[name] = min(rank, ranks.get(name, rank))
    return ranks


def is_inside(place: Place, around: Place) -> bool:
    """Tell whether one place is part of another."""
    return (place.folder, place.path) == (around.folder, around.path) and around.start_line <= place.start_line and place.end_line <= around.end_line
