"""Which documents filters let through, and what comes near a name that none of them has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cached_property, lru_cache

import numpy as np

from thumbindex.globs import matches_glob
from thumbindex.model import Document, DocumentId, FilterField, Filters, TypedFilter, day_of
from thumbindex.ports import Documents, Mask
from thumbindex.text import fold, fold_line, words

_SUFFIX = re.compile(r"\.\w+$")

_WILD = re.compile(r"\*\.\w+$|[*?]")

_MAX_SUGGESTIONS, _MIN_SIMILARITY = 20, 60.0
"""Names that come near, before those of private notes are left out; and how alike they are at
least, of 100 (by edits).
"""


class FilterIndex:
    """What filters ask of documents: their tags, names and paths, folded when they are first asked
    for.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents

    def chunks_matching(self, condition: TypedFilter) -> Mask:
        """Return the documents that match a condition on tags, path or title; case and accents
        do not matter, `excludes` is ignored.
        """
        held, wanted = np.zeros(len(self._documents), dtype=np.bool_), fold_line(condition.value)
        if condition.field in ("path", "file"):
            wanted = wanted.replace("\\", "/")
        if condition.field == "tag":
            for tag, numbers in self._tags.items():
                if f"{tag}/".startswith(f"{wanted}/"):
                    held[numbers] = True
        elif condition.field == "title":
            asked = words(condition.value)
            likely = (
                title for title in self._titles if not asked[0].isalnum() or asked[0] in title[1]
            )
            phrase = f" {' '.join(asked)} "
            held[[n for n, _, name in likely if phrase in f" {' '.join(words(name))} "]] = True
        else:
            paths = self._files if condition.field == "file" else self._paths
            glob, part = _glob(wanted) if "*" in wanted else None, wanted.removeprefix("./")
            if glob:
                numbers = [n for n, path in enumerate(paths) if glob.match(path)]
            else:
                numbers = [n for n, path in enumerate(paths) if part in path]
            held[numbers] = True
        return held

    def has_match(self, condition: TypedFilter) -> bool:
        """Return whether a document meets a condition."""
        return bool(self.chunks_matching(condition).any())

    def similar_values(self, field: FilterField, value: str) -> tuple[str, ...]:
        """Return the tags, or the directories and paths, that are most like a value."""
        if field != "title":
            return nearest(field, value, self._tag_names if field == "tag" else self._place_names)
        return ()

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
    def _place_names(self) -> Mapping[str, str]:
        return by_form("path", _path_names([document.path for document in self._documents]))


@lru_cache(maxsize=256)
def _glob(wanted: str) -> re.Pattern[str]:
    return re.compile(translate(wanted))


def newest_first(documents: Documents, numbers: Iterable[DocumentId]) -> list[DocumentId]:
    """Return documents by their days, the newest first, those without one last; of one day by
    path.
    """

    def key(n: DocumentId) -> tuple[int, str, str]:
        day = day_of(documents[n])
        return -day.toordinal() if day is not None else 1, documents[n].folder, documents[n].path

    return sorted(numbers, key=key)


def _form(path: str) -> str:
    """Return by what paths are compared: without a suffix and slashes around them."""
    return _SUFFIX.sub("", fold_line(path)).strip("/")


def _tag_names(written: Iterable[str]) -> Sequence[str]:
    """Return each tag, and what it is nested in, as it is first written; they come by their
    documents' paths.
    """
    tags = dict.fromkeys(written)
    above = ["/".join(tag.split("/")[:end]) for tag in tags for end in range(1, tag.count("/") + 1)]
    return list(dict.fromkeys([*tags, *above]))


def _path_names(paths: Sequence[str]) -> Sequence[str]:
    """Return each directory, with a slash behind it, and each of these paths of documents."""
    directories = dict.fromkeys(
        path[: at + 1] for path in paths for at, letter in enumerate(path) if letter == "/"
    )
    return [*directories, *paths]


def by_form(field: FilterField, names: Sequence[str]) -> Mapping[str, str]:
    """Return names by the form in which they are compared; of names of one form the first."""
    form = fold_line if field == "tag" else _form
    return {form(name): name for name in reversed(names)}


def nearest(field: FilterField, value: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names (by their forms) that are most like a value, whole or by their last part."""
    # Imported here: only for a name that no note has.
    from rapidfuzz.fuzz import ratio
    from rapidfuzz.process import extract

    wanted = fold_line(value) if field == "tag" else _form(_WILD.sub("", value.replace("\\", "/")))
    forms, scores = list(names), dict[int, float]()
    for asked, compared in (
        (wanted, forms),
        (wanted.rpartition("/")[2], [form.rpartition("/")[2] for form in forms]),
    ):
        for _, score, at in extract(
            asked,
            compared,
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


def matches_filters(document: Document, filters: Filters) -> bool:
    """Return whether a document passes path globs (any), tags (all, nested ones too) and the
    dates.
    """
    if document.path in filters.without:
        return False
    if filters.path and not any(matches_glob(glob, document.path) for glob in filters.path):
        return False
    tags = {fold(tag) for tag in document.tags} if filters.tag else ()
    for wanted in (fold(tag.lstrip("#")) for tag in filters.tag):
        if not any(tag == wanted or tag.startswith(f"{wanted}/") for tag in tags):
            return False
    if filters.since is None and filters.until is None:
        return True
    day = day_of(document)
    return (
        day is not None
        and (filters.since is None or day >= filters.since)
        and (filters.until is None or day <= filters.until)
    )
