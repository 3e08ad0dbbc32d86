"""List the notes that are no longer in force."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date

from thumbindex.library.reader import Reader
from thumbindex.library.reading import list_notes
from thumbindex.library.visibility import hidden_notes
from thumbindex.model import Filters, LinkKind, ListedNote, RetiredNote, RetiredNotes
from thumbindex.query.in_force import all_successors, find_retirement, note_day
from thumbindex.query.stage import Tools
from thumbindex.settings import QuerySettings


def list_retired(
    filters: Filters, readers: Sequence[Reader], settings: QuerySettings
) -> RetiredNotes:
    """List the retired notes that pass the filters, newest first.

    With `until`, a note is listed if it was retired on that day.
    """
    notes = list_notes(filters, readers)
    retired = {
        (note.folder, note.path): note
        for reader in readers
        if reader.indexed
        for note in _retired_in(reader, notes.notes, filters, settings)
    }
    places = ((note.folder, note.path) for note in notes.notes)
    return RetiredNotes(tuple(retired[place] for place in places if place in retired), notes.unmet)


def _retired_in(
    reader: Reader, notes: Sequence[ListedNote], filters: Filters, settings: QuerySettings
) -> Iterator[RetiredNote]:
    opened = reader.folder_snapshot()
    tools = Tools(opened.snapshot, settings, today=date.today())
    ids = {
        note.path: n
        for note in notes
        if note.folder == reader.folder.name
        and (n := opened.catalog.document_at(note.path)) is not None
        and find_retirement(n, filters.until, tools)
    }
    places = {(s.folder, s.path) for n in ids.values() for s in all_successors(n, tools)}
    hidden = hidden_notes(places, [reader])
    missing: dict[str, list[str]] = defaultdict(list)
    for path, _, link in reader.store.links(ids):
        is_hidden = (reader.folder.name, link.resolved) in hidden
        if link.kind is LinkKind.SUCCESSOR and (is_hidden or not link.resolved):
            missing[path].append(link.text)
    for path, n in ids.items():
        if retirement := find_retirement(n, filters.until, tools, hidden):
            last = retirement.successors[:1]
            documents = opened.snapshot.catalog.documents
            yield RetiredNote(
                reader.folder.name,
                path,
                retirement.reason,
                "".join(documents[successor].path for successor in last),
                "".join(note_day(successor, tools) for successor in last),
                tuple(missing[path]),
            )
