"""Links led to documents as Obsidian does: by path, by name, by the nearest folder, by alias."""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thumbindex.corpus.markdown import MARKDOWN_SUFFIXES
from thumbindex.model import Document, Link, LinkKind

_PAGE_SUFFIXES = (".html", ".htm")  # published docs link to what a page becomes
_INDEX_NAMES = ("index", "readme")


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """Finds the document that a link means; built once for a folder, then a few look-ups a link."""

    exact: Mapping[str, str]  # folded path with suffix -> path
    paths: Mapping[str, str]  # folded path without suffix -> path, the first where several share it
    names: Mapping[str, Sequence[str]]  # folded file name without suffix -> paths
    aliases: Mapping[str, Sequence[str]]  # folded alias -> paths
    titles: Mapping[str, Sequence[str]]  # folded title -> paths
    suffixes: frozenset[str]  # of the documents, with the dot
    root: str = ""  # folded name of the folder itself

    @classmethod
    def of(cls, documents: Iterable[Document], root: str = "") -> LinkResolver:
        """Index the documents of one folder, which is called `root` on the disk: sites put its name
        before their addresses (`/docs/guide`).
        """
        exact: dict[str, str] = {}
        paths: dict[str, str] = {}
        names: dict[str, list[str]] = {}
        aliases: dict[str, list[str]] = {}
        titles: dict[str, list[str]] = {}
        suffixes: set[str] = set()
        for document in sorted(documents, key=lambda document: document.path):
            folded = _fold(document.path)
            stem, suffix = posixpath.splitext(folded)
            suffixes.add(suffix)
            exact.setdefault(folded, document.path)
            paths.setdefault(stem, document.path)
            names.setdefault(posixpath.basename(stem), []).append(document.path)
            titles.setdefault(_fold(document.title), []).append(document.path)
            for alias in dict.fromkeys(map(_fold, document.aliases)):
                aliases.setdefault(alias, []).append(document.path)
        return cls(
            exact,
            paths,
            names,
            aliases,
            titles,
            frozenset((suffixes - {""}).union(MARKDOWN_SUFFIXES)),
            _fold(root),
        )

    def resolve(self, link: Link, source: str) -> str | None:
        """Return the path that a link in the document `source` leads to, or None where there is no
        such document.
        """
        target = _fold(link.target).replace("\\", "/").strip()
        if not target:
            return source
        folder = posixpath.dirname(source)
        relative = target.startswith(".") or link.kind in (LinkKind.MARKDOWN, LinkKind.RELATED)
        bases = (_fold(folder), "") if relative and not target.startswith("/") else ("",)
        paths = [posixpath.normpath(posixpath.join(base, target.lstrip("/"))) for base in bases]
        if self.root and target.startswith(f"/{self.root}/"):
            paths.append(posixpath.normpath(target.removeprefix(f"/{self.root}/")))
        for path in paths:
            if not path.startswith("..") and (found := self._at(path)):
                return found
        return self._named(target, folder, titles=link.kind is not LinkKind.MARKDOWN)

    def _at(self, path: str) -> str | None:
        """Look a path up: with its suffix, without, as the page that it becomes, as a folder's
        index.
        """
        stem = self._stem(path)
        tries = (stem, *(posixpath.join(path, name) for name in _INDEX_NAMES))
        return self.exact.get(path) or next(
            (self.paths[name] for name in tries if name in self.paths), None
        )

    def _named(self, target: str, folder: str, titles: bool) -> str | None:
        parts = [part for part in self._stem(target).split("/") if part not in ("", ".", "..")]
        if not parts:
            return None
        tail = "/" + "/".join(parts)
        named = [
            path
            for path in self.names.get(parts[-1], ())
            if ("/" + posixpath.splitext(_fold(path))[0]).endswith(tail)
        ]
        found = (
            named or self.aliases.get(target) or (self.titles.get(target) if titles else None) or ()
        )
        return min(
            found, key=lambda path: (_distance(folder, posixpath.dirname(path)), path), default=None
        )

    def _stem(self, path: str) -> str:
        stem, suffix = posixpath.splitext(path)
        return stem if suffix in self.suffixes or suffix in _PAGE_SUFFIXES else path


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _distance(start: str, goal: str) -> int:
    """Count the steps from one folder to another, up and down."""
    here, there = (
        [part for part in start.split("/") if part],
        [part for part in goal.split("/") if part],
    )
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    return len(here) + len(there) - 2 * shared
