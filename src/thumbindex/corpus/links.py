"""Parse link targets, and resolve them as Obsidian does: by path, name, nearest folder or alias."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from thumbindex.model import Document, Link, LinkKind

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")

ATTACHMENT_SUFFIXES = frozenset(
    ".png .jpg .jpeg .gif .svg .webp .bmp .avif .ico .tif .tiff .heic .mp3 .wav .ogg .m4a .flac "
    ".3gp .mp4 .webm .mov .mkv .avi"
    " .ogv .pdf .canvas .base .zip .tar .gz .xz .bz2 .7z .dmg .exe .deb .rpm .doc .docx .xls .xlsx "
    ".ppt .pptx .odt .csv .tsv .txt"
    " .json .yaml .yml .toml .xml .js .mjs .cjs .ts .tsx .jsx .css .scss .py .rs .go .c .h .cc "
    ".cpp .hpp .java .rb .php .sh .bat"
    " .ps1 .ipynb .sql .log .lock .excalidraw .epub .ttf .woff .woff2".split()
)
"""Suffixes of files that are never documents."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")


def parse_wikilink(inner: str, kind: LinkKind, line: int) -> Link | None:
    """Parse the text between `[[` and `]]`; return None for an attachment."""
    location, _, alias = inner.replace("\\|", "|").partition("|")
    target, _, fragment = (part.strip() for part in location.partition("#"))
    if is_attachment(target):
        return None
    return Link(
        kind, target, fragment, alias.strip() or " > ".join(filter(None, (target, fragment))), line
    )


def parse_destination(destination: str, kind: LinkKind, text: str, line: int) -> Link | None:
    """Parse a Markdown link's destination; return None for an attachment or an external link."""
    if not destination or _SCHEME.match(destination):
        return None
    location, _, fragment = destination.partition("#")
    target = unquote(location.partition("?")[0])
    if is_attachment(target) or not (target or fragment):
        return None
    return Link(kind, target, unquote(fragment), text, line)


def is_attachment(target: str) -> bool:
    """Return whether a link's target has the suffix of an attachment."""
    dot = target.rfind(".")
    return dot >= 0 and target[dot:].lower() in ATTACHMENT_SUFFIXES


# ------------------------------------------------------------------ resolve

_PAGE_SUFFIXES = (".html", ".htm")  # published docs link to the rendered page
_INDEX_NAMES = ("index", "readme")


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """Finds the document that a link refers to. Built once per folder."""

    exact: Mapping[str, str]  # folded path with suffix -> path
    paths: Mapping[str, str]  # folded path without suffix -> the first such path
    names: Mapping[str, Sequence[str]]  # folded file name without suffix -> paths
    aliases: Mapping[str, Sequence[str]]  # folded alias -> paths
    titles: Mapping[str, Sequence[str]]  # folded title -> paths
    suffixes: frozenset[str]  # of the documents, with the dot
    root: str = ""  # folded name of the folder itself

    @classmethod
    def of(cls, documents: Iterable[Document], root: str = "") -> LinkResolver:
        """Index a folder's documents.

        `root` is the folder's name, with which links in published sites may begin (`/docs/guide`).
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
        """Return the path of the document that a link in `source` refers to, or None."""
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
            if not path.startswith("..") and (document := self._at(path)):
                return document
        return self._by_name(target, folder, titles=link.kind is not LinkKind.MARKDOWN)

    def _at(self, path: str) -> str | None:
        """Return the document at a path, or None.

        The path may omit the suffix, or name a published page (`.html`) or a folder with an index.
        """
        stem = self._stem(path)
        tries = (stem, *(posixpath.join(path, name) for name in _INDEX_NAMES))
        return self.exact.get(path) or next(
            (self.paths[name] for name in tries if name in self.paths), None
        )

    def _by_name(self, target: str, folder: str, titles: bool) -> str | None:
        parts = [part for part in self._stem(target).split("/") if part not in ("", ".", "..")]
        if not parts:
            return None
        tail = "/" + "/".join(parts)
        same_name = [
            path
            for path in self.names.get(parts[-1], ())
            if ("/" + posixpath.splitext(_fold(path))[0]).endswith(tail)
        ]
        candidates = (
            same_name
            or self.aliases.get(target)
            or (self.titles.get(target) if titles else None)
            or ()
        )
        return min(
            candidates,
            key=lambda path: (_distance(folder, posixpath.dirname(path)), path),
            default=None,
        )

    def _stem(self, path: str) -> str:
        stem, suffix = posixpath.splitext(path)
        return stem if suffix in self.suffixes or suffix in _PAGE_SUFFIXES else path


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _distance(start: str, goal: str) -> int:
    """Count the steps up and down from one folder to another."""
    start_parts, goal_parts = (
        [part for part in start.split("/") if part],
        [part for part in goal.split("/") if part],
    )
    shared = 0
    while (
        shared < min(len(start_parts), len(goal_parts))
        and start_parts[shared] == goal_parts[shared]
    ):
        shared += 1
    return len(start_parts) + len(goal_parts) - 2 * shared
