"""How the keyword index is read: a segment's terms and postings as columns, and for Whoosh's own queries posting by posting."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
from whoosh.codec.base import FieldCursor, TermsReader
from whoosh.filedb.structfile import BufferFile
from whoosh.matching import ListMatcher
from whoosh.matching.mcore import ReadTooFar
from whoosh.reading import TermInfo, TermNotFound

from thumbindex.index.postings import Columns, Runs, columns_of, places_of, run_of, slices
from thumbindex.index.varints import Numbers, unpacked

Found = tuple[Numbers, Numbers]
"""A term's documents, ascending, and how often it stands in each."""

_NOWHERE: Found = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class _Field:
    """A field's terms, in order, and where the postings of each stand."""

    def __init__(self, texts: bytes, facts: list[bytes], begin: int, places_begin: int) -> None:
        lengths, sizes, runs, places = map(unpacked, facts)
        self._texts, self._bounds = texts, _bounds(lengths, 0)
        self.sizes = array("I", sizes.astype(np.uint32).tobytes())
        self.runs = _bounds(runs, begin)
        self.places = _bounds(places, places_begin) if facts[-1] else None

    def __len__(self) -> int:
        return len(self.sizes)

    def text(self, number: int) -> bytes:
        """Return a term."""
        return self._texts[self._bounds[number] : self._bounds[number + 1]]

    def closest(self, text: bytes) -> int:
        """Return the number of a term, or of the next one where it is none."""
        texts, bounds, low, high = self._texts, self._bounds, 0, len(self)
        while low < high:  # bisect's key would be called for each, and this is half of what a rare term costs
            middle = (low + high) // 2
            if texts[bounds[middle] : bounds[middle + 1]] < text:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, text: bytes) -> int | None:
        """Return the number of a term."""
        number = self.closest(text)
        return number if number < len(self) and self.text(number) == text else None


