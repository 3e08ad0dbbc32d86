"""The Ask screen before a question: folders, example questions and the newest notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from thumbindex.errors import UnknownPathError
from thumbindex.model import Document, ListedNote, day_of, iso_day, modified_on
from thumbindex.page.filters import Chip
from thumbindex.page.visit import screen_address
from thumbindex.text import words

if TYPE_CHECKING:
    from thumbindex.library import Library

_MAX_RECENT = 8
"""Maximum recent notes shown."""

_MAX_FOLDERS = 12

_MAX_EXAMPLES, _EXAMPLE_WORDS = 3, range(3, 8)
"""Number of example questions, and the words of one."""

_NOTES_READ = 20
"""Newest notes whose headings are read to find example questions."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start screen: folders with their notes, questions to try, and the newest notes."""

    folders: tuple[Chip, ...] = ()
    examples: tuple[str, ...] = ()
    recent: tuple[ListedNote, ...] = ()


def start_of(library: Library) -> Start:
    """Return the start screen of a library. Only the files of the newest notes are read."""
    if not library.indexed:
        return Start()
    newest = _newest(library)
    examples = islice(dict.fromkeys(_examples(library, newest)), _MAX_EXAMPLES)
    return Start(tuple(_folders(library)), tuple(examples), newest[:_MAX_RECENT])


def _folders(library: Library) -> list[Chip]:
    """Return the folders; of a single one, the directories in it."""
    if len(library.folders) > 1:
        return [
            Chip(name, screen_address("ask", folder=name), state.documents)
            for name, state in library.index_states().items()
        ][:_MAX_FOLDERS]
    counts = Counter(
        note.path.partition("/")[0] for note in library.listing().notes if "/" in note.path
    )
    return [
        Chip(name, screen_address("ask", path=f"{name}/**"), notes)
        for name, notes in sorted(counts.items(), key=lambda count: (-count[1], count[0]))
        if not set(name) & set("*?[]!{}")
    ][:_MAX_FOLDERS]


def _newest(library: Library) -> tuple[ListedNote, ...]:
    """Return the newest notes. If no note has a date, those whose files changed last."""
    days: dict[tuple[str, str], date] = {}

    def newest_first(documents: Iterable[Document]) -> list[Document]:
        listed = list(documents)
        dated = [(day, document) for document in listed if (day := day_of(document))]
        dated = dated or [(modified_on(document), document) for document in listed]
        days.update(((document.folder, document.path), day) for day, document in dated)
        return [document for _, document in sorted(dated, key=itemgetter(0), reverse=True)]

    return tuple(
        ListedNote(note.folder, note.path, note.heading, iso_day(days[note.folder, note.path]), ())
        for note in library.browse(newest_first, _NOTES_READ)
    )


def _examples(library: Library, notes: Iterable[ListedNote]) -> Iterator[str]:
    """Yield a question for each note that has a heading to ask for, with the note's title.

    Titles and headings with digits are mostly days and versions: they make no question.
    """
    for note in notes:
        title = set(words(note.title))
        with suppress(UnknownPathError):
            for entry in library.outline(note.path, folder=note.folder)[1:]:
                is_part = bool(title & set(words(entry.heading)))
                text = entry.heading if is_part else f"{note.title} {entry.heading}"
                text = text.strip(" :#")
                is_plain = text.replace(" ", "").replace("-", "").replace("?", "").isalpha()
                if entry.level > 1 and len(text.split()) in _EXAMPLE_WORDS and is_plain:
                    yield text
                    break
