"""Which chunks come together in one passage: those of a section, and those of sections that say the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thumbindex.model import BlockKind, Candidate, ChunkId, Section
from thumbindex.ports import Catalog
from thumbindex.query.dedup_ngram import similarity
from thumbindex.query.guards import comparable
from thumbindex.query.merge import greedy, told_apart
from thumbindex.query.sketch import BY_LETTERS, worth_reading
from thumbindex.query.stage import Tools

BEGINNING = 600
"""Characters of a section by which it is seen whether the whole is worth comparing."""

_HEADINGS = re.compile(r"\A(?:[ ]{0,3}#{1,6}[ \t][^\n]*\n|[ \t]*\n)+")
"""What a section begins with: a copy may stand under another heading."""

_Key = tuple[int, ...]

Families = dict[_Key, list[Candidate]]
"""The children of each section, best first, in the order of the best."""


def as_families(candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog) -> Families:
    """Gather children by their sections; one without is alone, and one of which a copy stands in a better section comes with that."""
    families: Families = {}
    for each in candidates:
        own, *others = (_key_of(n, sections, catalog) for n in (each.id, *each.also_in))
        shown = [] if own in families or each.disagrees else [key for key in others if key in families]
        families.setdefault(shown[0] if shown else own, []).append(each)
    return families


def in_larger(families: Families, sections: Mapping[ChunkId, Section], catalog: Catalog) -> Families:
    """Show what is wholly a part of a larger section that was found, too, with that one, in the better one's place."""
    found: Families = {}
    left = dict(families)
    while left:
        key = next(iter(left))
        family = left.pop(key)
        copies = {_key_of(n, sections, catalog): (child, n) for child in reversed(family) for n in reversed(child.also_in)}
        larger = next((other for other in copies if other in left and _is_part(family, left[other], copies[other][1], sections, catalog)), None)
        if larger is None:
            found[key] = family
        else:
            child, copy = copies[larger]
            moved = _in_place_of(child, copy, catalog)
            found[larger] = [*moved, *left.pop(larger), *(each for each in family if not moved or each is not child)]
    return found


def _is_part(family: Sequence[Candidate], others: Sequence[Candidate], copy: ChunkId, sections: Mapping[ChunkId, Section], catalog: Catalog) -> bool:
    """Tell whether a family's section stands in that of others, where a child has a copy: word for word, or each of its chunks as a copy."""
    section, larger = sections.get(family[0].id), sections.get(copy)
    if section is None or larger is None or any(each.disagrees for each in (*family, *others)):
        return False
    part, whole = (" ".join(comparable(_HEADINGS.sub("", each.text))[0].split()) for each in (section, larger))
    if part and part in whole:
        return True
    own = catalog.sections([ChunkId(n) for n in catalog.chunk_ids(family[0].document)])
    key = _key_of(copy, sections, catalog)
    copied = {child.id for child in family if any(_key_of(n, sections, catalog) == key for n in child.also_in)}
    return len(part) < len(whole) and all(n in copied for n, each in own.items() if each.ordinal == section.ordinal)


def _in_place_of(child: Candidate, copy: ChunkId, catalog: Catalog) -> list[Candidate]:
    """Return a child's copy in its place; nothing where its text is gone meanwhile."""
    others = tuple(n for n in (child.id, *child.also_in) if n != copy)
    return [replace(child, id=copy, document=catalog.document_of(copy), chunk=chunk, also_in=others) for chunk in catalog.chunks([copy]).values()]


def without_copies(families: Families, sections: Mapping[ChunkId, Section], limit: int, tools: Tools) -> Families:
    """Put those with a better section that says the same, which their chunks did not show: a reworded section is cut at other places."""
    keys = [key for key, family in families.items() if family[0].id in sections and not any(each.disagrees for each in family)][: 2 * limit]
    texts = [_HEADINGS.sub("", sections[families[key][0].id].text) for key in keys]
    alike = worth_reading([text[:BEGINNING] for text in texts], BY_LETTERS)

    def apart(at: int, other: int) -> str | None:
        if similarity(texts[at], texts[other]) < tools.settings.dedup_ngram.similarity:
            return "not alike"
        first, second = (_as_one(families[keys[n]][0], texts[n]) for n in (at, other))
        return told_apart(first, second, tools.snapshot.duplicates)

    copies = greedy(np.asarray(alike), apart)
    found = {key: list(family) for key, family in families.items()}
    for at, other in copies.items():
        found[keys[other]] += found.pop(keys[at])
    return found


def _as_one(child: Candidate, text: str) -> Candidate:
    """Return a child with the text of its section, which may be of several kinds."""
    return replace(child, chunk=replace(child.chunk, text=text, kind=BlockKind.PROSE, language=""))


def _key_of(chunk: ChunkId, sections: Mapping[ChunkId, Section], catalog: Catalog) -> _Key:
    """Return what tells a chunk's section from all others."""
    section = sections.get(chunk)
    return (-1, chunk) if section is None else (catalog.document_of(chunk), section.ordinal)
