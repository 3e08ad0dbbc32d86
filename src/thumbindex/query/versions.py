"""The stages that make one of several places: versions of a page, told by paths and headings, and
copies that the index knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from thumbindex.compare.differences import contradiction, differing
from thumbindex.compare.likeness import similarities
from thumbindex.model import Candidate, ChunkId, Document, day_of
from thumbindex.ports import Catalog
from thumbindex.query.copies import Copy, merge, near_copies
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import QUOTED, is_identifier, tokens

_VERSION = re.compile(r"(?<![^\W_])[vV]?(?:\d+(?:\.(?:\d+|x))+|(?<=[vV])\d+)(?![^\W_])")
_DATE = re.compile(r"(?:19|20)\d\d([-._])\d{1,2}\1\d{1,2}")
_CURRENT = frozenset(("latest", "stable", "current", "next"))
"""Folders that stand for a version."""

_ANY = "\0"
"""Stands for a version in a name: no path has it."""


@lru_cache(maxsize=4096)
def versionless(path: str) -> str:
    """Return what the paths of all versions of a page have in common: `5.1/x.md`, `latest/x.md` and
    `x.md` are one page.
    """
    *folders, name = path.split("/")
    kept = [_without_version(each) for each in folders if each.casefold() not in _CURRENT]
    stem, dot, suffix = name.rpartition(".")
    bare = _without_version(stem)
    # a name that is but a version is its release's note
    bare = bare if re.search(r"[^\W\d_]", bare) else stem
    return "/".join([*(each for each in kept if each != _ANY), f"{bare}{dot}{suffix}"])


def _without_version(part: str) -> str:
    return part if _DATE.search(part) else _VERSION.sub(_ANY, part)


def version_of(path: str) -> tuple[int, ...]:
    """Return the first version in a path as numbers that can be compared; empty where there is
    none. A date is none.
    """
    found = _VERSION.search(_DATE.sub("", path))
    return tuple(int(number) for number in re.findall(r"\d+", found[0])) if found else ()


def gather(
    search: Search,
    tools: Tools,
    groups: Sequence[tuple[Sequence[int], Candidate]],
    why: str,
) -> Search:
    """Make one candidate of each group of positions, ascending: what is shown takes the place and
    the score of the first, and has the best of all ranks.
    """
    candidates = search.candidates
    copies = {at: Copy(group[0], why) for group, _ in groups for at in group}
    shown = {
        group[0]: _shown(candidate, [candidates[at] for at in group]) for group, candidate in groups
    }
    return merge(search, tools, copies, shown)


def _shown(shown: Candidate, members: Sequence[Candidate]) -> Candidate:
    sources = {
        name: min(each.sources[name] for each in members if name in each.sources)
        for each in members
        for name in each.sources
    }
    return replace(shown, score=members[0].score, sources=sources)


def newness(document: Document) -> tuple[int, float]:
    """Return what the newer of two documents has more of: its day, on one day the time of the last
    edit that was seen; least where none is known.
    """
    day = day_of(document)
    return day.toordinal() if day else 0, 0.0 if document.date else document.edited


MOST_COMPARED = 500
"""Copies of one text whose dates are compared: a footer that stands in thousands of notes is no
news in any of them.
"""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Make one of known copies, in the best one's place; all their places are named, those that
    were not found, too. A copy of a copy may say something else.
    """
    candidates = search.candidates
    known = {each.id: tools.snapshot.duplicates.copies(each.id) for each in candidates}
    groups: list[tuple[Sequence[int], Candidate]] = []
    taken: set[int] = set()
    for at, first in enumerate(candidates):
        if at in taken:
            continue
        same = [
            n
            for n, each in enumerate(candidates[at + 1 :], at + 1)
            if n not in taken
            and not each.name_kind
            and (each.id in known[first.id] or first.id in known[each.id])
        ]
        found = [first, *(candidates[n] for n in same)]
        held = {each.id for each in found}
        others = tuple(n for n in known[first.id] if n not in held)
        if others or same:
            taken.update(same)
            shown = first if first.name_kind else _newest(found, others, search, tools)
            also_in = dict.fromkeys(n for each in found for n in (each.id, *each.also_in))
            also_in |= dict.fromkeys(others)
            groups.append(((at, *same), replace(shown, also_in=tuple(also_in))))
    return gather(search, tools, groups, "a known copy")


def _newest(
    mine: Sequence[Candidate], others: Sequence[ChunkId], search: Search, tools: Tools
) -> Candidate:
    """Return the newest text, of equals the best.

    It may be one that was not found, if the filters let it through and it is no other version of
    the page.
    """
    catalog = tools.snapshot.catalog
    documents = {n: catalog.documents[catalog.document_of(n)] for n in others[:MOST_COMPARED]}
    best = max(mine, key=lambda each: newness(catalog.documents[each.document]))
    own = catalog.documents[best.document]
    found = {n for each in search.candidates for n in (each.id, *each.also_in)}
    for n in sorted(documents, key=lambda n: newness(documents[n]), reverse=True):
        if newness(documents[n]) <= newness(own):
            break
        is_version = versionless(documents[n].path) == versionless(own.path)
        if n not in found and not is_version and search.findable([n]):
            for chunk in catalog.chunks([n]).values():
                return Candidate(n, catalog.document_of(n), chunk, best.score)
    return best


