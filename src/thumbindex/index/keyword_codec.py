"""How the keyword index is written: Whoosh's segments and its commits, the terms and postings in them as columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from whoosh.codec.base import FieldWriter
from whoosh.codec.whoosh3 import W3Codec
from whoosh.writing import SegmentWriter

from thumbindex.index.analysis import RowWords
from thumbindex.index.gathered import Gathered, Part
from thumbindex.index.keyword_terms import TermColumns
from thumbindex.index.postings import Columns, Runs, joined, runs_of
from thumbindex.index.varints import Numbers, packed


class LeanWriter(SegmentWriter):  # type: ignore[misc]
    """Whoosh's writer, which gathers and merges whole columns where Whoosh takes up posting after posting."""

    def __init__(self, index: Any, megabytes: int, timeout: float) -> None:
        super().__init__(index, timeout=timeout, codec=LeanCodec())
        fields = {name: field.format.supports("positions") for name, field in self.schema.items() if field.indexed}
        self.pool = Gathered(fields, Path(self.temp_storage().folder), megabytes << 20)

    def add_row(self, row: int, words: RowWords) -> None:
        """Add a document: its row id, and what it is found by."""
        self.perdocwriter.start_doc(self.docnum)
        for name, value in (("row", row), *((f"length_{name}", length) for name, length in words.lengths.items())):
            self.perdocwriter.add_column_value(name, self.schema[name].column_type, value)
        self.perdocwriter.finish_doc()
        for name, (terms, places) in words.fields.items():
            self.pool.add(name, self.docnum, terms, places)
        self._added = True
        self.docnum += 1

    def add_postings_to_pool(self, reader: Any, startdoc: int, docmap: Mapping[int, int] | None) -> None:
        """Take in the postings of a segment, but for those of its deleted documents."""
        numbers = np.arange(startdoc, startdoc + reader.doc_count_all())
        if docmap is not None:
            numbers = np.array([docmap.get(number, -1) for number in range(len(numbers))], dtype=np.int64)
        for name in reader.indexed_field_names():
            for terms, columns in reader._terms.columns(name):
                self.pool.add_postings(name, terms, _renumbered(columns, numbers))


class LeanCodec(W3Codec):  # type: ignore[misc]
    """Whoosh's codec with terms and postings of ours: BM25F reads lengths from columns, and wants postings as columns too."""

    length_stats = False

    def field_writer(self, storage: Any, segment: Any) -> Any:
        """Return what writes the terms of a segment."""
        return _ColumnsWriter(segment.create_file(storage, self.TERMS_EXT), segment.create_file(storage, self.POSTS_EXT))

    def terms_reader(self, storage: Any, segment: Any) -> Any:
        """Return what reads the terms of a segment."""
        return TermColumns(segment.open_file(storage, self.TERMS_EXT), segment.open_file(storage, self.POSTS_EXT))


class _ColumnsWriter(FieldWriter):  # type: ignore[misc]
    """Writes fields one after the other; where the parts of each stand comes before all terms."""

    def __init__(self, terms: Any, postings: Any) -> None:
        self._terms, self._postings = terms, postings
        self._layout: dict[str, list[int]] = {}
        self._parts: list[bytes] = []
        self.is_closed = False

    def add_postings(self, schema: Any, lengths: None, postings: Iterable[tuple[str, Iterable[Part]]]) -> None:
        """Write each field's postings, and keep its terms until all fields are there."""
        for name, parts in postings:
            written = [(terms, runs_of(columns)) for terms, columns in parts]
            if written:
                self._add_field(name, [term for terms, _ in written for term in terms], joined([runs for _, runs in written]))

    def _add_field(self, name: str, terms: Sequence[bytes], runs: Runs) -> None:
        facts = (np.array([len(term) for term in terms], dtype=np.int64), runs.sizes, runs.lengths, runs.place_lengths)
        parts = [b"".join(terms), *(b"" if each is None else packed(each)[0] for each in facts)]
        self._layout[name] = [*map(len, parts), len(runs.data), len(runs.places)]
        self._parts += parts
        self._postings.write(runs.data)
        self._postings.write(runs.places)

    def close(self) -> None:
        """Write the terms and finish both files."""
        layout = json.dumps(self._layout).encode()
        self._terms.write_uint(len(layout))
        self._terms.write(b"".join((layout, *self._parts)))
        self._terms.close()
        self._postings.close()
        self.is_closed = True


def _renumbered(columns: Columns, numbers: Numbers) -> Columns:
    """Give documents other numbers, and leave out those that have none."""
    documents = numbers[columns.documents]
    kept = documents >= 0
    places = None if columns.places is None else columns.places[np.repeat(kept, columns.counts)]
    return Columns(columns.terms[kept], documents[kept], columns.counts[kept], places)
