"""Labeled queries that a vault's own notes hold: what its author called a page when linking to it,
its names, its descriptions.

What is asked is written by whoever wrote the notes, for readers, and nobody had to label it. It is
a known item each time: one page is right, or the few that were called so.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.evaluation.measures import write_rows
from thumbindex.evaluation.queries import Label, LabeledQuery
from thumbindex.model import Link, LinkKind
from thumbindex.text import STOP_WORDS, fold, strip_markup, words

if TYPE_CHECKING:
    from thumbindex.library import Library, NoteText

LINK_KINDS = ("title", "link", "description")
"""Links by pages' names, links in words of their own, and what pages say of themselves: a text that
is several of them is the first.
"""

MOST_QUERIES = 400
"""Of all kinds together: with more, an interval of ±0.02 gets little narrower, and asking takes
longer.
"""

MOST_PLACES = 3
"""A text that leads to more pages says which is meant only where it stands."""

_SHORTEST_DESCRIPTION, _LONGEST_TEXT = 4, 400
"""Words, and characters: a shorter description is a name, and a longer text is no question."""

_POINTING = frozenset(
    "here there click link links page pages note notes more read see learn also article section "
    "doc docs documentation detail details example"
    " examples info information reference above below next previous back home top site website "
    "source original version following first last one"
    " hier siehe mehr weiter zuruck ici voir plus suite aqui ver mas qui vedi".split()
)
"""Words that point at a place and do not say what is there."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A text with one place that it leads to, and the note that leads there by it."""

    kind: str
    text: str
    path: str
    heading: str | None = None
    source: str = ""


def queries_from_links(
    notes: Sequence[NoteText], most: int = MOST_QUERIES
) -> tuple[LabeledQuery, ...]:
    """Return up to `most` labeled queries that the notes hold, balanced by kind, the same for the
    same notes.

    A link's query ignores every note that links by its text. A text that says nothing, that leads
    to many places, or that is another page's name is left out, and so is a description that stands
    in its page's text word for word.
    """
    pages = _pages_by_name(notes)
    asked: dict[str, list[_Mention]] = defaultdict(list)
    for each in (*_links(notes), *_descriptions(notes)):
        asked[fold_text(each.text)].append(each)
    found: dict[str, list[LabeledQuery]] = defaultdict(list)
    for text in sorted(asked, key=_draw):
        query = _query(asked[text])
        if query is not None and not pages.get(text, set()) - {
            label.path for label in query.relevant
        }:
            found[query.kind].append(query)
    # what one kind lacks goes to the others
    in_turns = chain.from_iterable(zip_longest(*(found[kind] for kind in LINK_KINDS)))
    taken = list(filter(None, in_turns))[:most]
    return tuple(sorted(taken, key=lambda query: LINK_KINDS.index(query.kind)))


def _pages_by_name(notes: Sequence[NoteText]) -> Mapping[str, set[str]]:
    pages: dict[str, set[str]] = defaultdict(set)
    for document in (note.document for note in notes):
        for name in (document.title, *document.aliases):
            pages[fold_text(name)].add(document.path)
    return pages


def names_subject(text: str) -> bool:
    """Tell whether a text names a subject: not a URL, a number, or words that only point
    somewhere.
    """
    shortest = 3 if text.isascii() else 2  # two characters of Chinese are a word
    if "://" in text or text.startswith("www.") or not shortest <= len(text) <= _LONGEST_TEXT:
        return False
    return any(
        word not in STOP_WORDS and word not in _POINTING and not word.isdigit()
        for word in words(text)
    )


def fold_text(text: str) -> str:
    """Return a text as two are compared: its words, folded."""
    return " ".join(words(text))


def write_queries(path: Path, queries: Iterable[LabeledQuery]) -> None:
    """Write queries as JSONL, as `load_queries` reads them."""
    write_rows(path, map(asdict, queries), "queries", "--write-queries")


# ------------------------------------------------------------------ what the notes hold


