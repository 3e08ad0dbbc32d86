"""List the notes that are no longer in force."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date

from thumbindex.library.reader import Reader
from thumbindex.library.visibility import hidden_notes
from thumbindex.model import LinkKind, ListedNote, NoteList, RetiredNote, RetiredNotes
from thumbindex.query.in_force import find_retirements, last_successor, reached_successors
from thumbindex.query.stage import Tools
from thumbindex.settings import QuerySettings


def list_retired(
    notes: NoteList, readers: Sequence[Reader], until: date | None, settings: QuerySettings
) -> RetiredNotes:
    """Return those of some visible notes that are retired, in their order.

    With `until`, a note is listed if it was retired on that day.
    """
    retired = {
        (note.folder, note.path): note
        for reader in readers
        if reader.indexed
        for note in _retired_in(reader, notes.notes, until, settings)
    }
    places = ((note.folder, note.path) for note in notes.notes)
    return RetiredNotes(tuple(retired[place] for place in places if place in retired), notes.unmet)


def _retired_in(
    reader: Reader, notes: Sequence[ListedNote], until: date | None, settings: QuerySettings
) -> Iterator[RetiredNote]:
    opened = reader.folder_snapshot()
    tools = Tools(opened.snapshot, settings, today=date.today())
    ids = {
        note.path: n
        for note in notes
        if note.folder == reader.folder.name
        and (n := opened.catalog.document_at(note.path)) is not None
    }
    reached = reached_successors(ids.values(), tools) - set(ids.values())  # those are visible
    documents = opened.snapshot.catalog.documents
    hidden = hidden_notes(((documents[n].folder, documents[n].path) for n in reached), [reader])
    retirements = find_retirements(ids.values(), until, tools, hidden)
    ids = {path: n for path, n in ids.items() if n in retirements}
    missing: dict[str, list[str]] = defaultdict(list)
    for path, _, link in reader.store.links(ids):
        is_hidden = (reader.folder.name, link.resolved) in hidden
        if link.kind is LinkKind.SUCCESSOR and (is_hidden or not link.resolved):
            missing[path].append(link.text)
    for path, n in ids.items():
        successor, day = last_successor(retirements[n], tools)
        reason = retirements[n].reason
        yield RetiredNote(reader.folder.name, path, reason, successor, day, tuple(missing[path]))
