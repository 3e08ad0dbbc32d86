"""Stage parents: return the sections of the candidates as passages, each section once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from thumbindex.compare.differences import text_difference
from thumbindex.model import (
    Candidate,
    Chunk,
    ChunkId,
    Disagreement,
    DocumentId,
    Passage,
    Place,
    Section,
    created_on,
    day_of,
    iso_day,
    modified_on,
)
from thumbindex.ports import Catalog
from thumbindex.query.in_force import (
    lowered_notes,
    mark_retired,
    passages_of_successors_first,
)
from thumbindex.query.provenance import shared_provenance
from thumbindex.query.reorder import group_partners
from thumbindex.query.shorten import BACKGROUND_RANK
from thumbindex.query.stage import Search, Tools

_SectionKey = tuple[int, ...]
"""Document id and ordinal of a section; -1 and the chunk id for a chunk without a section."""

_SectionGroups = dict[_SectionKey, list[Candidate]]
"""The candidates of each section, best first; the section with the best candidate first."""

_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")


def parents(search: Search, tools: Tools) -> Search:
    """Add the sections of the candidates as passages, best first."""
    ids = dict.fromkeys(
        n for candidate in search.candidates for n in (candidate.id, *candidate.also_in)
    )
    return _with_passages(search, tools.snapshot.catalog.sections(list(ids)), tools)


def chunks_as_passages(search: Search, tools: Tools) -> Search:
    """Add a passage for each candidate, with the lines of its chunk instead of its section."""
    return _with_passages(search, {}, tools)


def _with_passages(search: Search, sections: Mapping[ChunkId, Section], tools: Tools) -> Search:
    """Add passages up to one beyond the limit, and at least up to the background."""
    catalog, limit = tools.snapshot.catalog, tools.limit(search.query)
    lowered = lowered_notes(search, tools)
    groups = group_by_section(search.candidates, sections, catalog, lowered)
    ordered = order_passages(groups, sections)
    ordered = passages_of_successors_first(ordered, lowered)
    shown = ordered[: max(limit + 1, BACKGROUND_RANK)]
    passages = make_passages(shown, sections, catalog, lowered)
    return replace(
        search,
        passage_chunks=tuple(tuple(candidate.id for candidate in group) for group, _ in ordered),
        passages=mark_retired(passages, [group[0].document for group, _ in shown], search, tools),
    )


def group_by_section(
    candidates: Sequence[Candidate],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
    lowered: Collection[DocumentId] = (),
) -> _SectionGroups:
    """Group candidates by section.

    If the section of a candidate has no group yet, the candidate joins the group of a copy, but not
    in a note of `lowered`, the retired notes.
    """
    groups: _SectionGroups = {}
    for candidate in candidates:
        copies = (n for n in candidate.also_in if catalog.document_of(n) not in lowered)
        own_key, *copy_keys = (_section_key(n, sections, catalog) for n in (candidate.id, *copies))
        key = own_key
        # a candidate that the query names, or that contradicts another, stays in its section
        if own_key not in groups and not candidate.disagrees and not candidate.name_kind:
            key = next((other for other in copy_keys if other in groups), own_key)
        groups.setdefault(key, []).append(candidate)
    return groups


def _section_key(
    chunk: ChunkId, sections: Mapping[ChunkId, Section], catalog: Catalog
) -> _SectionKey:
    section = sections.get(chunk)
    return (-1, chunk) if section is None else (catalog.document_of(chunk), section.ordinal)


def order_passages(
    groups: _SectionGroups, sections: Mapping[ChunkId, Section]
) -> list[tuple[list[Candidate], bool]]:
    """Return the groups in the order of their passages, each with True if the passage is full.

    A passage with only headings is not full, unless the query names it. Passages that are not full
    come last. Contradicting passages are neighbors.
    """
    section_of = {candidate.id: key for key, group in groups.items() for candidate in group}

    def contradicting(item: tuple[_SectionKey, list[Candidate]]) -> set[_SectionKey]:
        chunks = (n for candidate in item[1] for n, _ in candidate.disagrees)
        return {section_of[n] for n in chunks if n in section_of} - {item[0]}

    ordered = group_partners(list(groups.items()), lambda item: item[0], contradicting)
    passages = [
        (group, _has_body(_passage_text(group, sections)) or bool(group[0].name_kind))
        for _, group in ordered
    ]
    return sorted(passages, key=lambda passage: not passage[1])


def make_passages(
    ordered: Sequence[tuple[Sequence[Candidate], bool]],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
    lowered: Collection[DocumentId] = (),
) -> tuple[Passage, ...]:
    """Return the passages of the groups. Copies in `lowered` notes do not decide the status.

    The score of a passage that is not full is at most the lowest score of the full passages.
    """
    passages, lowest_full_score = [], 1.0
    for rank, (group, is_full) in enumerate(ordered, 1):
        passage = _passage(rank, group, sections, catalog, lowered)
        if is_full:
            lowest_full_score = min(lowest_full_score, passage.score)
        else:
            passage = replace(passage, score=min(passage.score, lowest_full_score))
        passages.append(passage)
    return tuple(passages)


def _has_body(text: str) -> bool:
    return any(line.strip() and not _HEADING.match(line) for line in text.split("\n"))


def _passage_text(group: Sequence[Candidate], sections: Mapping[ChunkId, Section]) -> str:
    section = sections.get(group[0].id)
    return section.text if section else group[0].chunk.text


def _passage(
    rank: int,
    group: Sequence[Candidate],
    sections: Mapping[ChunkId, Section],
    catalog: Catalog,
    lowered: Collection[DocumentId],
) -> Passage:
    best, section = group[0], sections.get(group[0].id)
    document = catalog.documents[best.document]
    start, end = (
        (section.start_line, section.end_line)
        if section
        else (best.chunk.start_line, best.chunk.end_line)
    )
    own_place = Place(document.folder, document.path, start, end)
    copies = {
        n: copy
        for n, copy in catalog.chunks(best.also_in).items()
        if text_difference(best.chunk.text, copy.text) is None
    }
    others = tuple(
        place for place in dict.fromkeys(_places(copies, catalog)) if not own_place.contains(place)
    )
    others_in_force = (n for n in map(catalog.document_of, copies) if n not in lowered)
    documents = dict.fromkeys((best.document, *others_in_force))
    provenance = shared_provenance([catalog.documents[n] for n in documents])
    updated = day_of(document)
    disagrees = [
        disagreement
        for disagreement in _disagreements(group, catalog)
        if not own_place.contains(disagreement)
    ]
    return Passage(
        rank=rank,
        folder=document.folder,
        path=document.path,
        title=document.title,
        heading_path=best.chunk.heading_path,
        start_line=start,
        end_line=end,
        match_start_line=best.chunk.start_line,
        match_end_line=best.chunk.end_line,
        score=best.score,
        text=_passage_text(group, sections),
        sources=_best_ranks(group),
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


def chunk_place(candidate: Candidate, catalog: Catalog) -> Place:
    """Return the location of a candidate's chunk."""
    document = catalog.documents[candidate.document]
    return Place(
        document.folder, document.path, candidate.chunk.start_line, candidate.chunk.end_line
    )


