"""The user's decisions: which texts are duplicates, and which notes answer a query."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from itertools import chain, combinations
from operator import attrgetter
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

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
    RelevanceJudgment,
    Verdict,
    day_of,
    iso_day,
)
from thumbindex.query.provenance import owner_of
from thumbindex.query.reorder import MIN_SERIES, are_in_series
from thumbindex.text import query_id, text_key

_ID_DIGITS = 8
"""Hex digits in a cluster's id: few enough to type, and enough to make collisions rare."""

_MAX_ALL_PAIRS = 50
"""A decision on a cluster of at most this many texts covers every pair of its texts.

A decision on a larger cluster covers only the pairs that duplicate detection found.
"""

_PLACE = attrgetter("folder", "path", "start_line", "end_line")

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

Pair = tuple[str, str]
"""The sorted digests of two texts."""


class _TextPair(NamedTuple):
    """Two texts that are duplicates, may be duplicates (grey), or have a user's decision."""

    ends: Pair
    rows: Collection[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def once_per_content(
    function: Callable[Concatenate[Reader, _Parameters], _Result],
) -> Callable[Concatenate[Reader, _Parameters], _Result]:
    """Keep a function's last result for each reader until the index or the arguments change.

    A decision is no change. Call it in a read transaction.
    """
    last = WeakKeyDictionary[Reader, tuple[object, _Result]]()

    @wraps(function)
    def read(reader: Reader, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        key = _content_version(reader), args
        result = last.get(reader)
        if result is None or result[0] != key:
            result = last[reader] = key, function(reader, *args, **kwargs)
        return result[1]

    return read


def _content_version(reader: Reader) -> object:
    if not isinstance(reader, DiskReader):
        return reader.version()
    store = reader.store
    return store.path, store.generation - store.duplicates.decision_commits


@once_per_content
def _read_pairs(reader: Reader) -> tuple[Mapping[int, ClusterMember], Sequence[_TextPair], int]:
    """Read the chunks of detected pairs by row, the pairs, and the number of all chunks."""
    found_pairs = reader.store.duplicates.pairs()
    members = _read_members(reader, sorted({row for pair in found_pairs for row in pair[:2]}))
    return members, _text_pairs(found_pairs, members), len(reader.store.chunk_rows())


@once_per_content
def _find_members(reader: Reader, digests: frozenset[str]) -> Mapping[int, ClusterMember]:
    """Read the chunks with the given texts. This reads all texts."""
    store = reader.store
    chunks = store.chunks([row for row, _, _ in store.chunk_rows()])
    rows = [row for row, chunk in chunks.items() if text_key(chunk.text).hex() in digests]
    return _read_members(reader, rows)


def _read_members(reader: Reader, rows: Sequence[int]) -> dict[int, ClusterMember]:
    store, name = reader.store, reader.folder.name
    chunks = store.chunks(rows)
    documents = {row: document for row, document, _ in store.chunk_rows() if row in chunks}
    row_documents = {
        row: document_from_row(path, title, times, columns, name)
        for row, path, title, times, columns in store.documents(sorted(set(documents.values())))
    }
    members = {}
    for row, chunk in chunks.items():
        document = row_documents[documents[row]]
        members[row] = ClusterMember(
            name,
            document.path,
            chunk.start_line,
            chunk.end_line,
            chunk.heading_path,
            chunk.text,
            text_key(chunk.text).hex(),
            iso_day(day_of(document)),
            owner_of(document),
        )
    return members


def _rows_by_digest(members: Mapping[int, ClusterMember]) -> dict[str, set[int]]:
    rows: dict[str, set[int]] = defaultdict(set)
    for row, member in members.items():
        rows[member.digest].add(row)
    return dict(rows)


def read_clusters(reader: Reader) -> tuple[list[Cluster], list[Decision], int]:
    """Read a folder's clusters, outdated decisions, and number of chunks."""
    store = reader.store
    with store.read_transaction(), store.decoding():
        decisions = {(decision.first, decision.second): decision for decision in store.decisions()}
        members, pairs, chunks = _read_pairs(reader)
        # texts in no detected pair
        unread = frozenset(chain.from_iterable(decisions)) - _rows_by_digest(members).keys()
        members = {**members, **(_find_members(reader, unread) if unread else {})}
    rows, detected = _rows_by_digest(members), {pair.ends for pair in pairs}
    first_copies, groups = _first_copies(pairs), defaultdict[tuple[str, ...], list[_TextPair]](list)
    for pair in pairs:
        # each grey pair forms a separate group
        key = ("same", first_copies[pair.ends[0]]) if pair.zone == "same" else pair.ends
        groups[key].append(pair)
    for ends in (pair for pair in decisions if pair not in detected):
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if len(both) > 1 and rows.keys() >= set(ends):
            first, second = (first_copies.get(digest) for digest in ends)
            key = ("same", first) if first and first == second else ends
            groups[key].append(_TextPair(ends, both, 0.0, "decided", "by the user", ""))
    found = [
        _build_cluster(group, members, decisions, reader.folder.name) for group in groups.values()
    ]
    missing = unread - rows.keys()
    outdated = [decision for pair, decision in decisions.items() if missing & set(pair)]
    return found, outdated, chunks


def _text_pairs(
    found_pairs: Iterable[DuplicatePair], members: Mapping[int, ClusterMember]
) -> list[_TextPair]:
    """Return the detected pairs. A text that contradicts many others contradicts none."""
    pairs = []
    for a, b, cosine, zone, rule, differs in found_pairs:
        if a in members and b in members:
            first, second = members[a].digest, members[b].digest
            ends = (first, second) if first < second else (second, first)
            pairs.append(_TextPair(ends, (a, b), cosine, zone, rule, differs))
    contradicted = Counter(
        digest for ends in {p.ends for p in pairs if p.differs} for digest in ends
    )
    return [
        pair._replace(differs="")
        if pair.differs and max(contradicted[digest] for digest in pair.ends) >= MIN_SERIES
        else pair
        for pair in pairs
    ]


def _first_copies(pairs: Sequence[_TextPair]) -> dict[str, str]:
    """Map the digest of each duplicated text to the first digest of its cluster."""
    joined = clusters({pair.ends for pair in pairs if pair.zone == "same"}, {}, {})
    return {digest: group[0] for digest, group in joined.items()}


def _build_cluster(
    pairs: Sequence[_TextPair],
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
    cluster_decisions = [decision for decision in decided.values() if decision]
    verdicts = {decision.verdict for decision in cluster_decisions}
    is_decided = len(cluster_decisions) == len(decided) and len(verdicts) == 1
    verdict = cluster_decisions[0].verdict if is_decided else None
    rows = {row for pair in pairs for row in pair.rows}
    newest_first = sorted(
        (members[row] for row in rows),
        key=attrgetter("date", "path", "start_line"),
        reverse=True,
    )
    differences = [
        pair.differs for pair in pairs if pair.differs and not _is_in_series(pair, members)
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
        cluster_decisions[0].note if verdict else "",
    )


def _is_in_series(pair: _TextPair, members: Mapping[int, ClusterMember]) -> bool:
    return any(
        are_in_series(members[a].path, members[b].path)
        for a, b in combinations(sorted(pair.rows), 2)
    )


def _pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the digest pairs that a decision on a cluster covers, each with two locations.

    In a cluster of duplicates, a text that occurs several times is also paired with itself.
    """
    first: dict[str, str] = {}
    for text in cluster.texts:
        first.setdefault(text.digest, f"{text.path}:{text.start_line}")
    all_pairs = combinations(sorted(first), 2) if len(first) <= _MAX_ALL_PAIRS else ()
    places = Counter(text.digest for text in cluster.texts)
    itself = (
        (digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same"
    )
    pairs = sorted({*cluster.pairs, *all_pairs, *itself})
    return [((a, b), (first[a], first[b])) for a, b in pairs]


def list_duplicates(readers: Sequence[Reader], *, grey: bool) -> DuplicateReport:
    """Return the folders' duplicates and outdated decisions; with `grey`, also undecided pairs.

    Those that most need a decision come first.
    """
    all_clusters: list[Cluster] = []
    outdated: list[OutdatedDecision] = []
    chunks = 0
    for reader in readers:
        folder_clusters, decisions, count = read_clusters(reader)
        all_clusters += folder_clusters
        for decision in decisions:
            places = decision.first_place, decision.second_place
            outdated.append(
                OutdatedDecision(reader.folder.name, decision.verdict, decision.note, places)
            )
        chunks += count
    merged, flagged = set[object](), set[object]()
    for cluster in all_clusters:
        # answers show only one of these texts
        if cluster.verdict == "same" or (cluster.zone == "same" and cluster.verdict is None):
            merged.update(map(_PLACE, cluster.texts))
        elif cluster.zone == "grey" and cluster.verdict is None:
            flagged.update(map(_PLACE, cluster.texts))
    listed = [
        cluster for cluster in all_clusters if grey or cluster.zone == "same" or cluster.verdict
    ]
    # a cluster with a single visible text has no duplicates
    shown = [cluster for cluster in visible_clusters(listed, readers) if len(cluster.texts) > 1]
    return DuplicateReport(
        tuple(sorted(shown, key=_priority)),
        tuple(outdated),
        chunks,
        len(merged),
        len(flagged - merged),
    )


def _priority(cluster: Cluster) -> tuple[bool, bool, bool, int, float, str]:
    """Order clusters for review: undecided, contradictions, grey, large and similar ones first."""
    return (
        cluster.verdict is not None,
        not cluster.differs,
        cluster.zone == "same",
        -len(cluster.texts),
        -cluster.cosine,
        cluster.id,
    )


class DuplicateDecisions:
    """Stores the user's decisions about duplicates in indexed folders."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def find(self, cluster: str) -> Cluster:
        """Return a cluster by its id or a unique prefix of the id. Raises UsageError."""
        _, target = _find_cluster(self._readers, cluster)
        return visible_clusters([target], self._readers)[0]

    def decide(self, cluster: str, verdict: Verdict | None, note: str = "") -> Cluster:
        """Store `verdict` as the user's decision about a cluster's texts.

        `cluster` is an id or a unique prefix of an id. If `verdict` is None, undo the decision.
        Returns the updated cluster. Raises UsageError if there is nothing to undo.
        """
        readers = self._local_readers()
        reader, target = _find_cluster(readers, cluster)
        pairs, decided_at = _pairs_of(target), time.time()
        with Writer.open(reader.folder.index_paths.folder) as writer:
            if verdict is not None:
                writer.store_decisions(
                    [Decision(*pair, verdict, note, decided_at, *places) for pair, places in pairs]
                )
            elif not writer.store_decisions(undone=[pair for pair, _ in pairs]):
                raise UsageError(
                    f"Cluster {target.id} has no decision to undo. `thumbindex duplicates --grey` "
                    "lists all decisions."
                )
        for local_reader in readers:
            local_reader.warm_up()
        updated = (*read_clusters(reader)[0], target)
        decided = next(candidate for candidate in updated if candidate.id == target.id)
        return visible_clusters([decided], readers)[0]

    def _local_readers(self) -> list[DiskReader]:
        """Return the readers of local folders. Raises UsageError if all folders are published."""
        if self._readers and all(reader.is_published for reader in self._readers):
            raise UsageError(
                f"{self._readers[0].folder.name} is published from another machine. Decide there: "
                "decisions are published with the folder."
            )
        return [reader for reader in self._readers if isinstance(reader, DiskReader)]


def _find_cluster(readers: Sequence[Reader], name: str) -> tuple[Reader, Cluster]:
    """Find a cluster by its id or a unique prefix of the id. Raises UsageError."""
    prefix = name.strip().casefold()
    matches = [
        (reader, candidate)
        for reader in readers
        for candidate in read_clusters(reader)[0]
        if prefix and candidate.id.startswith(prefix)
    ]
    if len(matches) != 1:
        problem = (
            f"is ambiguous ({', '.join(candidate.id for _, candidate in matches)})"
            if matches
            else "does not exist"
        )
        raise UsageError(f"Cluster {name} {problem}. `thumbindex duplicates --grey` lists the ids.")
    return matches[0]


# ------------------------------------------------------------------ relevance judgments

_GRADES = (0, 1, 2)
"""Grades of a passage: 0 (does not help), 1 (helps) and 2 (answers the query)."""


class Judgments:
    """The user's relevance judgments, stored beside the folders' indexes."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = {reader.folder.name: reader for reader in readers}

    def all(self) -> Mapping[str, tuple[JudgedQuery, ...]]:
        """Return all judgments about visible notes by folder, oldest first."""
        return {
            name: _visible_judgments(reader, read_judgments(reader.folder.index_paths))
            for name, reader in self._readers.items()
        }

    def of(self, query: str) -> Mapping[str, JudgedQuery]:
        """Return a query's judgments about visible notes by folder. Raises StorageError."""
        id_ = query_id(query)
        by_folder = dict[str, JudgedQuery]()
        for name, reader in self._readers.items():
            judged = read_judgments(reader.folder.index_paths)
            same_query = [
                judged_query for judged_query in judged if query_id(judged_query.query) == id_
            ]
            for judged_query in _visible_judgments(reader, same_query):
                by_folder[name] = judged_query
        return by_folder

    def judge(
        self, query: str, path: str, heading: str, grade: int | None, *, folder: str, kind: str = ""
    ) -> JudgedQuery:
        """Grade a passage for a query.

        `grade` is 2 (answers the query), 1 (helps) or 0 (does not help); None removes the grade.
        Returns the query's judgments about visible notes. Raises UnknownPathError for a hidden or
        unknown note.
        """
        reader = self._reader_of(folder)
        if grade is not None and grade not in _GRADES:
            raise UsageError(f"A grade must be 0, 1 or 2, not {grade}.")
        if grade is not None:
            NoteLookup([reader]).find_exact(path)

        def change(judged: list[JudgedQuery]) -> list[JudgedQuery]:
            judged_query, other_queries = _split_by_query(judged, query, kind)
            judgments = [
                judgment
                for judgment in judged_query.judgments
                if (judgment.path, judgment.heading) != (path, heading)
            ]
            if grade is not None:
                judgments.append(RelevanceJudgment(path, heading, grade))
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            return [*other_queries, replace(judged_query, judgments=tuple(judgments), made=now)]

        judged = _split_by_query(change_judgments(reader.folder.index_paths, change), query, kind)[
            0
        ]
        return next(iter(_visible_judgments(reader, [judged])), replace(judged, judgments=()))

    def remove(self, query: str, *, folder: str) -> None:
        """Remove a query and its judgments."""
        change_judgments(
            self._reader_of(folder).folder.index_paths,
            lambda judged: _split_by_query(judged, query, "")[1],
        )

    def _reader_of(self, folder: str) -> Reader:
        if folder not in self._readers:
            raise UnknownFolderError(f"There is no folder {folder!r}.")
        return self._readers[folder]


def _visible_judgments(reader: Reader, judged: Sequence[JudgedQuery]) -> tuple[JudgedQuery, ...]:
    """Drop judgments about hidden notes, and queries that have no other judgments."""
    paths = {judgment.path for query in judged for judgment in query.judgments}
    indexed = set(reader.store.manifest(paths)) if paths and reader.indexed else set()
    hidden = hidden_paths(indexed, reader)
    visible = indexed - hidden
    judged_queries = (
        replace(query, judgments=tuple(j for j in query.judgments if j.path in visible))
        for query in judged
    )
    return tuple(query for query in judged_queries if query.judgments)


def _split_by_query(
    judged: Sequence[JudgedQuery], query: str, kind: str
) -> tuple[JudgedQuery, list[JudgedQuery]]:
    """Return the JudgedQuery for `query` (a new one if there is none), and all others.

    Raises UsageError for an empty query.
    """
    if not query.strip():
        raise UsageError("The question is empty: there is nothing to judge.")
    id_ = query_id(query)
    matching = (judged_query for judged_query in judged if query_id(judged_query.query) == id_)
    other_queries = [judged_query for judged_query in judged if query_id(judged_query.query) != id_]
    return next(matching, JudgedQuery(query.strip(), kind, (), "")), other_queries
