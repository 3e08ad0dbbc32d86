"""Stage parents: turn chunks into the sections that contain them, once each, with the matching
chunk marked.
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
    day_of,
    iso_day,
    modified_on,
)
from thumbindex.ports import Catalog
from thumbindex.query.provenance import shared_provenance
from thumbindex.query.reorder import group_partners
from thumbindex.query.stage import Search, Tools

_Key = tuple[int, ...]

_Families = dict[_Key, list[Candidate]]
"""The candidates of a section, best first, in the order of the best."""

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")


def parents(search: Search, tools: Tools) -> Search:
    """Return the candidates' sections as passages, the best candidate first."""
    ids = dict.fromkeys(n for each in search.candidates for n in (each.id, *each.also_in))
    return _with_passages(
        search, tools.snapshot.catalog.sections(list(ids)), tools.snapshot.catalog
    )


def chunks_as_passages(search: Search, tools: Tools) -> Search:
    """Return the candidates as passages of their own lines."""
    return _with_passages(search, {}, tools.snapshot.catalog)


def _with_passages(search: Search, sections: Mapping[ChunkId, Section], catalog: Catalog) -> Search:
    found = search.lists.get("search_keyword")
    coverage = {hit.chunk: hit.coverage for hit in found.hits} if found else {}
    ordered = order_passages(
        group_by_section(search.candidates, sections, catalog), sections, coverage
    )
    return replace(
        search,
        passage_chunks=tuple(tuple(each.id for each in family) for family, _ in ordered),
        passages=make_passages(ordered, sections, catalog, search.query.limit),
    )


def group_by_section(
    candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog
) -> _Families:
    """Group candidates by section. A candidate with a copy in a better section joins that one."""
    families: _Families = {}
    for each in candidates:
        own, *others = (_section_key(n, sections, catalog) for n in (each.id, *each.also_in))
        key = own
        if own not in families and not each.disagrees and not each.name_kind:
            key = next((other for other in others if other in families), own)
        families.setdefault(key, []).append(each)
    return families


def _section_key(chunk: ChunkId, sections: Mapping[ChunkId, Section], catalog: Catalog) -> _Key:
    section = sections.get(chunk)
    return (-1, chunk) if section is None else (catalog.document_of(chunk), section.ordinal)


def order_passages(
    families: _Families, sections: Mapping[ChunkId, Section], coverage: Mapping[ChunkId, float]
) -> list[tuple[list[Candidate], bool]]:
    """Return the families in the order of their passages, contradicting ones together, and whether
    each is a full passage.

    A section of headings alone is none and comes last, unless the query names it, or no other
    section holds as much of the query: `coverage` is the share of its words that a chunk holds.
    """
    of = {each.id: key for key, family in families.items() for each in family}
    ordered = group_partners(
        list(families.items()),
        lambda item: item[0],
        lambda item: {of[n] for each in item[1] for n, _ in each.disagrees if n in of} - {item[0]},
    )
    has_body = [_has_body(_passage_text(family, sections)) for _, family in ordered]
    covered = [max(coverage.get(each.id, 0.0) for each in family) for _, family in ordered]
    most = max((own for own, body in zip(covered, has_body, strict=True) if body), default=0.0)
    found = [
        (family, body or bool(family[0].name_kind) or own > most)
        for (_, family), own, body in zip(ordered, covered, has_body, strict=True)
    ]
    return sorted(found, key=lambda each: not each[1])


def make_passages(
    ordered: Sequence[tuple[Sequence[Candidate], bool]],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
    limit: int,
) -> tuple[Passage, ...]:
    """Return the passages up to the limit, and those behind it that may contradict the last one.

    A passage of headings alone scores no higher than the full passages.
    """
    end = limit
    while end < len(ordered) and any(each.disagrees for each in ordered[end][0]):
        end += 1
    passages, least = [], 1.0
    for rank, (family, is_full) in enumerate(ordered[:end], 1):
        passage = _passage(rank, family, sections, catalog)
        if is_full:
            least = min(least, passage.score)
        passages.append(passage if is_full else replace(passage, score=min(passage.score, least)))
    return tuple(passages)


def cut_to_limit(passages: Sequence[Passage], limit: int) -> tuple[Passage, ...]:
    """Return the first passages. A pair that the limit would split replaces the last two."""
    shown, last = tuple(passages[:limit]), limit - 1
    is_split = limit < len(passages) and any(
        is_inside(each, passage_place(passages[limit])) for each in passages[last].disagrees
    )
    if is_split and limit > 1 and not passages[last - 1].disagrees:
        return (*passages[: last - 1], *(replace(passages[n], rank=n) for n in (last, limit)))
    return shown


def _has_body(text: str) -> bool:
    """Return whether a text has more than headings."""
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
        file_time="" if provenance.created or updated else iso_day(modified_on(document)),
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
    for n, differs in (
        each for child in family for each in (*child.disagrees, *child.other_versions)
    ):
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
    """Return whether one place is part of another."""
    return (
        (place.folder, place.path) == (around.folder, around.path)
        and around.start_line <= place.start_line
        and place.end_line <= around.end_line
    )