def chunk_places(ids: Sequence[ChunkId], catalog: Catalog) -> tuple[Place, ...]:
    """Return the locations of the chunks that still exist."""
    chunks = catalog.chunks(ids)
    return _places({n: chunks[n] for n in ids if n in chunks}, catalog)


def _places(chunks: Mapping[ChunkId, Chunk], catalog: Catalog) -> tuple[Place, ...]:
    return tuple(
        chunk_place(Candidate(n, catalog.document_of(n), chunk, 0.0), catalog)
        for n, chunk in chunks.items()
    )


def _disagreements(group: Sequence[Candidate], catalog: Catalog) -> list[Disagreement]:
    """Return the disagreements between the candidates and other chunks that still exist."""
    disagreements = []
    for n, differs in chain.from_iterable(candidate.disagrees for candidate in group):
        for place in chunk_places([n], catalog):
            document = catalog.documents[catalog.document_of(n)]
            date = iso_day(day_of(document))
            lines = (place.start_line, place.end_line)
            disagreements.append(Disagreement(place.folder, place.path, *lines, date, differs))
    return disagreements


def _best_ranks(group: Sequence[Candidate]) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for candidate in group:
        for name, rank in candidate.sources.items():
            ranks[name] = min(rank, ranks.get(name, rank))
    return ranks
