"""What a commit writes of each field, gathered as columns: a number an occurrence of a term, until they are sorted all at once."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from thumbindex.index.postings import Columns, slices, sorted_columns
from thumbindex.index.varints import Narrow, Numbers

Part = tuple[list[bytes], Columns]
"""Terms, ascending, and their postings."""

_KIND, _BYTES = "I", 4


class Gathered:
    """The fields of a segment to be; what memory has no place for goes to a folder that is there for the commit."""

    def __init__(self, fields: Mapping[str, bool], folder: Path, limit: int) -> None:
        self._fields = {name: _Field(with_places, folder / f"{name}.column") for name, with_places in sorted(fields.items())}
        self._limit = limit  # bytes
        self._held = 0

    def add(self, name: str, document: int, terms: Sequence[str], places: Iterable[int]) -> None:
        """Take in the terms of a document, each as often as it stands there; of each term those of lower documents come first."""
        self._make_room(len(terms))
        self._fields[name].add(document, terms, places)

    def add_postings(self, name: str, terms: Sequence[str], columns: Columns) -> None:
        """Take in postings of a segment, whose terms are numbered."""
        self._make_room(int(columns.counts.sum()))
        self._fields[name].add_columns(terms, columns)

    def iter_postings(self) -> Iterator[tuple[str, Iterator[Part]]]:
        """Give away what was gathered, a field at a time, some terms at a time."""
        while self._fields:
            name = next(iter(self._fields))
            yield name, self._fields.pop(name).parts()

    def cleanup(self) -> None:
        """Drop what was gathered."""
        self._fields.clear()

    def _make_room(self, occurrences: int) -> None:
        self._held += 4 * _BYTES * occurrences
        if self._held > self._limit:
            for field in self._fields.values():
                field.set_aside()
            self._held = 0


class _Known(dict[str, int]):
    """Numbers terms in the order in which they come."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


class _Field:
    """The occurrences of a field's terms and their places; documents, and how many of the occurrences are in each."""

    def __init__(self, with_places: bool, path: Path) -> None:
        self._terms = _Known()
        self._columns = self._occurrences, self._places, self._documents, self._lengths = tuple(array(_KIND) for _ in range(4))
        self._with_places = with_places
        self._paths = [path.with_suffix(f".{n}") for n in range(len(self._columns))]

    def add(self, document: int, terms: Sequence[str], places: Iterable[int]) -> None:
        self._occurrences.extend(map(self._terms.__getitem__, terms))
        if self._with_places:
            self._places.extend(places)
        self._documents.append(document)
        self._lengths.append(len(terms))

    def add_columns(self, terms: Sequence[str], columns: Columns) -> None:
        held, which = np.unique(columns.terms, return_inverse=True)
        numbers = np.array([self._terms[terms[number]] for number in held], dtype=np.uint32)
        _extend(self._occurrences, np.repeat(numbers[which], columns.counts))
        if columns.places is not None:
            _extend(self._places, columns.places)
        _extend(self._documents, columns.documents)
        _extend(self._lengths, columns.counts)

    def set_aside(self) -> None:
        for column, path in zip(self._columns, self._paths, strict=True):
            with path.open("ab") as file:
                column.tofile(file)
            del column[:]

    def parts(self) -> Iterator[Part]:
        texts = [term.encode() for term in self._terms]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        rank = np.empty(len(texts), dtype=np.uint32)
        rank[order] = np.arange(len(texts), dtype=np.uint32)
        occurrences, places, documents, lengths = self._taken()
        terms, documents = rank[occurrences], np.repeat(documents, lengths)
        del occurrences, lengths
        for some in slices(np.bincount(terms, minlength=len(texts))):
            those = slice(None) if some.stop - some.start == len(texts) else np.flatnonzero((terms >= some.start) & (terms < some.stop))
            columns = sorted_columns(terms[those] - np.uint32(some.start), documents[those], places[those] if self._with_places else None)
            yield [texts[number] for number in order[some]], columns

    def _taken(self) -> list[Narrow]:
        """Give away the columns, those that were set aside too."""
        if self._paths[0].exists():
            self.set_aside()
            return [np.fromfile(path, dtype=np.uint32) for path in self._paths]
        return [np.frombuffer(column, dtype=np.uint32) for column in self._columns]


def _extend(values: array[int], numbers: Numbers | Narrow) -> None:
    values.frombytes(numbers.astype(np.uint32).tobytes())
