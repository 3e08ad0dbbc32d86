"""The filters that people type in a query, as `tag:x`, `#x`, `path:x`, `title:x`, `"a phrase"` and `-word`; and what comes near an unknown one.

An ordinary question is left alone: what no note meets, what code looks like, and what stands in backquotes or on several lines is read as words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thumbindex.model import Candidate, ChunkId, Condition, Document, DocumentId, FilterField, Filters, Unmet, day_of
from thumbindex.ports import Catalog, KeywordIndex, Mask, Snapshot
from thumbindex.query.names import documents_called
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import once_a_catalog
from thumbindex.query.understand import is_identifier, tokens
from thumbindex.text import fold, fold_line, words

_TYPED = re.compile(
    r"`[^`]*`|\[\[[^\[\]]*\]\]"  # code and links stay as they are
    r"|(?<!\S)(?P<minus>-?)(?:(?P<field>tag|path|file|title):(?=\S)|(?P<hash>\#)|)"
    r'(?:["“„＂](?P<phrase>[^"“”„＂]+)["”“＂](?![^\s).,;:!?])|(?P<value>[^\s"“”„＂`]+))',
    re.IGNORECASE,
)
_TAG = re.compile(r"#?([\w/\-\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u200d]+)")
_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]+(?:-[^\W\d_]+)*")
_CODE = re.compile(r"[$<>{}=|\\]")
"""What a phrase in quotes does not hold, and a piece of a program does."""

_SUFFIX = re.compile(r"\.\w+$")
_FLAG = re.compile(r"--[A-Za-z][\w-]*|-\w")
"""What only a command line has: where one stands, every word behind a dash may be one."""

_AFTER = ",;:!?)."
"""What may stand behind a filter and is no part of it."""

_MOST = 16
"""Different filters of a query that are read: what stands behind them is words."""

_PROSE = 4
"""Letters of a word behind a dash that is no flag, where neither notes nor the query tell."""

_NEAREST, _ALIKE = 20, 60.0
"""Names that come near, before those of private notes are left out; and how alike they are at least, of 100 (by edits)."""


class Typed(NamedTuple):
    """A query as its filters are read: what is left to search for, what narrows it, and what no note meets."""

    text: str
    conditions: tuple[Condition, ...] = ()
    unmet: tuple[Unmet, ...] = ()


class _Mark(NamedTuple):
    """One place in a query that may be a filter."""

    start: int
    end: int
    condition: Condition
    is_hash: bool = False
    is_quoted: bool = False


def read_filters(text: str, snapshot: Snapshot, shown: Mask | None = None) -> Typed:
    """Read the filters that are typed in a query; one that is, whole, a note's name has none, nor has text of several lines.

    What notes meet is asked of those alone that may be shown, where `shown` tells which those are.
    """
    marks = list(_marks(text)) if "\n" not in text.strip() else []
    asked = list(dict.fromkeys(mark.condition for mark in marks))[:_MOST]
    phrases = [each for each in asked if each.field == "words" and not each.excludes]
    taken = [mark for mark in marks if mark.condition in asked and mark.condition not in phrases]
    called = documents_called(text.strip(), snapshot.catalog) if taken else {}
    if any(not claim.spelled and (shown is None or shown[n]) for n, claim in called.items()):
        return Typed(text)
    seen = None if shown is None else shown[_documents_of(snapshot.catalog)]
    others = _without(text, taken)
    alone, index = not words(others), filter_index(snapshot.catalog)
    near = {each: None if each.field == "words" else index.lacking(each, shown) for each in asked}
    read, idle, unmet = list[_Mark](), list[_Mark](), list[Unmet]()  # an idle one leaves out nothing
    for mark in taken:
        each, names = mark.condition, near[mark.condition]
        if each.field == "words":
            if _is_held(mark, snapshot.keyword, seen):
                read += [] if _is_flag(text, mark, snapshot.keyword) else [mark]
            elif mark.is_quoted or (len(each.value) >= _PROSE and _is_prose(text, others)):
                idle.append(mark)
            continue
        as_words = names is not None and not each.excludes and (mark.is_hash or not alone)
        if names is not None and (names or not mark.is_hash):
            unmet.append(Unmet(each.field, each.value, names, as_words))
        read += [] if as_words else [mark]
    taken = [*read, *idle] if read or not alone else []
    held = [_among(snapshot.keyword.holding_phrase(each.value), seen) for each in phrases]
    unmet += [Unmet("words", each.value, as_words=True) for each, found in zip(phrases, held, strict=True) if not found.any()]
    together = phrases if held and np.logical_and.reduce(held).any() else []
    rest = _without(text, taken) if taken else text
    conditions = dict.fromkeys(mark.condition for mark in sorted([*taken, *(mark for mark in marks if mark.condition in together)]))
    return Typed(rest if words(rest) else "" if conditions else text, tuple(conditions), tuple(dict.fromkeys(unmet)))


def _marks(text: str) -> Iterator[_Mark]:
    for match in _TYPED.finditer(text):
        excludes, phrase, value = bool(match["minus"]), match["phrase"], match["value"] or ""
        value, end = (value.rstrip(_AFTER), match.end() - len(value) + len(value.rstrip(_AFTER))) if value else (value, match.end())
        field: FilterField | None = None
        if match["hash"] or (match["field"] or "").lower() == "tag":
            tag = _TAG.fullmatch(phrase or value)
            field, value = ("tag", tag[1].strip("/")) if tag and tag[1].strip("0123456789/-_") else (None, "")
        elif match["field"]:
            value = phrase or value
            field = _FIELDS[match["field"].lower()] if words(value) and not value.startswith("//") else None
        elif phrase or (excludes and _WORD.fullmatch(value)):
            field, value = ("words", phrase or value) if words(phrase or value) and not _CODE.search(phrase or "") else (None, "")
        if field:
            yield _Mark(match.start(), end, Condition(field, value, excludes), bool(match["hash"]), bool(phrase))


_FIELDS: Mapping[str, FilterField] = {"path": "path", "file": "file", "title": "title"}


def _without(text: str, marks: Sequence[_Mark]) -> str:
    for mark in sorted(marks, reverse=True):
        text = f"{text[: mark.start]} {text[mark.end :]}"
    return " ".join(text.split())


def _is_held(mark: _Mark, keyword: KeywordIndex, seen: Mask | None) -> bool:
    """Tell whether some note has what stands behind a dash."""
    value = mark.condition.value
    return bool(_among(keyword.holding_phrase(value) if mark.is_quoted else keyword.holding(value, KEYWORD_FIELDS), seen).any())


def _among(held: Mask, seen: Mask | None) -> Mask:
    return held if seen is None else held & seen


def _is_flag(text: str, mark: _Mark, keyword: KeywordIndex) -> bool:
    """Tell whether a word behind a dash is one of a command line: another flag stands beside it, or a note has it with its dash."""
    return not mark.is_quoted and (_has_flag(text) or bool(keyword.holding(f"-{fold(mark.condition.value)}", ("code",)).any()))


def _has_flag(text: str) -> bool:
    return any(_FLAG.fullmatch(token) for token in text.split())


def _is_prose(text: str, others: str) -> bool:
    """Tell whether no token of a query, filters aside, looks like code."""
    return not (_has_flag(text) or _CODE.search(others) or any("/" in token or "`" in token or is_identifier(token) for token in tokens(others)))


# ------------------------------------------------------------------ which chunks they let through


_documents_of = once_a_catalog(lambda catalog: np.repeat(np.arange(len(catalog.documents)), _sizes(catalog)))


def _sizes(catalog: Catalog) -> list[int]:
    return [len(catalog.chunk_ids(DocumentId(n))) for n in range(len(catalog.documents))]


def select(conditions: Sequence[Condition], snapshot: Snapshot) -> Mask | None:
    """Return which chunks conditions let through, None where there are none: a phrase must stand in the chunk, all others are about its note."""
    if not conditions:
        return None
    index, of = filter_index(snapshot.catalog), _documents_of(snapshot.catalog)
    mask = np.ones(len(snapshot.catalog), dtype=np.bool_)
    for each in conditions:
        if each.field != "words":
            held = index.meeting(each)[of]
        elif each.excludes and len(words(each.value)) == 1:
            held = _in_documents(snapshot.keyword.holding(each.value, KEYWORD_FIELDS), of)
        else:
            held = snapshot.keyword.holding_phrase(each.value)
            held = _in_documents(held, of) if each.excludes else held
        mask &= ~held if each.excludes else held
    return mask


def _in_documents(held: Mask, of: npt.NDArray[np.int64]) -> Mask:
    whole = np.zeros(int(of[-1]) + 1 if len(of) else 0, dtype=np.bool_)
    whole[of[held]] = True
    return np.asarray(whole[of], dtype=np.bool_)


class FilterIndex:
    """What filters ask of documents: their tags, names and paths, folded when they are first asked for."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents

    def meeting(self, condition: Condition) -> Mask:
        """Tell which documents meet what is asked of their tags, path or title, case and accents aside; whether that excludes them is not asked."""
        held, wanted = np.zeros(len(self._documents), dtype=np.bool_), fold_line(condition.value)
        if condition.field in ("path", "file"):
            wanted = wanted.replace("\\", "/")
        if condition.field == "tag":
            for tag, numbers in self._tags.items():
                if f"{tag}/".startswith(f"{wanted}/"):
                    held[numbers] = True
        elif condition.field == "title":
            asked = words(condition.value)
            likely = (each for each in self._titles if not asked[0].isalnum() or asked[0] in each[1])
            held[[n for n, _, name in likely if f" {' '.join(asked)} " in f" {' '.join(words(name))} "]] = True
        else:
            paths = self._files if condition.field == "file" else self._paths
            glob, part = _glob(wanted) if "*" in wanted else None, wanted.removeprefix("./")
            held[[n for n, path in enumerate(paths) if (glob.match(path) if glob else part in path)]] = True
        return held

    def lacking(self, condition: Condition, shown: Mask | None = None) -> tuple[str, ...] | None:
        """Return what comes near a filter that no document meets, or none of those that may be shown; None where some document does."""
        return None if _among(self.meeting(condition), shown).any() else self.near(condition.field, condition.value)

    def near(self, field: FilterField, value: str) -> tuple[str, ...]:
        """Return the tags, or the directories and paths, that are most like a value."""
        if field == "title":
            return ()
        if field == "tag":
            return nearest(fold_line(value), self._tag_names)
        return nearest(_form(re.sub(r"\*\.\w+$|[*?]", "", value.replace("\\", "/"))), self._place_names)

    @cached_property
    def _tags(self) -> Mapping[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for n, document in enumerate(self._documents):
            for tag in document.tags:
                numbers.setdefault(fold(tag), []).append(n)
        return numbers

    @cached_property
    def _titles(self) -> Sequence[tuple[int, str, str]]:
        return [(n, fold_line(name), name) for n, document in enumerate(self._documents) for name in (document.title, *document.aliases)]

    @cached_property
    def _paths(self) -> Sequence[str]:
        return [fold_line(document.path) for document in self._documents]

    @cached_property
    def _files(self) -> Sequence[str]:
        return [path.rpartition("/")[2] for path in self._paths]

    @cached_property
    def _tag_names(self) -> Mapping[str, str]:
        return {fold_line(name): name for name in reversed(_tags(self._documents))}

    @cached_property
    def _place_names(self) -> Mapping[str, str]:
        return {_form(name): name for name in reversed(_places(self._documents))}


filter_index = once_a_catalog(lambda catalog: FilterIndex(catalog.documents))
"""Return what filters ask of all documents of a catalog."""


@lru_cache(maxsize=256)
def _glob(wanted: str) -> re.Pattern[str]:
    return re.compile(translate(wanted))


def newest_first(documents: Sequence[Document], numbers: Collection[int]) -> list[int]:
    """Return documents by their days, the newest first, those without one last; of one day by path."""

    def key(n: int) -> tuple[int, str, str]:
        day = day_of(documents[n])
        return -day.toordinal() if day is not None else 1, documents[n].folder, documents[n].path

    return sorted(numbers, key=key)


def listed(mask: Mask | None, limit: int, catalog: Catalog) -> tuple[tuple[Candidate, ...], int]:
    """Return the first chunk of each of the newest documents that a mask lets through, and how many documents there are in all."""
    of = _documents_of(catalog)
    numbers, first = np.unique(of if mask is None else of[mask], return_index=True)
    at = dict(zip(numbers.tolist(), (first if mask is None else np.flatnonzero(mask)[first]).tolist(), strict=True))
    best = [ChunkId(at[n]) for n in newest_first(catalog.documents, at)[:limit]]
    chunks = catalog.chunks(best)
    return tuple(Candidate(n, catalog.document_of(n), chunks[n], 1.0) for n in best if n in chunks), len(at)


def undated(filters: Filters, conditions: Sequence[Condition], snapshot: Snapshot) -> int:
    """Count the documents that only `since` or `until` leaves out, because no day of theirs is known."""
    if filters.since is None and filters.until is None:
        return 0
    without = {n for n, document in enumerate(snapshot.catalog.documents) if day_of(document) is None}
    if not without:
        return 0
    mask = both(snapshot.catalog.select(replace(filters, since=None, until=None)), select(conditions, snapshot))
    of = _documents_of(snapshot.catalog)
    return len(without.intersection((of if mask is None else of[mask]).tolist()))


def shown_documents(filters: Filters, catalog: Catalog) -> Mask | None:
    """Return which documents may be shown; None where that is all of them."""
    if not filters.hidden:
        return None
    return np.array([(each.folder, each.path) not in filters.hidden for each in catalog.documents], dtype=np.bool_)


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Return what two masks let through together."""
    return first if second is None else second if first is None else first & second


# ------------------------------------------------------------------ what no note meets


def unmet_arguments(filters: Filters, index: FilterIndex, is_met: Callable[[Filters], bool]) -> tuple[Unmet, ...]:
    """Return the tags and globs of arguments that no note has."""
    asked: list[tuple[FilterField, str, Filters]] = [("tag", tag.lstrip("#"), Filters(tag=(tag,), hidden=filters.hidden)) for tag in filters.tag]
    asked += [("path", glob, Filters(path=(glob,), hidden=filters.hidden)) for glob in filters.path]
    return tuple(Unmet(field, value, index.near(field, value)) for field, value, one in dict.fromkeys(asked) if not is_met(one))


def _form(path: str) -> str:
    """Return by what paths are compared: without a suffix and slashes around them."""
    return _SUFFIX.sub("", fold_line(path)).strip("/")


def _tags(documents: Sequence[Document]) -> Sequence[str]:
    """Return each tag, and what it is nested in, as it is first written."""
    tags = dict.fromkeys(tag for document in documents for tag in document.tags)
    return list(dict.fromkeys([*tags, *("/".join(tag.split("/")[:end]) for tag in tags for end in range(1, tag.count("/") + 1))]))


def _places(documents: Sequence[Document]) -> Sequence[str]:
    """Return each directory, with a slash behind it, and each document's path."""
    paths = [document.path for document in documents]
    directories = dict.fromkeys(path[: at + 1] for path in paths for at, letter in enumerate(path) if letter == "/")
    return [*directories, *paths]


def nearest(wanted: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names whose forms are most like one that is wanted, whole or by their last part."""
    # Imported here: only for a name that no note has.
    from rapidfuzz.fuzz import ratio
    from rapidfuzz.process import extract

    forms, scores = list(names), dict[int, float]()
    for asked, compared in ((wanted, forms), (wanted.rpartition("/")[2], [form.rpartition("/")[2] for form in forms])):
        for _, score, at in extract(asked, compared, scorer=ratio, processor=None, score_cutoff=_ALIKE, limit=_NEAREST):
            scores[at] = max(score, scores.get(at, 0.0))
    return tuple(names[forms[at]] for at in sorted(scores, key=lambda at: (-scores[at], forms[at]))[:_NEAREST])


def documents_with(name: str, unmet: Unmet, documents: Sequence[Document]) -> Iterator[Document]:
    """Yield the documents that a name which comes near was taken from: their tag, directory or path."""
    if unmet.field == "tag":
        yield from (each for each in documents if any(f"{fold(tag)}/".startswith(f"{fold_line(name)}/") for tag in each.tags))
    else:
        yield from (each for each in documents if each.path == name or (name.endswith("/") and each.path.startswith(name)))
