"""Stage parents: chunks become the sections that hold them, each once, with the chunk that matched
marked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from thumbindex.model import (
    Candidate,
    ChunkId,
    Disagreement,
    Passage,
    Place,
    Section,
    created_on,
    day_modified,
    day_of,
    iso_day,
)
from thumbindex.ports import Catalog
from thumbindex.query.provenance import shared_provenance
from thumbindex.query.reorder import group_partners
from thumbindex.query.stage import Search, Tools

_Key = tuple[int, ...]

_Families = dict[_Key, list[Candidate]]
"""The children of each section, best first, in the order of the best."""


def group_by_section(
    candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog
) -> _Families:
    """Gather children by their sections; one without is alone, and one of which a copy stands in a
    better section comes with that.
    """
    families: _Families = {}
    for each in candidates:
        own, *others = (_section_key(n, sections, catalog) for n in (each.id, *each.also_in))
        key = own
        if own not in families and not each.disagrees and not each.name_kind:
            key = next((other for other in others if other in families), own)
        families.setdefault(key, []).append(each)
    return families


def _section_key(chunk: ChunkId, sections: Mapping[ChunkId, Section], catalog: Catalog) -> _Key:
    """Return what tells a chunk's section from all others."""
    section = sections.get(chunk)
    return (-1, chunk) if section is None else (catalog.document_of(chunk), section.ordinal)


_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")


def parents(search: Search, tools: Tools) -> Search:
    """Return the candidates' sections as passages, best child first; what stands in one as a copy
    already comes with that one.
    """
    catalog = tools.snapshot.catalog
    sections = catalog.sections(
        list(dict.fromkeys(n for each in search.candidates for n in (each.id, *each.also_in)))
    )
    families = group_by_section(search.candidates, sections, catalog)
    ordered = order_passages(families, sections, keyword_coverage(search))
    return replace(
        search,
        families=tuple(tuple(each.id for each in family) for family, _ in ordered),
        passages=make_passages(ordered, sections, catalog, search.query.limit),
    )


def keyword_coverage(search: Search) -> Mapping[ChunkId, float]:
    """Return the share of the question's words that chunks hold which were found by words."""
    found = search.lists.get("search_keyword")
    return {hit.chunk: hit.coverage for hit in found.hits} if found else {}


def order_passages(
    families: _Families, sections: Mapping[ChunkId, Section], held: Mapping[ChunkId, float]
) -> list[tuple[list[Candidate], bool]]:
    """Return the families in the order of their passages, those that disagree behind each other,
    and whether each says something.

    A section of headings alone comes last, unless it was asked for by its name, or no other
    section holds as much of the question: `held` is the share of the question's words that a chunk
    holds.
    """
    of = {each.id: key for key, family in families.items() for each in family}
    ordered = group_partners(
        list(families.items()),
        lambda item: item[0],
        lambda item: {of[n] for each in item[1] for n, _ in each.disagrees if n in of} - {item[0]},
    )
    texts = [_has_body(_passage_text(family, sections)) for _, family in ordered]
    words = [max(held.get(each.id, 0.0) for each in family) for _, family in ordered]
    most = max((own for own, is_text in zip(words, texts, strict=True) if is_text), default=0.0)
    says = [
        is_text or bool(family[0].name_kind) or own > most
        for (_, family), own, is_text in zip(ordered, words, texts, strict=True)
    ]
    found = [(family, speaks) for (_, family), speaks in zip(ordered, says, strict=True)]
    return sorted(found, key=lambda each: not each[1])


def make_passages(
    ordered: Sequence[tuple[Sequence[Candidate], bool]],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
    limit: int,
) -> tuple[Passage, ...]:
    """Return a passage a family: its section, or its own lines.

    There are as many as the limit, and those behind the last of them that may disagree with it.
    """
    end = limit
    while end < len(ordered) and any(each.disagrees for each in ordered[end][0]):
        end += 1
    passages = [
        _passage(rank, family, sections, catalog)
        for rank, (family, _) in enumerate(ordered[:end], 1)
    ]
    return _cap_scores(passages, [speaks for _, speaks in ordered[:end]])