_SLASH = "\1"
"""Stands for a slash in a folder's name: the page `x.md` of `work/home` is not `home/x.md` of
`work`.
"""


def variants(search: Search, tools: Tools) -> Search:
    """Make one of a page's versions, in the best one's place: what the query names comes first,
    else the highest version, the newest.
    """
    candidates = search.candidates
    groups: list[tuple[Sequence[int], Candidate]] = []
    for members in _grouped(candidates, tools):
        found = [candidates[at] for at in members]
        named = [each for each in found if each.name_kind is found[0].name_kind]
        shown = first_of(named, search.text, tools.snapshot.catalog)
        otherwise = tuple(
            (each.id, differs)
            for each in found
            if (differs := contradiction(shown.chunk.text, each.chunk.text))
        )
        shown = replace(shown, variants=(*shown.variants, *otherwise))
        groups.append((members, shown))
    return gather(search, tools, groups, "a variant")


def _grouped(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, ...]]:
    """Return the positions of near copies that are versions of the first of them, and nearest to it
    of their document.
    """
    likeness = similarities(tuple(each.chunk.text for each in candidates))
    document = np.array([each.document for each in candidates])

    def are_nearest(a: int, b: int) -> bool:
        of_first, of_second = document == document[a], document == document[b]
        nearest = max(likeness[a, of_second].max(), likeness[of_first, b].max())
        return bool(likeness[a, b] >= nearest)

    groups: dict[int, list[int]] = {}
    taken: set[int] = set()
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        is_free = not taken & {a, b} and b not in groups
        if is_free and are_nearest(a, b) and are_versions(first, second, tools):
            members = groups.setdefault(a, [a])
            if second.document not in {candidates[at].document for at in members}:
                members.append(b)
                taken.add(b)
    return [tuple(members) for members in groups.values() if len(members) > 1]


def are_versions(first: Candidate, second: Candidate, tools: Tools) -> bool:
    """Tell whether two near copies are one passage of two versions of a page: by their paths and
    headings.

    Two versions may differ in anything. Notes with a version in their names may be about releases:
    they may differ in that version alone.
    """
    documents = tools.snapshot.catalog.documents
    paths = [full_path(documents[each.document]) for each in (first, second)]
    headings = [_without_version(" > ".join(each.chunk.heading_path)) for each in (first, second)]
    if (
        paths[0] == paths[1]
        or versionless(paths[0]) != versionless(paths[1])
        or headings[0] != headings[1]
        or tools.snapshot.duplicates.verdict(first.id, second.id) == "apart"
    ):
        return False
    names = [path.rpartition("/")[2] for path in paths]
    if names[0] == names[1]:
        return True
    texts = (
        each.chunk.text.replace(".".join(map(str, version_of(name))), "")
        for each, name in zip((first, second), names, strict=True)
    )
    return not second.name_kind and differing(*texts) is None


def full_path(document: Document) -> str:
    """Return where a document is, by its folder's name, too: two folders have files of one path."""
    return f"{document.folder.replace('/', _SLASH)}/{document.path}"


def first_of(candidates: Sequence[Candidate], query: str, catalog: Catalog) -> Candidate:
    """Return which of several versions, best first, is shown.

    The one that the query names, that holds what it asks for to the letter, the highest version,
    the newest.
    """
    documents = [catalog.documents[each.document] for each in candidates]
    versions = [version_of(full_path(each)) for each in documents]
    exact = exact_in(query)

    def claim(at: int) -> tuple[bool, int, tuple[int, ...], tuple[int, float], int]:
        named = is_named(".".join(map(str, versions[at])), query)
        held = sum(each in candidates[at].chunk.text.casefold() for each in exact)
        return named, held, versions[at], newness(documents[at]), -at

    return candidates[max(range(len(candidates)), key=claim)]


def exact_in(query: str) -> frozenset[str]:
    """Return what a query asks for to the letter: quoted phrases, numbers and identifiers; only
    some versions of a page may hold it.
    """
    quoted = QUOTED.findall(query)
    codes = [token for token in tokens(query) if is_identifier(token) or token.isdecimal()]
    return frozenset(each.casefold() for each in (*quoted, *codes))


def is_named(version: str, query: str) -> bool:
    """Tell whether a query names a version."""
    asked = (token.strip("\"'`,;:!?()[].").removeprefix("v") for token in query.casefold().split())
    return bool(version) and version in asked