class TermColumns(TermsReader):  # type: ignore[misc]
    """The terms of a segment; a field's are read when it is first asked for."""

    def __init__(self, terms: Any, postings: Any) -> None:
        self._terms, self._postings = terms, postings
        size = terms.get_uint(0)
        self._layout: dict[str, list[int]] = json.loads(terms.get(4, size))
        self._begin = 4 + size
        self._fields: dict[str, _Field] = {}
        for each in (terms, postings):
            if isinstance(each, BufferFile):
                each.file.close()  # a copy of what is mapped already, which `get` does not read

    # ------------------------------------------------------------------ whole columns, for us

    def found(self, name: str, text: bytes) -> Found:
        """Return a term's postings, those of deleted documents too."""
        field = self._field(name)
        number = None if field is None else field.find(text)
        return _NOWHERE if field is None or number is None else self._found(field, number)

    def counted(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield a field's terms with the number of documents that hold each."""
        field = self._field(name)
        if field:
            yield from ((field.text(number).decode(), size) for number, size in enumerate(field.sizes))

    def columns(self, name: str) -> Iterator[tuple[list[str], Columns]]:
        """Yield the terms of a field and all of their postings, some terms at a time."""
        field = self._field(name)
        if field:
            yield from (self._some(field, some) for some in slices(np.array(field.sizes, dtype=np.int64)))

    def _some(self, field: _Field, some: slice) -> tuple[list[str], Columns]:
        data, lengths = self._run(field.runs, some)
        places, place_lengths = (b"", None) if field.places is None else self._run(field.places, some)
        runs = Runs(np.array(field.sizes[some], dtype=np.int64), lengths, place_lengths, data, places)
        return [field.text(number).decode() for number in range(some.start, some.stop)], columns_of(runs)

    def _run(self, bounds: array[int], some: slice) -> tuple[bytes, Numbers]:
        ends = np.array(bounds[some.start : some.stop + 1], dtype=np.int64)
        return self._read(bounds[some.start], bounds[some.stop]), ends[1:] - ends[:-1]

    def _field(self, name: str) -> _Field | None:
        if name not in self._fields and name in self._layout:
            before = [sizes for other, sizes in self._layout.items() if other < name]  # they are written in this order
            texts, *facts, runs, _ = self._layout[name]
            at, parts = self._begin + sum(sum(sizes[:-2]) for sizes in before), []
            for size in (texts, *facts):
                parts.append(self._terms.get(at, size))
                at += size
            begin = sum(sum(sizes[-2:]) for sizes in before)
            self._fields[name] = _Field(parts[0], parts[1:], begin, begin + runs)
        return self._fields.get(name)

    def _found(self, field: _Field, number: int) -> Found:
        return run_of(self._read(*field.runs[number : number + 2]), field.sizes[number])

    def _read(self, begin: int, end: int) -> bytes:
        return bytes(self._postings.get(begin, end - begin))

    # ------------------------------------------------------------------ one by one, for Whoosh

    def __contains__(self, term: tuple[str, bytes]) -> bool:
        field = self._field(term[0])
        return field is not None and field.find(term[1]) is not None

    def indexed_field_names(self) -> list[str]:
        """Return the fields that have terms."""
        return list(self._layout)

    def terms(self) -> Iterator[tuple[str, bytes]]:
        """Yield every term with its field."""
        for name in self._layout:
            yield from self._from(name, b"")

    def terms_from(self, fieldname: str, prefix: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the terms from some bytes on, then those of the fields that follow."""
        yield from self._from(fieldname, prefix)
        for name in self._layout:
            if name > fieldname:
                yield from self._from(name, b"")

    def _from(self, name: str, prefix: bytes) -> Iterator[tuple[str, bytes]]:
        field = self._field(name)
        if field:
            yield from ((name, field.text(number)) for number in range(field.closest(prefix), len(field)))

    def items(self) -> Iterator[tuple[tuple[str, bytes], TermInfo]]:
        """Yield every term with what is known of it."""
        return ((term, self.term_info(*term)) for term in self.terms())

    def term_info(self, fieldname: str, text: bytes) -> TermInfo:
        """Return what is known of a term; raise TermNotFound."""
        return _info(*self._postings_of(fieldname, text))

    def frequency(self, fieldname: str, text: bytes) -> float:
        """Return how often a term stands in all documents."""
        return float(self.found(fieldname, text)[1].sum())

    def matcher(self, fieldname: str, text: bytes, format_: Any, scorer: Any = None) -> Any:
        """Return what walks through a term's postings."""
        numbers, counts = self._postings_of(fieldname, text)
        field = self._field(fieldname)
        places = None
        if field and field.places is not None:
            number = field.closest(text)
            places = _Places(places_of(self._read(*field.places[number : number + 2]), counts), counts)
        weights = array("f", counts.tolist())
        return _Walk(numbers.tolist(), weights, places, format_, scorer=scorer, term=(fieldname, text), terminfo=_info(numbers, counts))

    def cursor(self, fieldname: str, fieldobj: Any) -> Any:
        """Return what looks terms up one after the other."""
        field = self._field(fieldname)
        return _Cursor(_Field(b"", [b"", b"", b"", b""], 0, 0) if field is None else field, fieldobj)

    def close(self) -> None:
        """Close both files."""
        self._terms.close()
        self._postings.close()

    def _postings_of(self, name: str, text: bytes) -> Found:
        found = self.found(name, text)
        if not len(found[0]):
            raise TermNotFound(f"{name}:{text!r}")
        return found


class _Walk(ListMatcher):  # type: ignore[misc]
    _i: int

    def skip_to(self, number: int) -> None:
        """Go to a document, or to the next one that holds the term."""
        if not self.is_active():
            raise ReadTooFar
        self._i = bisect_left(self._ids, number, self._i)


class _Places:
    """The places of one posting after the other, as the field's format packs them; made when they are asked for."""

    def __init__(self, places: Numbers, counts: Numbers) -> None:
        self._places, self._ends = places.astype(np.uint32), np.cumsum(counts)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        return self._places[self._ends[number - 1] if number else 0 : self._ends[number]].tobytes()


class _Cursor(FieldCursor):  # type: ignore[misc]
    def __init__(self, field: _Field, kind: Any) -> None:
        self._field, self._kind, self._number = field, kind, 0

    def first(self) -> str | None:
        """Go to the first term."""
        self._number = 0
        return self.text()

    def find(self, term: str | bytes) -> str | None:
        """Go to a term, or to the next one."""
        self._number = self._field.closest(term if isinstance(term, bytes) else self._kind.to_bytes(term))
        return self.text()

    def next(self) -> str | None:
        """Go to the next term."""
        self._number += 1
        return self.text()

    def text(self) -> str | None:
        """Return the term; None behind the last one."""
        return str(self._kind.from_bytes(self._field.text(self._number))) if self.is_valid() else None

    def is_valid(self) -> bool:
        """Tell whether there is a term."""
        return self._number < len(self._field)


def _info(numbers: Numbers, counts: Numbers) -> TermInfo:
    weight, most = float(counts.sum()), float(counts.max())
    return TermInfo(weight=weight, df=len(numbers), maxweight=most, minid=int(numbers[0]), maxid=int(numbers[-1]))


def _bounds(lengths: Numbers, begin: int) -> array[int]:
    """Return where each of some parts begins, and the last one ends; as an array, whose single items are had twice as fast as NumPy's."""
    return array("Q", (begin + np.concatenate(([0], np.cumsum(lengths)))).astype(np.uint64).tobytes())