def _cap_scores(passages: Sequence[Passage], says: Sequence[bool]) -> tuple[Passage, ...]:
    """Return the passages, the score of one that says nothing no higher than what stands before
    it.
    """
    least = min(
        (each.score for each, speaks in zip(passages, says, strict=True) if speaks), default=1.0
    )
    return tuple(
        each if speaks else replace(each, score=min(each.score, least))
        for each, speaks in zip(passages, says, strict=True)
    )


def _has_body(text: str) -> bool:
    """Tell whether a text has more than headings in it."""
    return any(line.strip() and not _HEADING.match(line) for line in text.split("\n"))


def _passage_text(family: Sequence[Candidate], sections: Mapping[ChunkId, Section]) -> str:
    section = sections.get(family[0].id)
    return section.text if section else family[0].chunk.text


def _passage(
    rank: int,
    family: Sequence[Candidate],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
) -> Passage:
    best, section = family[0], sections.get(family[0].id)
    document = catalog.documents[best.document]
    start, end = (
        (section.start_line, section.end_line)
        if section
        else (best.chunk.start_line, best.chunk.end_line)
    )
    passage_lines = Place(document.folder, document.path, start, end)
    copies = dict.fromkeys(n for child in family for n in child.also_in)
    beside = dict.fromkeys(
        (
            *(chunk_place(child, catalog) for child in family),
            *chunk_places(list(copies), catalog),
        )
    )
    others = tuple(place for place in beside if not is_inside(place, passage_lines))
    documents = dict.fromkeys(
        (*(child.document for child in family), *map(catalog.document_of, copies))
    )
    provenance = shared_provenance([catalog.documents[n] for n in documents])
    updated = day_of(document)
    disagrees = [
        each for each in _disagreements(family, catalog) if not is_inside(each, passage_lines)
    ]
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
        text=_passage_text(family, sections),
        sources=_best_ranks(family),
        cluster_size=1 + len(others),
        also_in=others,
        match=best.chunk.text,
        disagrees=tuple(disagrees),
        created=provenance.created,
        updated=iso_day(updated) if updated != created_on(document) else "",
        file_time="" if provenance.created or updated else iso_day(day_modified(document)),
        status=provenance.status,
        owner=provenance.owner,
        flags=document.flags,
    )


def chunk_place(child: Candidate, catalog: Catalog) -> Place:
    """Return the lines of a candidate."""
    document = catalog.documents[child.document]
    return Place(document.folder, document.path, child.chunk.start_line, child.chunk.end_line)


def chunk_places(ids: Sequence[ChunkId], catalog: Catalog) -> tuple[Place, ...]:
    """Return the lines of chunks, without those that are gone meanwhile."""
    chunks = catalog.chunks(ids)
    return tuple(
        chunk_place(Candidate(n, catalog.document_of(n), chunks[n], 0.0), catalog)
        for n in ids
        if n in chunks
    )


def passage_place(passage: Passage) -> Place:
    """Return the lines of a passage."""
    return Place(passage.folder, passage.path, passage.start_line, passage.end_line)


def _disagreements(family: Sequence[Candidate], catalog: Catalog) -> list[Disagreement]:
    """Return what the children disagree with; a text that is gone meanwhile disagrees with
    nothing.
    """
    found = []
    for n, differs in (each for child in family for each in (*child.disagrees, *child.variants)):
        for place in chunk_places([n], catalog):
            document = catalog.documents[catalog.document_of(n)]
            date = iso_day(day_of(document))
            lines = (place.start_line, place.end_line)
            found.append(Disagreement(place.folder, place.path, *lines, date, differs))
    return found


def _best_ranks(family: Sequence[Candidate]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for child in family:
        for name, rank in child.sources.items():
            ranks[name] = min(rank, ranks.get(name, rank))
    return ranks


def is_inside(place: Place, around: Place) -> bool:
    """Tell whether one place is part of another."""
    return (
        (place.folder, place.path) == (around.folder, around.path)
        and around.start_line <= place.start_line
        and place.end_line <= around.end_line
    )
