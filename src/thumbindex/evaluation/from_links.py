"""Create labeled queries from the link texts and front matter descriptions of a vault's notes.

These known-item queries need no manual labels. The relevant note is the target of the link, or the
note that has the description.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.errors import UsageError
from thumbindex.evaluation.queries import Label, LabeledQuery
from thumbindex.model import Link, LinkKind
from thumbindex.text import STOP_WORDS, fold, words
from thumbindex.visible_text import strip_markup

if TYPE_CHECKING:
    from thumbindex.library import Library, NoteText

_QUERY_KINDS = ("title", "link", "description")
"""Kinds of queries, by precedence: names of the target, other link texts, and descriptions."""

_MAX_QUERIES = 400
"""Default maximum number of queries over all kinds, enough for a 95% interval of ±0.02."""

_MAX_TARGETS = 3
"""Texts that refer to more notes than this are ambiguous, and are not used as queries."""

_SHORTEST_DESCRIPTION, _LONGEST_TEXT = 4, 400
"""Descriptions with fewer words and texts with more characters are not used as queries."""

_POINTER_WORDS = frozenset(
    "here there click link links page pages note notes more read see learn also article section "
    "doc docs documentation detail details example"
    " examples info information reference above below next previous back home top site website "
    "source original version following first last one"
    " hier siehe mehr weiter zuruck ici voir plus suite aqui ver mas qui vedi".split()
)
"""Words that point to a note without naming its subject."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A link text or description, and the relevant note's path.

    `heading` is the heading that the link names. `source` is the path of the note that contains the
    link, or "" for a description.
    """

    kind: str
    text: str
    path: str
    heading: str | None = None
    source: str = ""


def queries_from_links(
    notes: Sequence[NoteText], most: int = _MAX_QUERIES
) -> tuple[LabeledQuery, ...]:
    """Return up to `most` labeled queries from the notes, balanced by kind.

    The selection is deterministic. Leaves out unsuitable texts, such as texts without a
    subject or with too many targets.
    """
    paths = _paths_by_name(notes)
    mentions: dict[str, list[_Mention]] = defaultdict(list)
    for mention in (*_link_mentions(notes), *_descriptions(notes)):
        mentions[fold_words(mention.text)].append(mention)
    queries: dict[str, list[LabeledQuery]] = defaultdict(list)
    for text in sorted(mentions, key=_draw_key):
        query = _query(mentions[text])
        if query is not None and not paths.get(text, set()) - {
            label.path for label in query.relevant
        }:
            queries[query.kind].append(query)
    # alternate between kinds; if one runs out, continue with the others
    in_turns = chain.from_iterable(zip_longest(*(queries[kind] for kind in _QUERY_KINDS)))
    selected = list(filter(None, in_turns))[:most]
    return tuple(sorted(selected, key=lambda query: _QUERY_KINDS.index(query.kind)))


def _paths_by_name(notes: Sequence[NoteText]) -> Mapping[str, set[str]]:
    paths: dict[str, set[str]] = defaultdict(set)
    for document in (note.document for note in notes):
        for name in (document.title, *document.aliases):
            paths[fold_words(name)].add(document.path)
    return paths


def has_subject(text: str) -> bool:
    """Return whether a text names a subject, unlike a URL, a number or "see here"."""
    shortest = 3 if text.isascii() else 2  # two Chinese characters can be a word
    if "://" in text or text.startswith("www.") or not shortest <= len(text) <= _LONGEST_TEXT:
        return False
    return any(
        word not in STOP_WORDS and word not in _POINTER_WORDS and not word.isdigit()
        for word in words(text)
    )


def fold_words(text: str) -> str:
    """Return the folded words of a text, for comparison."""
    return " ".join(words(text))


# ------------------------------------------------------------------ texts in notes


def _link_mentions(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield the text and target of each link to another note. Embeds are skipped."""
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
    """Return whether one of the target's names contains every subject word of a text."""
    document = target.document
    stem = document.path.rpartition(".")[0]
    names = (document.title, *document.aliases, stem, f"{document.title} {heading or ''}")
    text_words = _subject_words(text)
    return any(text_words <= _subject_words(name) for name in names)


def _subject_words(text: str) -> set[str]:
    """Return the words of a text, without stop words and without plural endings."""
    return {word.removesuffix("s") for word in words(text) if word not in STOP_WORDS}


def match_heading(fragment: str, headings: Sequence[str]) -> str | None:
    """Return the heading that a link's fragment names (as text or as an anchor), or None."""
    letters = _letters_only(fragment.rpartition("#")[2])
    return (
        next((heading for heading in headings if _letters_only(heading) == letters), None)
        if letters
        else None
    )


def _letters_only(text: str) -> str:
    return "".join(c for c in fold(text) if c.isalnum())


def _descriptions(notes: Sequence[NoteText]) -> Iterator[_Mention]:
    """Yield each front matter description that is not repeated in the text of its note."""
    for note in notes:
        text = " ".join(strip_markup(note.document.description).split())
        if len(words(text)) < _SHORTEST_DESCRIPTION:
            continue
        if fold_words(text) not in fold_words(strip_markup("\n".join(note.texts))):
            yield _Mention("description", text, note.document.path)


# ------------------------------------------------------------------ queries


def _query(mentions: Sequence[_Mention]) -> LabeledQuery | None:
    """Build a query from all mentions of a text, or return None if the text is unsuitable."""
    kind = min((mention.kind for mention in mentions), key=_QUERY_KINDS.index)
    text = next(mention.text for mention in mentions if mention.kind == kind)
    labels = tuple(dict.fromkeys(Label(mention.path, mention.heading, 2) for mention in mentions))
    targets = {mention.path for mention in mentions}
    if not has_subject(text) or len(targets) > _MAX_TARGETS:
        return None
    ignored = {mention.source for mention in mentions if mention.source} - targets
    return LabeledQuery(f"{kind}-{_draw_key(text)[:8]}", text, kind, labels, tuple(sorted(ignored)))


def _draw_key(text: str) -> str:
    """Return a hash of a text. Queries are sampled in the order of their hashes."""
    return hashlib.blake2b(
        fold_words(text).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


# ------------------------------------------------------------------ running queries


def without_sources(library: Library, query: LabeledQuery) -> tuple[Library, tuple[str, ...]]:
    """Return a library and paths to exclude, which hide a query's source from the search.

    For a description, the library does not search descriptions. For a link text, the paths are
    those of the notes with the link.
    """
    if query.kind == "description":
        settings = library.config.query
        blind = replace(settings.search_keyword, description=0.0)
        library = library.with_query_settings(replace(settings, search_keyword=blind))
    labeled = {label.path for label in query.relevant}
    # removing these notes from the ranking is not enough, since some stages follow their links
    return library, tuple(sorted(set(query.ignore) - labeled))


def read_own_queries(library: Library) -> tuple[LabeledQuery, ...]:
    """Return labeled queries from the notes of a library. Raises UsageError if there are none."""
    if not (queries := queries_from_links(library.all_notes())):
        raise UsageError(
            "No queries can be made from these notes: they have no suitable link texts or "
            "descriptions."
        )
    return queries


def check_source(queries: Sequence[Path], from_links: bool) -> None:
    """Check the options for the source of the queries. Raises UsageError."""
    if from_links is bool(queries):
        raise UsageError(
            "Choose one source of queries: name files of labeled queries, or use --from-links for "
            "queries from your notes."
        )
