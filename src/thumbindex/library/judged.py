"""Judgments of answers: by question, which notes answer it, help or do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.index.judgment_file import change_judgments, read_judgments
from thumbindex.library.note_lookup import NoteLookup
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import hidden_paths
from thumbindex.model import JudgedQuery, RelevanceJudgment
from thumbindex.text import query_id

GRADES = (0, 1, 2)
"""Does not answer, helps, answers."""


class Judgments:
    """What the owner judges of the answers of some folders. It is kept beside their indexes."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = {reader.folder.name: reader for reader in readers}

    def all(self) -> Mapping[str, tuple[JudgedQuery, ...]]:
        """Return by folder what was judged, the oldest first; of notes that are gone or private now
        nothing.
        """
        return {name: _shown(reader) for name, reader in self._readers.items()}

    def of(self, query: str) -> Mapping[str, JudgedQuery]:
        """Return what was judged of a question, by folder; folders where nobody has judged it are
        left out.

        Raises StorageError.
        """
        id_ = query_id(query)
        return {
            name: each
            for name, reader in self._readers.items()
            for each in read_judgments(reader.folder.places)
            if query_id(each.query) == id_
        }

    def judge(
        self, query: str, path: str, heading: str, grade: int | None, *, folder: str, kind: str = ""
    ) -> JudgedQuery:
        """Keep what a passage is to a question (2 answers, 1 helps, 0 does not), or with None take
        that back; return what is judged of it then.

        Raises UnknownPathError for a note that is not there, or may not be shown.
        """
        reader = self._in(folder)
        if grade is not None and grade not in GRADES:
            raise UsageError(f"A grade is 0, 1 or 2, not {grade}.")
        if grade is not None:
            NoteLookup([reader]).find_exact(path)

        def change(judged: list[JudgedQuery]) -> list[JudgedQuery]:
            own, others = _parted(judged, query, kind)
            places = [each for each in own.places if (each.path, each.heading) != (path, heading)]
            if grade is not None:
                places.append(RelevanceJudgment(path, heading, grade))
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            return [*others, replace(own, places=tuple(places), made=now)]

        return _parted(change_judgments(reader.folder.places, change), query, kind)[0]

    def take_out(self, query: str, *, folder: str) -> None:
        """Take a question out, with all that was judged of it."""
        change_judgments(
            self._in(folder).folder.places, lambda judged: _parted(judged, query, "")[1]
        )

    def _in(self, folder: str) -> Reader:
        if folder not in self._readers:
            raise UnknownFolderError(f"There is no folder {folder!r} here.")
        return self._readers[folder]


def _shown(reader: Reader) -> tuple[JudgedQuery, ...]:
    """Return what was judged in a folder, without notes that are gone or may not be shown now."""
    found = read_judgments(reader.folder.places)
    paths = {place.path for each in found for place in each.places}
    known = set(reader.store.manifest(paths)) if paths and reader.indexed else set()
    hidden = hidden_paths(known, reader)
    shown = (
        replace(each, places=tuple(one for one in each.places if one.path in known - hidden))
        for each in found
    )
    return tuple(each for each in shown if each.places)


def _parted(
    judged: Sequence[JudgedQuery], query: str, kind: str
) -> tuple[JudgedQuery, list[JudgedQuery]]:
    """Return what was judged of a question, and of the others.

    Raises UsageError for an empty one.
    """
    if not query.strip():
        raise UsageError("The question is empty: there is nothing to judge.")
    id_ = query_id(query)
    own = (each for each in judged if query_id(each.query) == id_)
    others = [each for each in judged if query_id(each.query) != id_]
    return next(own, JudgedQuery(query.strip(), kind, (), "")), others
