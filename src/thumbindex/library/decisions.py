"""Clusters of texts that say the same, and what the owner decides about them."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from thumbindex.errors import UsageError
from thumbindex.index.duplicate_clusters import clusters
from thumbindex.index.duplicate_tables import Alike
from thumbindex.index.store import document_from_row
from thumbindex.index.writer import Writer
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.library.visibility import visible_clusters
from thumbindex.model import (
    Cluster,
    ClusterMember,
    Decision,
    DuplicateReport,
    LapsedDecision,
    Place,
    Verdict,
    day_of,
    iso_day,
)
from thumbindex.query.provenance import owner_of
from thumbindex.query.reorder import are_of_a_series
from thumbindex.text import text_key

ID_DIGITS = 8
"""Hex digits of a cluster's name: to be typed, and a million clusters seldom have two of one
name.
"""

_EACH_TWO = 50
"""Up to so many texts of a cluster are decided each two, whatever may be found later; of more,
which would be thousands, those that were found.
"""

Pair = tuple[str, str]
"""The digests of two texts, the lesser first."""


@dataclass(frozen=True, slots=True)
class _Link:
    """Two texts that are alike."""

    ends: Pair
    rows: frozenset[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def _read_clusters(reader: Reader) -> tuple[list[Cluster], list[Decision], int]:
    """Read a folder's clusters, those of one text first, by where they stand, its lapsed decisions,
    and how many chunks it has.
    """
    store, name = reader.store, reader.folder.name
    with store.read_transaction(), store.decoding():
        alike, decisions = (
            store.duplicates.alike(),
            {(each.first, each.second): each for each in store.decisions()},
        )
        documents = {row: document for row, document, _ in store.chunk_rows()}
        chunks = store.chunks(sorted({row for pair in alike for row in pair[:2]}))
        digests = {row: text_key(chunk.text).hex() for row, chunk in chunks.items()}
        wanted = {digest for pair in decisions for digest in pair} - set(digests.values())
        # all texts are read only where a decision is about one that is not among those at hand
        if wanted:
            for row, chunk in store.chunks(list(documents)).items():
                if (digest := text_key(chunk.text).hex()) in wanted:
                    chunks[row], digests[row] = chunk, digest
        links = _links(alike, decisions, digests)
        standing = sorted({row for link in links for row in link.rows})
        facts = store.documents(sorted({documents[row] for row in standing}))
        read = {
            row: document_from_row(path, title, times, rest, name)
            for row, path, title, times, rest in facts
        }
        standings = {}
        for row in standing:
            chunk, document = chunks[row], read[documents[row]]
            standings[row] = ClusterMember(
                name,
                document.path,
                chunk.start_line,
                chunk.end_line,
                chunk.heading_path,
                chunk.text,
                digests[row],
                iso_day(day_of(document)),
                owner_of(document),
            )
    gone = wanted - set(digests.values())
    order = sorted(
        (_cluster_of(each, standings, decisions, name) for each in _grouped(links)),
        key=lambda each: (
            each.zone != "same",
            each.texts[0].path,
            each.texts[0].start_line,
            each.id,
        ),
    )
    return order, [each for pair, each in decisions.items() if gone & set(pair)], len(documents)


def _links(
    alike: Iterable[Alike], decisions: Iterable[Pair], digests: Mapping[int, str]
) -> list[_Link]:
    """Return what the index holds for alike, and what the owner decided of other texts, found
    by other settings.
    """
    found = []
    for a, b, cosine, zone, rule, differs in alike:
        if a in digests and b in digests:
            low, high = sorted((digests[a], digests[b]))
            found.append(_Link((low, high), frozenset((a, b)), cosine, zone, rule, differs))
    listed = {link.ends for link in found}
    rows: dict[str, set[int]] = {}
    for row, digest in digests.items():
        rows.setdefault(digest, set()).add(row)
    for ends in decisions:
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if ends not in listed and len(both) > 1 and rows.keys() >= set(ends):
            found.append(_Link(ends, both, 0.0, "decided", "by the owner alone", ""))
    return found


def _grouped(links: Sequence[_Link]) -> list[list[_Link]]:
    """Group links: those of one text by what hangs together, of the others each two texts by
    themselves.
    """
    digests = sorted({digest for link in links for digest in link.ends})
    number = {digest: n for n, digest in enumerate(digests)}
    same = [[number[digest] for digest in link.ends] for link in links if link.zone == "same"]
    joined = clusters(same, {}, {})
    groups: dict[tuple[str, ...], list[_Link]] = defaultdict(list)
    for link in links:
        one, other = (joined.get(number[digest], [])[:1] for digest in link.ends)
        is_same = link.zone == "same" or (link.zone == "decided" and one and one == other)
        groups[("same", str(one)) if is_same else link.ends].append(link)
    return list(groups.values())


def _cluster_of(
    links: list[_Link],
    standings: Mapping[int, ClusterMember],
    decisions: Mapping[Pair, Decision],
    folder: str,
) -> Cluster:
    first = min(links, key=lambda link: (link.cosine, link.ends))
    is_same = first.zone == "same"
    if is_same:
        key = f"same{min(digest for link in links for digest in link.ends)}"
    else:
        key = f"grey{''.join(first.ends)}"
    decided = {link.ends: decisions.get(link.ends) for link in links}
    made = [decision for decision in decided.values() if decision]
    verdicts = {decision.verdict for decision in made}
    verdict = made[0].verdict if len(made) == len(decided) and len(verdicts) == 1 else None
    rows = {row for link in links for row in link.rows}
    newest_first = sorted(
        (standings[row] for row in rows),
        key=lambda each: (each.date, each.path, each.start_line),
        reverse=True,
    )
    differences = [
        link.differs for link in links if link.differs and not _is_of_a_series(link, standings)
    ]
    return Cluster(
        hashlib.blake2b(key.encode(), digest_size=ID_DIGITS // 2).hexdigest(),
        folder,
        "same" if is_same else "grey",
        first.rule,
        "; ".join(dict.fromkeys(differences)),
        first.cosine,
        tuple(newest_first),
        tuple(sorted(decided)),
        verdict,
        made[0].note if verdict else "",
    )


def _is_of_a_series(link: _Link, standings: Mapping[int, ClusterMember]) -> bool:
    return any(
        are_of_a_series(standings[a].path, standings[b].path)
        for a, b in combinations(sorted(link.rows), 2)
    )


def _pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the pairs of texts that a decision on a cluster is about, one that stands in several
    places with itself too, and where they stand.
    """
    first: dict[str, str] = {}
    for each in cluster.texts:
        first.setdefault(each.digest, f"{each.path}:{each.start_line}")
    each_two = combinations(sorted(first), 2) if len(first) <= _EACH_TWO else ()
    places = Counter(each.digest for each in cluster.texts)
    itself = (
        (digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same"
    )
    return [((a, b), (first[a], first[b])) for a, b in sorted({*cluster.pairs, *each_two, *itself})]


def all_duplicates(readers: Sequence[Reader], *, grey: bool) -> DuplicateReport:
    """Return the clusters of some folders, with `grey` those too of which the owner has to decide,
    and what of the decisions has lapsed.
    """
    every: list[Cluster] = []
    lapsed: list[LapsedDecision] = []
    chunks = 0
    for reader in readers:
        read, gone, count = _read_clusters(reader)
        every += read
        for decision in gone:
            places = decision.first_place, decision.second_place
            lapsed.append(
                LapsedDecision(reader.folder.name, decision.verdict, decision.note, places)
            )
        chunks += count
    merged, flagged = set[Place](), set[Place]()
    for each in every:
        # its texts come once in an answer
        if each.verdict == "same" or (each.zone == "same" and each.verdict is None):
            merged.update(map(_place, each.texts))
        elif each.zone == "grey" and each.verdict is None:
            flagged.update(map(_place, each.texts))
    listed = [each for each in every if grey or each.zone == "same" or each.verdict]
    return DuplicateReport(
        # of what may be shown, a text that stands in one place is there once
        tuple(each for each in visible_clusters(listed, readers) if len(each.texts) > 1),
        tuple(lapsed),
        chunks,
        len(merged),
        len(flagged - merged),
    )


def _place(text: ClusterMember) -> Place:
    return Place(text.folder, text.path, text.start_line, text.end_line)


class Decisions:
    """What the owner decides of copies in some folders, which are indexed."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def decide(self, cluster: str, verdict: Verdict | None, note: str = "") -> Cluster:
        """Decide that all texts of a cluster, by its id, are the same or stay apart, or with None
        take back what was decided; return the cluster as it is then.

        Raises UsageError where there is nothing to take back.
        """
        readers = self._deciding()
        reader, found = _find_cluster(readers, cluster)
        pairs, now = _pairs_of(found), time.time()
        with Writer.open(reader.folder.places.folder) as writer:
            if verdict is not None:
                writer.decide(
                    [Decision(*pair, verdict, note, now, *places) for pair, places in pairs]
                )
            elif not writer.decide(dropped=[pair for pair, _ in pairs]):
                raise UsageError(
                    f"Cluster {found.id}: nothing was decided of it; `thumbindex duplicates "
                    "--grey` lists what is decided and what is not."
                )
        for each in readers:
            each.refresh()
        decided = next(each for each in (*_read_clusters(reader)[0], found) if each.id == found.id)
        return visible_clusters([decided], readers)[0]

    def _deciding(self) -> list[DiskReader]:
        """Return the folders whose decisions are kept here.

        Raises UsageError where there is none: those of a database are its builders'.
        """
        if self._readers and all(reader.is_published for reader in self._readers):
            raise UsageError(
                f"{self._readers[0].folder.name} is published from another place: decide there, "
                "and it is published with the decision."
            )
        return [reader for reader in self._readers if isinstance(reader, DiskReader)]


def _find_cluster(readers: Sequence[Reader], name: str) -> tuple[Reader, Cluster]:
    """Find a cluster by its id, or by how it begins where no other does."""
    wanted = name.strip().casefold()
    found = [
        (reader, each)
        for reader in readers
        for each in _read_clusters(reader)[0]
        if wanted and each.id.startswith(wanted)
    ]
    if len(found) != 1:
        what = (
            f"begins several ({', '.join(each.id for _, each in found)}): give all of it"
            if found
            else "is not there (any more)"
        )
        raise UsageError(f"Cluster {name}: {what}; `thumbindex duplicates --grey` lists them.")
    return found[0]
