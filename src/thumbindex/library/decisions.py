"""The owner's decisions: which texts are duplicates, and which notes answer a query."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.index.duplicate_clusters import clusters
from thumbindex.index.duplicate_tables import DuplicatePair
from thumbindex.index.judgment_file import change_judgments, read_judgments
from thumbindex.index.row_codec import document_from_row
from thumbindex.index.writer import Writer
from thumbindex.library.note_lookup import NoteLookup
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.library.visibility import hidden_paths, visible_clusters
from thumbindex.model import (
    Cluster,
    ClusterMember,
    Decision,
    DuplicateReport,
    JudgedQuery,
    OutdatedDecision,
    Place,
    RelevanceJudgment,
    Verdict,
    day_of,
    iso_day,
)
from thumbindex.query.provenance import owner_of
from thumbindex.query.reorder import are_in_series
from thumbindex.text import query_id, text_key

_ID_DIGITS = 8
"""Hex digits of a cluster's id: short enough to type, and collisions are rare."""

_MAX_ALL_PAIRS = 50
"""Maximum texts of a cluster for which all pairs are decided; in a larger one, the found pairs."""

Pair = tuple[str, str]
"""The digests of two texts, in order."""


@dataclass(frozen=True, slots=True)
class _AlikePair:
    """Two texts that are duplicates or in the grey zone."""

    ends: Pair
    rows: frozenset[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def _read_clusters(reader: Reader) -> tuple[list[Cluster], list[Decision], int]:
    """Read a folder's clusters by their first text, outdated decisions, and number of chunks."""
    store, name = reader.store, reader.folder.name
    with store.read_transaction(), store.decoding():
        alike, decisions = (
            store.duplicates.pairs(),
            {(decision.first, decision.second): decision for decision in store.decisions()},
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
        pairs = _alike_pairs(alike, decisions, digests)
        standing = sorted({row for pair in pairs for row in pair.rows})
        facts = store.documents(sorted({documents[row] for row in standing}))
        read = {
            row: document_from_row(path, title, times, rest, name)
            for row, path, title, times, rest in facts
        }
        members = {}
        for row in standing:
            chunk, document = chunks[row], read[documents[row]]
            members[row] = ClusterMember(
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
        (_build_cluster(pair, members, decisions, name) for pair in _group_pairs(pairs)),
        key=lambda each: (
            each.zone != "same",
            each.texts[0].path,
            each.texts[0].start_line,
            each.id,
        ),
    )
    return order, [each for pair, each in decisions.items() if gone & set(pair)], len(documents)


def _alike_pairs(
    alike: Iterable[DuplicatePair], decisions: Iterable[Pair], digests: Mapping[int, str]
) -> list[_AlikePair]:
    """Return the pairs in the index, and decided pairs that the current settings do not find."""
    found = []
    for a, b, cosine, zone, rule, differs in alike:
        if a in digests and b in digests:
            low, high = sorted((digests[a], digests[b]))
            found.append(_AlikePair((low, high), frozenset((a, b)), cosine, zone, rule, differs))
    listed = {pair.ends for pair in found}
    rows: dict[str, set[int]] = {}
    for row, digest in digests.items():
        rows.setdefault(digest, set()).add(row)
    for ends in decisions:
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if ends not in listed and len(both) > 1 and rows.keys() >= set(ends):
            found.append(_AlikePair(ends, both, 0.0, "decided", "by the owner alone", ""))
    return found


def _group_pairs(pairs: Sequence[_AlikePair]) -> list[list[_AlikePair]]:
    """Group pairs: duplicates by connected component; each grey pair is a group."""
    digests = sorted({digest for pair in pairs for digest in pair.ends})
    number = {digest: n for n, digest in enumerate(digests)}
    same = [[number[digest] for digest in pair.ends] for pair in pairs if pair.zone == "same"]
    joined = clusters(same, {}, {})
    groups: dict[tuple[str, ...], list[_AlikePair]] = defaultdict(list)
    for pair in pairs:
        one, other = (joined.get(number[digest], [])[:1] for digest in pair.ends)
        is_same = pair.zone == "same" or (pair.zone == "decided" and one and one == other)
        groups[("same", str(one)) if is_same else pair.ends].append(pair)
    return list(groups.values())


def _build_cluster(
    pairs: list[_AlikePair],
    members: Mapping[int, ClusterMember],
    decisions: Mapping[Pair, Decision],
    folder: str,
) -> Cluster:
    first = min(pairs, key=lambda pair: (pair.cosine, pair.ends))
    is_same = first.zone == "same"
    if is_same:
        key = f"same{min(digest for pair in pairs for digest in pair.ends)}"
    else:
        key = f"grey{''.join(first.ends)}"
    decided = {pair.ends: decisions.get(pair.ends) for pair in pairs}
    made = [decision for decision in decided.values() if decision]
    verdicts = {decision.verdict for decision in made}
    verdict = made[0].verdict if len(made) == len(decided) and len(verdicts) == 1 else None
    rows = {row for pair in pairs for row in pair.rows}
    newest_first = sorted(
        (members[row] for row in rows),
        key=lambda each: (each.date, each.path, each.start_line),
        reverse=True,
    )
    differences = [
        pair.differs for pair in pairs if pair.differs and not _is_of_a_series(pair, members)
    ]
    return Cluster(
        hashlib.blake2b(key.encode(), digest_size=_ID_DIGITS // 2).hexdigest(),
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


def _is_of_a_series(pair: _AlikePair, members: Mapping[int, ClusterMember]) -> bool:
    return any(
        are_in_series(members[a].path, members[b].path)
        for a, b in combinations(sorted(pair.rows), 2)
    )


def _pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the pairs of digests that a decision on a cluster covers, with their places.

    A text in several places is paired with itself too.
    """
    first: dict[str, str] = {}
    for text in cluster.texts:
        first.setdefault(text.digest, f"{text.path}:{text.start_line}")
    each_two = combinations(sorted(first), 2) if len(first) <= _MAX_ALL_PAIRS else ()
    places = Counter(each.digest for each in cluster.texts)
    itself = (
        (digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same"
    )
    return [((a, b), (first[a], first[b])) for a, b in sorted({*cluster.pairs, *each_two, *itself})]


def list_duplicates(readers: Sequence[Reader], *, grey: bool) -> DuplicateReport:
    """Return clusters and outdated decisions of folders; with `grey` undecided pairs too."""
    every: list[Cluster] = []
    outdated: list[OutdatedDecision] = []
    chunks = 0
    for reader in readers:
        read, gone, count = _read_clusters(reader)
        every += read
        for decision in gone:
            places = decision.first_place, decision.second_place
            outdated.append(
                OutdatedDecision(reader.folder.name, decision.verdict, decision.note, places)
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
        tuple(cluster for cluster in visible_clusters(listed, readers) if len(cluster.texts) > 1),
        tuple(outdated),
        chunks,
        len(merged),
        len(flagged - merged),
    )


def _place(text: ClusterMember) -> Place:
    return Place(text.folder, text.path, text.start_line, text.end_line)


class DuplicateDecisions:
    """Records the owner's decisions about duplicates in some indexed folders."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def decide(self, cluster: str, verdict: Verdict | None, note: str = "") -> Cluster:
        """Decide that the texts of a cluster are the same or stay apart; None undoes a decision.

        Returns the new cluster. Raises UsageError if there is nothing to undo.
        """
        readers = self._local_readers()
        reader, found = _find_cluster(readers, cluster)
        pairs, now = _pairs_of(found), time.time()
        with Writer.open(reader.folder.index_paths.folder) as writer:
            if verdict is not None:
                writer.store_decisions(
                    [Decision(*pair, verdict, note, now, *places) for pair, places in pairs]
                )
            elif not writer.store_decisions(undone=[pair for pair, _ in pairs]):
                raise UsageError(
                    f"Cluster {found.id}: nothing was decided of it; `thumbindex duplicates "
                    "--grey` lists what is decided and what is not."
                )
        for each in readers:
            each.warm_up()
        decided = next(each for each in (*_read_clusters(reader)[0], found) if each.id == found.id)
        return visible_clusters([decided], readers)[0]

    def _local_readers(self) -> list[DiskReader]:
        """Return the folders whose decisions are stored on this machine. Raises UsageError."""
        if self._readers and all(reader.is_published for reader in self._readers):
            raise UsageError(
                f"{self._readers[0].folder.name} is published from another place: decide there, "
                "and it is published with the decision."
            )
        return [reader for reader in self._readers if isinstance(reader, DiskReader)]


def _find_cluster(readers: Sequence[Reader], name: str) -> tuple[Reader, Cluster]:
    """Find a cluster by its id or a unique prefix of it."""
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


# ------------------------------------------------------------------ relevance judgments

_GRADES = (0, 1, 2)
"""Does not answer, helps, answers."""


class Judgments:
    """The owner's relevance judgments, stored beside the indexes of some folders."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = {reader.folder.name: reader for reader in readers}

    def all(self) -> Mapping[str, tuple[JudgedQuery, ...]]:
        """Return all judgments of visible notes by folder, oldest first."""
        return {name: _visible_judgments(reader) for name, reader in self._readers.items()}

    def of(self, query: str) -> Mapping[str, JudgedQuery]:
        """Return the judgments of a query by folder. Raises StorageError."""
        id_ = query_id(query)
        return {
            name: judgment
            for name, reader in self._readers.items()
            for judgment in read_judgments(reader.folder.index_paths)
            if query_id(judgment.query) == id_
        }

    def judge(
        self, query: str, path: str, heading: str, grade: int | None, *, folder: str, kind: str = ""
    ) -> JudgedQuery:
        """Grade a passage for a query (2 answers, 1 helps, 0 does not); None removes the grade.

        Returns the judgments of the query. Raises UnknownPathError for a hidden or unknown note.
        """
        reader = self._reader_of(folder)
        if grade is not None and grade not in _GRADES:
            raise UsageError(f"A grade is 0, 1 or 2, not {grade}.")
        if grade is not None:
            NoteLookup([reader]).find_exact(path)

        def change(judged: list[JudgedQuery]) -> list[JudgedQuery]:
            own, others = _split_by_query(judged, query, kind)
            judgments = [
                judgment
                for judgment in own.judgments
                if (judgment.path, judgment.heading) != (path, heading)
            ]
            if grade is not None:
                judgments.append(RelevanceJudgment(path, heading, grade))
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            return [*others, replace(own, judgments=tuple(judgments), made=now)]

        return _split_by_query(change_judgments(reader.folder.index_paths, change), query, kind)[0]

    def take_out(self, query: str, *, folder: str) -> None:
        """Remove a query with all of its judgments."""
        change_judgments(
            self._reader_of(folder).folder.index_paths,
            lambda judged: _split_by_query(judged, query, "")[1],
        )

    def _reader_of(self, folder: str) -> Reader:
        if folder not in self._readers:
            raise UnknownFolderError(f"There is no folder {folder!r} here.")
        return self._readers[folder]


def _visible_judgments(reader: Reader) -> tuple[JudgedQuery, ...]:
    """Return the judgments of a folder without hidden notes."""
    found = read_judgments(reader.folder.index_paths)
    paths = {judgment.path for each in found for judgment in each.judgments}
    known = set(reader.store.manifest(paths)) if paths and reader.indexed else set()
    hidden = hidden_paths(known, reader)
    shown = (
        replace(each, judgments=tuple(one for one in each.judgments if one.path in known - hidden))
        for each in found
    )
    return tuple(each for each in shown if each.judgments)


def _split_by_query(
    judged: Sequence[JudgedQuery], query: str, kind: str
) -> tuple[JudgedQuery, list[JudgedQuery]]:
    """Separate the judgments of one query from the others. Raises UsageError for an empty query."""
    if not query.strip():
        raise UsageError("The question is empty: there is nothing to judge.")
    id_ = query_id(query)
    own = (each for each in judged if query_id(each.query) == id_)
    others = [each for each in judged if query_id(each.query) != id_]
    return next(own, JudgedQuery(query.strip(), kind, (), "")), others
