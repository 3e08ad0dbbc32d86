"""A note as a page: its text as HTML, who links to it and in which words, what leads nowhere, what
is near, and what lies around it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from thumbindex.corpus.html import render_note
from thumbindex.errors import UnknownPathError
from thumbindex.library.note_lookup import FoundNote
from thumbindex.library.reader import Reader
from thumbindex.library.reading import related_to, text_now
from thumbindex.library.visibility import hidden_in, note_states
from thumbindex.model import Backlink, BrokenLink, DocumentId, Link, NotePage

MOST_BACKLINKS = 200
"""Links to a note that are listed with their sentence."""

_MOST_READ = 50
"""Other notes that are read for those sentences."""

_LONGEST_SENTENCE = 400

_NEAR = 10
"""Notes that are listed as near by meaning."""

MOST_NEIGHBORS = 40
"""Notes of the neighborhood: more of them are no picture."""

NoteAddress = Callable[[str, str], str]
"""Takes the path of a note and a heading, which may be empty, and returns where it is shown."""


def note_page(
    found: FoundNote,
    note_address: NoteAddress,
    tag_address: Callable[[str], str],
    lines: tuple[int, int] | None,
) -> NotePage:
    """Return a note as its file is now, with what the index knows around it.

    Notes that may not be shown are nowhere in it.
    """
    reader, own, document = found.reader, found.id, found.document
    folder, path = reader.folder.name, document.path
    text = text_now(reader, path)
    catalog, graph = reader.opened().catalog, found.snapshot.graph
    documents = catalog.documents
    links = [link for _, _, link in reader.store.links([path])]
    sources = reader.store.links_to(path)
    around = _around(own, lambda n: (*graph.linked(n), *graph.linking(n)))
    states = note_states(
        {
            *((folder, link.resolved) for link in links if link.resolved),
            *((folder, source) for source, _ in sources),
            *((folder, documents[n].path) for n in around),
        },
        [reader],
    )
    hidden = {path for _, path in hidden_in(states)}
    resolved = {
        link.target: link.resolved
        for link in links
        if link.resolved and link.resolved not in hidden
    }

    def link_address(link: Link) -> str | None:
        target = resolved.get(link.target) if link.target else path
        return None if target is None else note_address(target, link.fragment)

    related = related_to(found, 2 * _NEAR)
    tied = {*related.links, *related.backlinks}
    nodes = [n for n in around if n == own or documents[n].path not in hidden]
    shown = nodes[:MOST_NEIGHBORS]
    places = {n: at for at, n in enumerate(shown)}
    near = [each.path for each in related.similar]
    named = [n for each in (*tied, *near) if (n := catalog.at(each)) is not None]
    titles = {documents[n].path: documents[n].title for n in (*named, *shown)}
    open_sources = [(source, link) for source, link in sources if source not in hidden]
    changed = {path for (_, path), state in states.items() if state == "changed"}
    return NotePage(
        folder=folder,
        path=path,
        document=document,
        rendered=render_note(path, text, link_address, tag_address, lines, document.title),
        related=replace(related, similar=related.similar[:_NEAR]),
        titles=titles,
        backlinks=tuple(_backlinks(open_sources, reader, changed, titles)),
        broken=tuple(
            BrokenLink(folder, path, link.line, link.kind, link.target, link.fragment, link.text)
            for link in sorted(links, key=lambda link: link.line)
            if not link.resolved or link.resolved in hidden
        ),
        unlinked=tuple(each for each in related.similar if each.path not in tied)[:_NEAR],
        neighbors=tuple(documents[n].path for n in shown),
        edges=tuple(
            (places[n], places[other])
            for n in shown
            for other in graph.linked(n)
            if other in places
        ),
        neighbors_left=len(nodes) - len(shown),
    )


def _around(
    own: DocumentId, near: Callable[[DocumentId], Sequence[DocumentId]]
) -> list[DocumentId]:
    """Return the documents up to two links away, the nearest first, by their order."""
    found = {own: 0}
    for distance in (1, 2):
        for n in [each for each, at in found.items() if at == distance - 1]:
            for other in sorted(near(n)):
                found.setdefault(other, distance)
    return list(found)


def _backlinks(
    sources: Sequence[tuple[str, Link]],
    reader: Reader,
    changed: Collection[str],
    titles: Mapping[str, str],
) -> Iterator[Backlink]:
    """Yield the links to a note with the lines that they stand in; of a note that has changed since
    it was indexed no line can be told.
    """
    taken = sources[:MOST_BACKLINKS]
    rows: dict[str, list[str]] = {}
    for path in list(dict.fromkeys(path for path, _ in taken))[:_MOST_READ]:
        with suppress(UnknownPathError):
            rows[path] = [] if path in changed else text_now(reader, path).split("\n")
    for path, link in taken:
        text = rows.get(path, [])[link.line - 1 : link.line]
        yield Backlink(
            path,
            titles.get(path, path),
            link.line,
            text[0].strip()[:_LONGEST_SENTENCE] if text else "",
        )
