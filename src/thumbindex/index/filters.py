"""Find the documents that match filters, and suggest similar values if none match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import cached_property, lru_cache

import numpy as np

from thumbindex.globs import matches_glob
from thumbindex.index.property_column import PropertyColumn
from thumbindex.model import (
    Document,
    DocumentId,
    FilterField,
    Filters,
    TypedFilter,
    day_of,
    is_filter_key,
)
from thumbindex.ports import IntArray, Mask
from thumbindex.text import fold, fold_line, words

_SUFFIX = re.compile(r"\.\w+$")

_WILD = re.compile(r"\*\.\w+$|[*?]")

_MAX_SUGGESTIONS, _MIN_SIMILARITY = 20, 60.0
"""Maximum number of suggested names, and minimum similarity of each to the filter's value in %.

Names of private notes are removed later.
"""

_NO_VALUES = PropertyColumn(())

_GLOB_SIGN = re.compile(r"[*?\[\\]|/(?!$)")
"""A sign of a glob. A name without one matches a note or a directory at any depth."""


class FilterIndex:
    """The folded tags, titles, paths and properties of documents, computed on first use."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._columns: dict[str, PropertyColumn] = {}

    def documents_passing(self, filters: Filters) -> Mask:
        """Return a mask of the documents that pass all filters, except `filters.folder`.

        If there are path globs, one must match.
        """
        passing = np.ones(len(self._documents), dtype=np.bool_)
        for tag in filters.tag:
            passing &= self.documents_matching(TypedFilter("tag", tag.lstrip("#")))
        for condition in filters.where:
            passing &= self.documents_matching(condition) ^ condition.excludes
        if filters.path or filters.without:
            globs = [glob if _GLOB_SIGN.search(glob) else f"**/{glob}" for glob in filters.path]
            for n in np.flatnonzero(passing).tolist():
                path = self._documents[n].path
                passing[n] = path not in filters.without and (
                    not globs or any(matches_glob(glob, path) for glob in globs)
                )
        if filters.since is not None:
            passing &= self._days >= filters.since.toordinal()
        if filters.until is not None:
            passing &= (self._days > 0) & (self._days <= filters.until.toordinal())
        return passing

    def documents_matching(self, condition: TypedFilter) -> Mask:
        """Return a mask of the documents that match a condition.

        Case, accents and `condition.excludes` are ignored.
        """
        matches, value = np.zeros(len(self._documents), dtype=np.bool_), fold_line(condition.value)
        if condition.field in ("path", "file"):
            value = value.replace("\\", "/")
        if condition.operator == "is" and condition.field != "property":
            name = f"{condition.value.rstrip('/')}/"
            for n, document in enumerate(self._documents):
                texts = document.tags if condition.field == "tag" else (document.path,)
                matches[n] = any(f"{text}/".startswith(name) for text in texts)
        elif condition.field == "tag":
            for tag, numbers in self._tags.items():
                if f"{tag}/".startswith(f"{value}/"):
                    matches[numbers] = True
        elif condition.field == "property":
            column = self._column(condition.key)
            matches[column.documents(condition.operator, condition.value)] = True
        elif condition.field == "title":
            if not (terms := words(condition.value)):
                return matches
            likely = (
                title for title in self._titles if not terms[0].isalnum() or terms[0] in title[1]
            )
            phrase = f" {' '.join(terms)} "
            matches[[n for n, _, name in likely if phrase in f" {' '.join(words(name))} "]] = True
        else:
            paths = self._files if condition.field == "file" else self._paths
            glob, part = _glob(value) if "*" in value else None, value.removeprefix("./")
            if glob:
                numbers = [n for n, path in enumerate(paths) if glob.match(path)]
            else:
                numbers = [n for n, path in enumerate(paths) if part in path]
            matches[numbers] = True
        return matches

    def has_match(self, condition: TypedFilter) -> bool:
        """Return whether any document matches a condition."""
        return bool(self.documents_matching(condition).any())

    def similar_values(self, condition: TypedFilter) -> tuple[str, ...]:
        """Return the names that are most similar to the value of a condition.

        These are tags, directories and paths, or conditions on properties (`status:done`). If no
        document has the key of a condition, they are `has:` and similar keys.
        """
        if condition.field == "property":
            return self._similar_conditions(condition)
        if condition.field == "title":
            return ()
        names = self._tag_names if condition.field == "tag" else self._folders_and_paths
        return nearest(condition, names)

    def _similar_conditions(self, condition: TypedFilter) -> tuple[str, ...]:
        if fold_line(condition.key) not in self._keys:
            keys = {form: names[0] for form, names in self._keys.items() if is_filter_key(form)}
            names = nearest(TypedFilter("property", condition.key), keys)
            return tuple(f"has:{name}" for name in names)
        if condition.operator != ":":
            return ()
        # conditions cannot contain quotation marks
        texts = [text for text in self._column(condition.key).texts if '"' not in text]
        return tuple(
            replace(condition, value=text, excludes=False).condition
            for text in nearest(condition, by_form("property", texts))
        )

    def _column(self, key: str) -> PropertyColumn:
        form = fold_line(key)
        if form not in self._columns:
            keys = self._keys.get(form)
            if keys is None:
                return _NO_VALUES
            self._columns[form] = PropertyColumn(
                (n, text)
                for n, document in enumerate(self._documents)
                for name in keys
                for text in document.properties.get(name, ())
            )
        return self._columns[form]

    @cached_property
    def _keys(self) -> Mapping[str, list[str]]:
        """Map each folded key to the keys as written in lower case."""
        keys: dict[str, list[str]] = {}
        for key in sorted({key for document in self._documents for key in document.properties}):
            keys.setdefault(fold_line(key), []).append(key)
        return keys

    @cached_property
    def _days(self) -> IntArray:
        days = map(day_of, self._documents)
        return np.array([day.toordinal() if day else 0 for day in days], dtype=np.int64)

    @cached_property
    def _tags(self) -> Mapping[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for n, document in enumerate(self._documents):
            for tag in document.tags:
                numbers.setdefault(fold(tag), []).append(n)
        return numbers

    @cached_property
    def _titles(self) -> Sequence[tuple[int, str, str]]:
        return [
            (n, fold_line(name), name)
            for n, document in enumerate(self._documents)
            for name in (document.title, *document.aliases)
        ]

    @cached_property
    def _paths(self) -> Sequence[str]:
        return [fold_line(document.path) for document in self._documents]

    @cached_property
    def _files(self) -> Sequence[str]:
        return [path.rpartition("/")[2] for path in self._paths]

    @cached_property
    def _tag_names(self) -> Mapping[str, str]:
        return by_form(
            "tag", _tag_names(tag for document in self._documents for tag in document.tags)
        )

    @cached_property
    def _folders_and_paths(self) -> Mapping[str, str]:
        return by_form("path", _path_names([document.path for document in self._documents]))


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def newest_first(documents: Sequence[Document], numbers: Iterable[DocumentId]) -> list[DocumentId]:
    """Sort documents by date, newest first and undated ones last. Ties are broken by path."""

    def key(n: DocumentId) -> tuple[int, str, str]:
        day = day_of(documents[n])
        return -day.toordinal() if day is not None else 1, documents[n].folder, documents[n].path

    return sorted(numbers, key=key)


def _form(path: str) -> str:
    """Return a folded path without its suffix and without leading or trailing slashes."""
    return _SUFFIX.sub("", fold_line(path)).strip("/")


def _tag_names(tags: Iterable[str]) -> Sequence[str]:
    """Return the distinct tags, and their parent tags."""
    unique = dict.fromkeys(tags)
    parents = [
        "/".join(tag.split("/")[:end]) for tag in unique for end in range(1, tag.count("/") + 1)
    ]
    return list(dict.fromkeys([*unique, *parents]))


def _path_names(paths: Sequence[str]) -> Sequence[str]:
    """Return the directories of some paths, with a trailing slash, followed by the paths."""
    directories = dict.fromkeys(
        path[: at + 1] for path in paths for at, letter in enumerate(path) if letter == "/"
    )
    return [*directories, *paths]


def by_form(field: FilterField, names: Sequence[str]) -> Mapping[str, str]:
    """Map each normalized form to the first name that has this form."""
    form = _form if field == "path" or field == "file" else fold_line
    return {form(name): name for name in reversed(names)}


def nearest(condition: TypedFilter, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that are most similar to the value of a condition.

    Both the whole names and their parts after the last slash are compared. `names` maps normalized
    forms to names (see `by_form`).
    """
    # imported here: needed only if a filter matches nothing
    from rapidfuzz.fuzz import ratio
    from rapidfuzz.process import extract

    value = condition.value
    is_path = condition.field in ("path", "file")
    target = _form(_WILD.sub("", value.replace("\\", "/"))) if is_path else fold_line(value)
    forms, scores = list(names), dict[int, float]()
    for query, choices in (
        (target, forms),
        (target.rpartition("/")[2], [form.rpartition("/")[2] for form in forms]),
    ):
        for _, score, at in extract(
            query,
            choices,
            scorer=ratio,
            processor=None,
            score_cutoff=_MIN_SIMILARITY,
            limit=_MAX_SUGGESTIONS,
        ):
            scores[at] = max(score, scores.get(at, 0.0))
    return tuple(
        names[forms[at]]
        for at in sorted(scores, key=lambda at: (-scores[at], forms[at]))[:_MAX_SUGGESTIONS]
    )
