"""Labeled queries from a vault's own notes: link texts, names and descriptions of pages.

They are known-item queries without manual labels: the right pages are the targets of the links.
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

_QUERY_KINDS = ("title", "link", "description")
"""Links by a page's name, links in other words, and descriptions; a text of several kinds is of the
first.
"""

_MAX_QUERIES = 400
"""Maximum queries of all kinds: more would hardly narrow an interval of ±0.02."""

_MAX_TARGETS = 3
"""Maximum pages that a text may lead to: more are ambiguous."""

_SHORTEST_DESCRIPTION, _LONGEST_TEXT = 4, 400
"""Minimum words of a description, and maximum characters of a query."""

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
    """A text with one target, and the note that links to it."""

    kind: str
    text: str
    path: str
    heading: str | None = None
    source: str = ""


def queries_from_links(
    notes: Sequence[NoteText], most: int = _MAX_QUERIES
) -> tuple[LabeledQuery, ...]:
    """Return up to `most` labeled queries from the notes, balanced by kind and deterministic.

    A link's query ignores every note that links by its text. Left out are texts without a subject,
    with many targets, or equal to another page's name, and descriptions quoted in their page.
    """
    pages = _pages_by_name(notes)
    asked: dict[str, list[_Mention]] = defaultdict(list)
    for each in (*_link_mentions(notes), *_descriptions(notes)):
        asked[fold_words(each.text)].append(each)
    found: dict[str, list[LabeledQuery]] = defaultdict(list)
    for text in sorted(asked, key=_draw_key):
        query = _query(asked[text])
        if query is not None and not pages.get(text, set()) - {
            label.path for label in query.relevant
        }:
            found[query.kind].append(query)
    # what one kind lacks goes to the others
    in_turns = chain.from_iterable(zip_longest(*(found[kind] for kind in _QUERY_KINDS)))
    taken = list(filter(None, in_turns))[:most]
    return tuple(sorted(taken, key=lambda query: _QUERY_KINDS.index(query.kind)))


def _pages_by_name(notes: Sequence[NoteText]) -> Mapping[str, set[str]]:
    pages: dict[str, set[str]] = defaultdict(set)
    for document in (note.document for note in notes):
        for name in (document.title, *document.aliases):
            pages[fold_words(name)].add(document.path)
    return pages


def has_subject(text: str) -> bool:
    """Return whether a text has a subject: not a URL, a number, or words such as "see here"."""
    shortest = 3 if text.isascii() else 2  # two characters of Chinese are a word
    if "://" in text or text.startswith("www.") or not shortest <= len(text) <= _LONGEST_TEXT:
        return False
    return any(
        word not in STOP_WORDS and word not in _POINTING and not word.isdigit()
        for word in words(text)
    )


def fold_words(text: str) -> str:
    """Return the folded words of a text, for comparison."""
    return " ".join(words(text))


def write_queries(path: Path, queries: Iterable[LabeledQuery]) -> None:
    """Write queries as JSONL, as `load_queries` reads them."""
    write_rows(path, map(asdict, queries), "queries", "--write-queries")


# ------------------------------------------------------------------ what the notes hold


def _link_mentions(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield the texts of links to other pages; embeds and links to the page itself do not count."""
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
            heading = match_heading(link.fragment, target.headings)
            text = _link_text(link)
            kind = "title" if _is_name_of(text, target, heading) else "link"
            yield _Mention(kind, text, target.document.path, heading, note.document.path)


def _link_text(link: Link) -> str:
    """Return the visible text of a link, without markup."""
    text = link.text.replace(" > ", " ") if link.kind is LinkKind.WIKILINK else link.text
    return " ".join(strip_markup(text).split())


def _is_name_of(text: str, target: NoteText, heading: str | None) -> bool:
    """Return whether every word of a text is in one of the target's names."""
    document = target.document
    stem = document.path.rpartition(".")[0]
    names = (document.title, *document.aliases, stem, f"{document.title} {heading or ''}")
    asked = _subject_words(text)
    return any(asked <= _subject_words(name) for name in names)


def _subject_words(text: str) -> set[str]:
    """Return the words of a text without stop words and plural endings."""
    return {word.removesuffix("s") for word in words(text) if word not in STOP_WORDS}


def match_heading(fragment: str, headings: Sequence[str]) -> str | None:
    """Return the heading that a link's fragment refers to, as text or anchor; None for no match."""
    wanted = _letters_only(fragment.rpartition("#")[2])
    return (
        next((heading for heading in headings if _letters_only(heading) == wanted), None)
        if wanted
        else None
    )


def _letters_only(text: str) -> str:
    return "".join(c for c in fold(text) if c.isalnum())


def _descriptions(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield the descriptions in front matter that the page's text does not repeat."""
    for note in notes:
        text = " ".join(strip_markup(note.document.description).split())
        if len(words(text)) < _SHORTEST_DESCRIPTION:
            continue
        if fold_words(text) not in fold_words(strip_markup("\n".join(note.texts))):
            yield _Mention("description", text, note.document.path)


# ------------------------------------------------------------------ from texts to queries


def _query(asked: Sequence[_Mention]) -> LabeledQuery | None:
    """Build the query of one text and its targets; None without a subject or with too many."""
    kind = min((each.kind for each in asked), key=_QUERY_KINDS.index)
    text = next(each.text for each in asked if each.kind == kind)
    labels = tuple(dict.fromkeys(Label(each.path, each.heading, 2) for each in asked))
    if not has_subject(text) or len({each.path for each in asked}) > _MAX_TARGETS:
        return None
    ignored = {each.source for each in asked if each.source} - {each.path for each in asked}
    return LabeledQuery(f"{kind}-{_draw_key(text)[:8]}", text, kind, labels, tuple(sorted(ignored)))


def _draw_key(text: str) -> str:
    """Return a deterministic sampling key of a text."""
    return hashlib.blake2b(
        fold_words(text).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


# ------------------------------------------------------------------ asking them


def without_sources(library: Library, query: LabeledQuery) -> tuple[Library, tuple[str, ...]]:
    """Return a library and excluded paths for a query, so that its source does not help to find it.

    Removing the source notes from the ranking afterwards is not enough: stages follow their links.
    """
    if query.kind == "description":
        settings = library.config.query
        blind = replace(settings.search_keyword, description=0.0)
        library = library.with_query_settings(replace(settings, search_keyword=blind))
    labeled = {label.path for label in query.relevant}
    return library, tuple(sorted(set(query.ignore) - labeled))


def read_own_queries(library: Library) -> tuple[LabeledQuery, ...]:
    """Return the queries from a library's own notes. Raises UsageError if there are none."""
    if not (queries := queries_from_links(library.all_notes())):
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
