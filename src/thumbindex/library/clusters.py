"""Clusters of texts that say the same, put together from the pairs and decisions of a store."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from thumbindex.index.clusters import Clusters
from thumbindex.index.store import Store, document_from_row
from thumbindex.index.stored_duplicates import Alike
from thumbindex.library.reader import Reader
from thumbindex.model import Chunk, Cluster, Decision, Place, Standing, day_of
from thumbindex.text import text_key

ID_DIGITS = 8
"""Hex digits of a cluster's name: to be typed, and a million clusters seldom have two of one name."""

_EACH_TWO = 50
"""Up to so many texts of a cluster are decided each two, whatever may be found later; of more, which would be thousands, those that were found."""

Pair = tuple[str, str]
"""The digests of two texts, the lesser first."""


@dataclass(frozen=True, slots=True)
class FolderDuplicates:
    """What is known of duplicates in one folder."""

    clusters: tuple[Cluster, ...]
    lapsed: tuple[Decision, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class _Link:
    """Two texts that are alike."""

    ends: Pair
    rows: frozenset[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def read_clusters(reader: Reader) -> FolderDuplicates:
    """Read a folder's clusters, those of one text first, by where they stand, and its lapsed decisions."""
    store, name = reader.store, reader.folder.name
    with store.reading():
        alike, decisions = store.alike(), store.decisions()
        chunks = store.chunks(sorted({row for pair in alike for row in pair[:2]}))
        digests = {row: text_key(chunk.text).hex() for row, chunk in chunks.items()}
        lapsed, elsewhere = _lapsed(store, decisions, digests)
        links = _links(alike, digests)
        links += _decided_links(decisions, elsewhere | digests, links)
        rows = {row for link in links for row in link.rows}
        standings = _standings(store, rows, name)
        total = len(store.chunk_rows())
    verdicts = {(each.first, each.second): each for each in decisions}
    clusters = [_cluster_of(each, standings, verdicts, name) for each in _components(links)]
    order = sorted(clusters, key=lambda each: (each.zone != "same", each.standings[0].place.path, each.standings[0].place.start_line, each.id))
    return FolderDuplicates(tuple(order), lapsed, total)


def _links(alike: Iterable[Alike], digests: dict[int, str]) -> list[_Link]:
    found = []
    for a, b, cosine, zone, rule, differs in alike:
        if a in digests and b in digests:
            low, high = sorted((digests[a], digests[b]))
            found.append(_Link((low, high), frozenset((a, b)), cosine, zone, rule, differs))
    return found


def _decided_links(decisions: Sequence[Decision], digests: dict[int, str], links: Sequence[_Link]) -> list[_Link]:
    """Return what the owner decided of texts that the index does not hold for alike: imported, or found by other settings."""
    listed = {link.ends for link in links}
    rows: dict[str, set[int]] = {}
    for row, digest in digests.items():
        rows.setdefault(digest, set()).add(row)
    found = []
    for each in decisions:
        ends = (each.first, each.second)
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if ends not in listed and len(both) > 1 and rows.keys() >= set(ends):
            found.append(_Link(ends, both, 0.0, "decided", "by the owner alone", ""))
    return found


def _components(links: Sequence[_Link]) -> list[list[_Link]]:
    """Group links: those of one text by what hangs together, of the others each two texts by themselves."""
    number = {digest: n for n, digest in enumerate(sorted({digest for link in links for digest in link.ends}))}
    same = [[number[digest] for digest in link.ends] for link in links if link.zone == "same"]
    clusters = Clusters(np.array(same, dtype=np.int64).reshape(-1, 2), {}, {})
    groups: dict[tuple[str, ...], list[_Link]] = {}
    for link in links:
        one, other = (clusters.of(number[digest])[:1] for digest in link.ends)
        if link.zone == "same" or (link.zone == "decided" and one and one == other):
            groups.setdefault(("same", str(one)), []).append(link)
        else:
            groups.setdefault(("grey", *link.ends), []).append(link)
    return list(groups.values())


def _cluster_of(links: list[_Link], standings: dict[int, Standing], verdicts: dict[Pair, Decision], folder: str) -> Cluster:
    first = min(links, key=lambda link: (link.cosine, link.ends))
    rows = {row for link in links for row in link.rows}
    zone = "same" if first.zone == "same" else "grey"
    key = min(digest for link in links for digest in link.ends) if zone == "same" else "".join(first.ends)
    decided = {link.ends: verdicts.get(link.ends) for link in links}
    made = [each for each in decided.values() if each]
    verdict = made[0].verdict if len(made) == len(decided) and len({each.verdict for each in made}) == 1 else None
    return Cluster(
        hashlib.blake2b(f"{zone}{key}".encode(), digest_size=ID_DIGITS // 2).hexdigest(),
        folder,
        "same" if zone == "same" else "grey",
        first.rule,
        "; ".join(dict.fromkeys(link.differs for link in links if link.differs)),
        first.cosine,
        tuple(sorted((standings[row] for row in rows), key=lambda each: (each.date, each.place.path, each.place.start_line), reverse=True)),
        tuple(sorted(decided)),
        verdict,
        made[0].note if verdict else "",
    )


def _standings(store: Store, rows: Iterable[int], folder: str) -> dict[int, Standing]:
    chunks = store.chunks(sorted(rows))
    of = {row: document for row, document, _ in store.chunk_rows() if row in chunks}
    facts = {
        row: document_from_row(path, title, modified, more, folder) for row, path, title, modified, more in store.documents(sorted(set(of.values())))
    }
    return {row: _stands(chunk, facts[of[row]].path, day_of(facts[of[row]]).isoformat(), folder) for row, chunk in chunks.items()}


def _stands(chunk: Chunk, path: str, day: str, folder: str) -> Standing:
    place = Place(folder, path, chunk.start_line, chunk.end_line)
    return Standing(place, chunk.heading_path, chunk.text, text_key(chunk.text).hex(), day)


def _lapsed(store: Store, decisions: Sequence[Decision], digests: dict[int, str]) -> tuple[tuple[Decision, ...], dict[int, str]]:
    """Return the decisions of which a text is nowhere any more, and where the texts of the others stand that the index holds for alike to none.

    All texts are read only where a decision is about one that is not among those at hand.
    """
    wanted = {digest for each in decisions for digest in (each.first, each.second)} - set(digests.values())
    if not wanted:
        return (), {}
    every = store.chunks([row for row, _, _ in store.chunk_rows()])
    elsewhere = {row: digest for row, chunk in every.items() if (digest := text_key(chunk.text).hex()) in wanted}
    gone = wanted - set(elsewhere.values())
    return tuple(each for each in decisions if each.first in gone or each.second in gone), elsewhere


def pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the pairs of texts that a decision on a cluster is about, one that stands in several places with itself too, and where they stand."""
    first: dict[str, str] = {}
    places = Counter(each.digest for each in cluster.standings)
    for each in cluster.standings:
        first.setdefault(each.digest, f"{each.place.path}:{each.place.start_line}")
    each_two = combinations(sorted(first), 2) if len(first) <= _EACH_TWO else ()
    itself = ((digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same")
    return [((a, b), (first[a], first[b])) for a, b in sorted({*cluster.pairs, *each_two, *itself})]


def is_merged(cluster: Cluster) -> bool:
    """Tell whether the texts of a cluster come once in an answer."""
    return cluster.verdict == "same" or (cluster.zone == "same" and cluster.verdict is None)


def places_of(clusters: Iterable[Cluster]) -> frozenset[Place]:
    """Return the places in clusters, each once."""
    return frozenset(each.place for cluster in clusters for each in cluster.standings)