def _links(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield what links call other pages; a page's link to itself, an embedded page and a name that
    nobody wrote tell nothing.
    """
    by_path = {(note.document.folder, note.document.path): note for note in notes}
    for note in notes:
        for link in note.links:
            target = by_path.get((note.document.folder, link.resolved or ""))
            if (
                target is None
                or target is note
                or link.kind not in (LinkKind.WIKILINK, LinkKind.MARKDOWN)
            ):
                continue
            heading = heading_of(link.fragment, target.headings)
            text = _called(link)
            kind = "title" if _is_named(text, target, heading) else "link"
            yield _Mention(kind, text, target.document.path, heading, note.document.path)


def _called(link: Link) -> str:
    """Return what a link's reader sees, without marks."""
    text = link.text.replace(" > ", " ") if link.kind is LinkKind.WIKILINK else link.text
    return " ".join(strip_markup(text).split())


def _is_named(text: str, target: NoteText, heading: str | None) -> bool:
    """Tell whether every word of a text stands in one of the target's names."""
    document = target.document
    stem = document.path.rpartition(".")[0]
    names = (document.title, *document.aliases, stem, f"{document.title} {heading or ''}")
    asked = _subjects(text)
    return any(asked <= _subjects(name) for name in names)


def _subjects(text: str) -> set[str]:
    """Return the words that carry a subject, without the plural's ending: a name in the plural is
    still the name.
    """
    return {word.removesuffix("s") for word in words(text) if word not in STOP_WORDS}


def heading_of(fragment: str, headings: Sequence[str]) -> str | None:
    """Return the heading that a link's fragment means, written out or as an anchor; None where
    there is none.
    """
    wanted = _letters(fragment.rpartition("#")[2])
    return next((each for each in headings if _letters(each) == wanted), None) if wanted else None


def _letters(text: str) -> str:
    return "".join(c for c in fold(text) if c.isalnum())


def _descriptions(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield what pages say of themselves in front matter, where their texts do not say it word for
    word.
    """
    for note in notes:
        text = " ".join(strip_markup(note.document.description).split())
        if len(words(text)) < _SHORTEST_DESCRIPTION:
            continue
        if fold_text(text) not in fold_text(strip_markup("\n".join(note.texts))):
            yield _Mention("description", text, note.document.path)


# ------------------------------------------------------------------ from texts to queries


def _query(asked: Sequence[_Mention]) -> LabeledQuery | None:
    """Make a query of all places that one text leads to; None where it says nothing or leads to
    many.
    """
    kind = min((each.kind for each in asked), key=LINK_KINDS.index)
    text = next(each.text for each in asked if each.kind == kind)
    labels = tuple(dict.fromkeys(Label(each.path, each.heading, 2) for each in asked))
    if not names_subject(text) or len({each.path for each in asked}) > MOST_PLACES:
        return None
    ignored = {each.source for each in asked if each.source} - {each.path for each in asked}
    return LabeledQuery(f"{kind}-{_draw(text)[:8]}", text, kind, labels, tuple(sorted(ignored)))


def _draw(text: str) -> str:
    """Return where a text stands in the draw: the same for the same text, whatever else there
    is.
    """
    return hashlib.blake2b(
        fold_text(text).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


# ------------------------------------------------------------------ asking them


def unseen(library: Library, query: LabeledQuery) -> tuple[Library, tuple[str, ...]]:
    """Return a library that does not search descriptions for one of them, and the paths of the
    notes that a query is asked without.

    To take notes that link by its text out of the ranking afterwards is not enough: they are found
    by their very words, and what they link to by following their links.
    """
    if query.kind == "description":
        settings = library.config.query
        blind = replace(settings.search_keyword, description=0.0)
        library = library.with_query_settings(replace(settings, search_keyword=blind))
    labeled = {label.path for label in query.relevant}
    return library, tuple(sorted(set(query.ignore) - labeled))


def held_queries(library: Library) -> tuple[LabeledQuery, ...]:
    """Return the queries that a library's own notes hold; raise UsageError where they hold none."""
    from thumbindex.library import read_notes  # heavy, for who only reads queries

    if not (queries := queries_from_links(read_notes(library.opened))):
        raise UsageError(
            "These notes hold no query: no link with words of its own and no description."
        )
    return queries


def check_source(queries: Sequence[Path], from_links: bool, keep: Path | None) -> None:
    """Raise UsageError unless queries come from files or from the notes' links, and only the latter
    are kept.
    """
    if from_links is bool(queries):
        raise UsageError(
            "Say what to ask: files of labeled queries, or --from-links for what the notes "
            "themselves hold."
        )
    if keep and not from_links:
        raise UsageError("--write-queries keeps what --from-links finds: give both.")
