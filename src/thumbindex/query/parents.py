"""Stage parents: chunks become the sections that hold them, each once, with the chunk that matched marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thumbindex.model import Candidate, ChunkId, Disagreement, Passage, Place, Section, day_of
from thumbindex.ports import Catalog
from thumbindex.query.contradict import together
from thumbindex.query.facts import facts
from thumbindex.query.stage import Search, Tools


def parents(search: Search, tools: Tools) -> Search:
    """Return the candidates' sections as passages, best child first."""
    catalog = tools.snapshot.catalog
    sections = catalog.sections([each.id for each in search.candidates])
    return replace(search, passages=as_passages(search.candidates, sections, catalog))


def as_passages(candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog) -> tuple[Passage, ...]:
    """Return one passage a section, at its best child's place, and behind it those that disagree with it.

    A child without a section is a passage of its own lines.
    """
    families: dict[tuple[int, ...], list[Candidate]] = {}
    for each in candidates:
        section = sections.get(each.id)
        key = (-1, each.id) if section is None else (each.document, section.ordinal)
        families.setdefault(key, []).append(each)
    of = {each.id: key for key, family in families.items() for each in family}
    ordered = together(
        list(families.items()), lambda item: item[0], lambda item: {of[n] for each in item[1] for n, _ in each.disagrees if n in of} - {item[0]}
    )
    return tuple(_passage(rank, family, sections.get(family[0].id), catalog) for rank, (_, family) in enumerate(ordered, 1))


def _passage(rank: int, family: Sequence[Candidate], section: Section | None, catalog: Catalog) -> Passage:
    best = family[0]
    document = catalog.documents[best.document]
    start, end = (section.start_line, section.end_line) if section else (best.chunk.start_line, best.chunk.end_line)
    beside = [n for child in family for n in child.also_in]
    known = facts([catalog.documents[n] for n in dict.fromkeys([best.document, *map(catalog.document_of, beside)])])
    passage_lines = Place(document.folder, document.path, start, end)
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
        also_in=tuple(place for place in catalog.places(beside) if not is_inside(place, passage_lines)),
        match=best.chunk.text,
        disagrees=tuple(each for each in _disagreements(family, catalog) if not is_inside(each.place, passage_lines)),
        created=known.created,
        status=known.status,
        owner=known.owner,
    )


def _disagreements(family: Sequence[Candidate], catalog: Catalog) -> list[Disagreement]:
    """Return what the children disagree with; a text that is gone meanwhile disagrees with nothing."""
    found = [(n, differs, place) for child in family for n, differs in child.disagrees for place in catalog.places([n])]
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
