"""The Note screen's content: HTML, backlinks, broken links, similar notes and a link graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from thumbindex.corpus.markdown import is_mdx
from thumbindex.corpus.payload import omit_payloads
from thumbindex.errors import UnknownPathError
from thumbindex.library.note_html import LinkTarget, TagTarget, render_lines, render_note
from thumbindex.library.note_lookup import FoundNote
from thumbindex.library.reader import Reader
from thumbindex.library.reading import current_text
from thumbindex.library.related import broken_in, related_to
from thumbindex.library.visibility import hidden_in, hidden_paths, note_states
from thumbindex.model import Backlink, DocumentId, Link, NotePage, Passage

MAX_BACKLINKS = 200
"""Maximum backlinks listed."""

_MAX_NOTES_READ = 50
"""Maximum notes read to quote the lines of backlinks."""

_MAX_SENTENCE = 400

_MAX_NEAR = 10
"""Maximum similar notes listed."""

MAX_NEIGHBORS = 21
"""Maximum notes that a page's link graph shows."""

NoteTarget = Callable[[str, str], str]
"""Returns the page address of a note, given its path and a heading or an empty string."""


def note_page(
    note: FoundNote,
    note_address: NoteTarget,
    tag_address: TagTarget,
    lines: tuple[int, int] | None,
) -> NotePage:
    """Render a note's current text with its links and similar notes, without hidden notes."""
    reader, id_, document = note.reader, note.id, note.document
    folder, path = reader.folder.name, document.path
    text = current_text(reader, path)
    catalog, graph = reader.folder_snapshot().catalog, note.snapshot.graph
    documents = catalog.documents
    links = [link for _, _, link in reader.store.links([path])]
    sources = reader.store.links_to(path)
    nearby = _within_two_links(id_, lambda n: (*graph.outgoing(n), *graph.incoming(n)))
    states = note_states(
        {
            *((folder, link.resolved) for link in links if link.resolved),
            *((folder, source) for source, _ in sources),
            *((folder, documents[n].path) for n in nearby),
        },
        [reader],
    )
    hidden = {path for _, path in hidden_in(states)}
    in_order = sorted(links, key=lambda link: link.line)
    broken = tuple(broken_in(reader, [(path, link) for link in in_order]))
    link_address = _link_target(path, links, hidden, {link.target for link in broken}, note_address)

    related = related_to(note, 2 * _MAX_NEAR)
    linked_paths = {*related.links, *related.backlinks}
    nodes = [n for n in nearby if n == id_ or documents[n].path not in hidden]
    neighbors = nodes[:MAX_NEIGHBORS]
    places = {n: at for at, n in enumerate(neighbors)}
    mentioned = map(
        catalog.document_at, (*linked_paths, *(similar.path for similar in related.similar))
    )
    titled = (*(n for n in mentioned if n is not None), *neighbors)
    titles = {documents[n].path: documents[n].title for n in titled}
    open_sources = [(source, link) for source, link in sources if source not in hidden]
    changed = {path for (_, path), state in states.items() if state == "changed"}
    return NotePage(
        folder=folder,
        path=path,
        document=document,
        rendered=render_note(
            path, text, link_address, tag_address, lines, document.title, note.in_vault
        ),
        related=replace(related, similar=related.similar[:_MAX_NEAR]),
        titles=titles,
        backlinks=tuple(_backlinks(open_sources, reader, changed, titles)),
        broken=broken,
        unlinked=tuple(s for s in related.similar if s.path not in linked_paths)[:_MAX_NEAR],
        neighbors=tuple(documents[n].path for n in neighbors),
        edges=tuple(
            (places[n], places[neighbor])
            for n in neighbors
            for neighbor in graph.outgoing(n)
            if neighbor in places
        ),
        neighbors_omitted=len(nodes) - len(neighbors),
    )


def render_passage(
    passage: Passage,
    start: int,
    stop: int,
    reader: Reader,
    note_address: NoteTarget,
    tag_address: TagTarget,
) -> str:
    """Render some lines of a passage, without reading a file; see `Library.render_passage`."""
    text, path = passage.text, passage.path
    links: list[Link] = []
    if any(sign in text[start:stop] for sign in ("](", "][", "[[")):
        links = [link for _, _, link in reader.store.links([path])]
        lines = range(passage.start_line, passage.end_line + 1)
        links = [link for link in links if link.line in lines]
    hidden = hidden_paths({link.resolved for link in links if link.resolved}, reader)
    broken = {link.target for link in broken_in(reader, [(path, link) for link in links])}
    return render_lines(
        text,
        start,
        stop,
        sorted({text[begin:end].lower() for begin, end in passage.marks}),
        _link_target(path, links, hidden, broken, note_address),
        tag_address,
        is_mdx(path),
    )


def _link_target(
    path: str,
    links: Sequence[Link],
    hidden: Collection[str],
    broken: Collection[str],
    note_address: NoteTarget,
) -> LinkTarget:
    """Return the page addresses of a note's links, given the hidden notes and broken targets."""
    resolved = {
        link.target: link.resolved
        for link in links
        if link.resolved and link.resolved not in hidden
    }

    def address(link: Link) -> str | None:
        target = resolved.get(link.target) if link.target else path
        if target is None:
            return None if link.target in broken else ""
        return note_address(target, link.fragment)

    return address


def _within_two_links(
    start: DocumentId, neighbors_of: Callable[[DocumentId], Sequence[DocumentId]]
) -> list[DocumentId]:
    """Return `start` and the documents at most two links away, nearest first."""
    distances = {start: 0}
    for distance in (1, 2):
        reached = [n for n, steps in distances.items() if steps == distance - 1]
        for neighbor in chain.from_iterable(sorted(neighbors_of(n)) for n in reached):
            distances.setdefault(neighbor, distance)
    return list(distances)


def _backlinks(
    sources: Sequence[tuple[str, Link]],
    reader: Reader,
    changed: Collection[str],
    titles: Mapping[str, str],
) -> Iterator[Backlink]:
    """Yield each link to a note, with the line of text that contains the link.

    The line is empty if the linking note has changed.
    """
    listed = sources[:MAX_BACKLINKS]
    rows: dict[str, list[str]] = {}
    for path in list(dict.fromkeys(path for path, _ in listed))[:_MAX_NOTES_READ]:
        with suppress(UnknownPathError):
            text = "" if path in changed else current_text(reader, path)
            rows[path] = omit_payloads(text).split("\n")
    for path, link in listed:
        line = rows.get(path, [])[link.line - 1 : link.line]
        yield Backlink(
            path,
            titles.get(path, path),
            link.line,
            line[0].strip()[:_MAX_SENTENCE] if line else "",
        )
