"""Stage parents: chunks become the sections that hold them, each once, with the chunk that matched marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thumbindex.model import Candidate, ChunkId, Passage, Place, Section
from thumbindex.ports import Catalog
from thumbindex.query.stage import Search, Tools


def parents(search: Search, tools: Tools) -> Search:
    """Return the candidates' sections as passages, best child first."""
    catalog = tools.snapshot.catalog
    sections = catalog.sections([each.id for each in search.candidates])
    return replace(search, passages=as_passages(search.candidates, sections, catalog))


def as_passages(candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog) -> tuple[Passage, ...]:
    """Return one passage a section, at its best child's place; a child without a section is a passage of its own lines."""
    families: dict[tuple[int, ...], list[Candidate]] = {}
    for each in candidates:
        section = sections.get(each.id)
        key = (-1, each.id) if section is None else (each.document, section.ordinal)
        families.setdefault(key, []).append(each)
    return tuple(_passage(rank, family, sections.get(family[0].id), catalog) for rank, family in enumerate(families.values(), 1))


def _passage(rank: int, family: Sequence[Candidate], section: Section | None, catalog: Catalog) -> Passage:
    best = family[0]
    document = catalog.documents[best.document]
    start, end = (section.start_line, section.end_line) if section else (best.chunk.start_line, best.chunk.end_line)
    also_in = catalog.places([n for child in family for n in child.also_in])
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
        text=section.text if section else best.chunk.text,
        sources=_best_ranks(family),
        cluster_size=1 + sum(child.cluster_size - 1 for child in family),
        also_in=tuple(place for place in also_in if not _is_inside(place, document.folder, document.path, start, end)),
        match=best.chunk.text,
    )


def _best_ranks(family: Sequence[Candidate]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for child in family:
        for name, rank in child.sources.items():
            ranks[name] = min(rank, ranks.get(name, rank))
    return ranks


def _is_inside(place: Place, folder: str, path: str, start: int, end: int) -> bool:
    return (place.folder, place.path) == (folder, path) and start <= place.start_line and place.end_line <= end
