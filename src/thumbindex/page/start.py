"""The Ask screen before a question: folders, example questions and the newest notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from thumbindex.errors import UnknownPathError
from thumbindex.model import Document, ListedNote, day_of, iso_day, modified_on
from thumbindex.page.filters import Chip
from thumbindex.page.visit import screen_address
from thumbindex.text import STOP_WORDS, words

if TYPE_CHECKING:
    from thumbindex.library import Library

_MAX_RECENT = 8
"""Maximum recent notes shown."""

_MAX_FOLDERS = 12

_MAX_EXAMPLES, _EXAMPLE_WORDS = 3, range(3, 8)
"""Number of example questions, and the words of one."""

_QUESTION = re.compile(r"(?:how|what|when|where|which|who|why|can|do|does|is|are|should)\b", re.I)
"""Headings that begin so are preferred as example questions."""

_NOTES_READ = 20
"""Notes whose headings are read to find example questions: the newest, then some of all."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start screen: folders with their notes, questions to try, and the newest notes."""

    folders: tuple[Chip, ...] = ()
    examples: tuple[str, ...] = ()
    recent: tuple[ListedNote, ...] = ()


def start_of(library: Library) -> Start:
    """Return the start screen of a library. Only some files are read."""
    if not library.indexed:
        return Start()
    newest = _newest(library)
    found = dict.fromkeys(_examples(library, newest))
    if len(found) < _MAX_EXAMPLES:  # of a log or a changelog, the newest notes are all alike
        notes = library.listing().notes
        found |= dict.fromkeys(_examples(library, notes[:: max(1, len(notes) // _NOTES_READ)]))
    examples = sorted(found, key=lambda text: not _QUESTION.match(text))[:_MAX_EXAMPLES]
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
    notes = library.browse(newest_documents, _NOTES_READ)
    return tuple(
        ListedNote(
            note.folder, note.path, note.title, iso_day(day_of(note) or modified_on(note)), ()
        )
        for note in library.documents_at((note.folder, note.path) for note in notes)
    )


def newest_documents(documents: Iterable[Document]) -> list[Document]:
    """Return the documents with a date, newest first. If there are none, all by last change."""
    listed = list(documents)
    dated = [(day, document) for document in listed if (day := day_of(document))]
    dated = dated or [(modified_on(document), document) for document in listed]
    return [document for _, document in sorted(dated, key=itemgetter(0), reverse=True)]


def _examples(library: Library, notes: Iterable[ListedNote]) -> Iterator[str]:
    """Yield headings to ask for: the questions of a note, else its first heading that makes one."""
    outlines = list[tuple[str, list[str]]]()
    for note in notes:
        with suppress(UnknownPathError):
            outline = library.outline(note.path, folder=note.folder)
            headings = [entry.heading for entry in outline[1:] if entry.level > 1]
            outlines.append((note.title, list(dict.fromkeys(headings))))
    counts = Counter(heading for _, headings in outlines for heading in headings)
    for title, headings in outlines:
        examples = [_example(title, heading, counts[heading] > 1) for heading in headings]
        plain = [text for text in examples if text]
        yield from [text for text in plain if _QUESTION.match(text)] or plain[:1]


def _example(title: str, heading: str, is_shared: bool) -> str:
    """Return a heading as a question, with the note's title if it is short; or "" if it is none.

    A heading that several notes share belongs to their template. Titles and headings with digits
    are mostly days and versions. A stop word at the end ("Author of") needs the text below.
    """
    is_part = not set(words(title)).isdisjoint(words(heading)) or len(heading.split()) > 3
    is_whole = is_part or bool(_QUESTION.match(heading))
    text = (heading if is_whole else f"{title} {heading}").strip(" :#")
    is_plain = text.replace(" ", "").replace("-", "").replace("?", "").isalpha()
    is_open = (is_whole and is_shared) or not STOP_WORDS.isdisjoint(words(heading)[-1:])
    return text if is_plain and not is_open and len(text.split()) in _EXAMPLE_WORDS else ""
