"""Parse link targets, and resolve them as Obsidian does: by path, name, nearest folder or alias."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from thumbindex.model import ADDRESS_KEYS, SUCCESSION, Document, Link, LinkKind

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

_TEMPLATE_TAG = re.compile(r"\{\{([^{}]{0,300})\}\}|\{%([^{}]{0,300})%\}|<%[^<>]{0,300}%>")
"""A tag of Hugo, Jekyll or another generator, or a placeholder in a template of notes."""

_REFERENCE = re.compile(
    r"(?:(?:rel)?ref|link|post_url)\s+(?:.*?\bpath=)?(?:([\"'`])(?P<quoted>.*?)\1|(?P<bare>\S+))"
)
_FILTERED = re.compile(r"([\"'])(?P<address>.*?)\1\s*\|")
_SITE_ADDRESS = re.compile(r"[\w.$]*(?:url|base)", re.I)
_FRAGMENT_IN_TAG = re.compile(r"#[^\s\"'`|>%{}]*")


def parse_wikilink(inner: str, kind: LinkKind, line: int) -> Link:
    """Parse the text between `[[` and `]]`."""
    location, _, alias = inner.replace("\\|", "|").partition("|")
    target, _, fragment = (part.strip() for part in location.partition("#"))
    return Link(
        kind, target, fragment, alias.strip() or " > ".join(filter(None, (target, fragment))), line
    )


def parse_destination(destination: str, kind: LinkKind, text: str, line: int) -> Link | None:
    """Parse a Markdown link's destination; return None for an external link.

    The target of a link in a generator's tag is the tag, without the fragment. In Logseq, a
    destination may be a wikilink or a block (`((id))`); a block is treated as external.
    """
    if not destination or _SCHEME.match(destination) or destination.startswith("(("):
        return None
    whole = unquote(destination)
    if whole.startswith("[[") and whole.endswith("]]"):
        return replace(parse_wikilink(whole[2:-2], LinkKind.WIKILINK, line), text=text)
    if "{" in whole and _TEMPLATE_TAG.search(whole):
        tag_fragment = _FRAGMENT_IN_TAG.search(whole)
        fragment = tag_fragment[0][1:] if tag_fragment else ""
        return Link(kind, _FRAGMENT_IN_TAG.sub("", whole, count=1), fragment, text, line)
    location, _, fragment = destination.partition("#")
    target = unquote(location.partition("?")[0])
    return Link(kind, target, unquote(fragment), text, line) if target or fragment else None


_WHOLE_WIKILINK = re.compile(r"\[\[([^\[\]]+)\]\]")
_WHOLE_LINK = re.compile(r"\[([^\[\]]*)\]\((<[^<>]+>|[^()<>]+(?:\([^()<>]*\)[^()<>]*)*)\)")


def property_links(texts: Iterable[tuple[str, str, int]]) -> Iterator[Link]:
    """Yield the links of the front matter: values that are a link and nothing else, as in Obsidian.

    Under the key `related`, a plain path is a link too. `texts` are key, value and line.
    """
    for key, value, line in texts:
        text = " ".join(value.split())
        if match := _WHOLE_WIKILINK.fullmatch(text):
            link: Link | None = parse_wikilink(match[1], LinkKind.WIKILINK, line)
        elif match := _WHOLE_LINK.fullmatch(text):
            link = parse_destination(match[2].strip("<>"), LinkKind.MARKDOWN, match[1], line)
        else:
            link = (
                parse_destination(text, LinkKind.RELATED, text, line) if key == "related" else None
            )
        if link:
            yield link


def is_attachment(target: str) -> bool:
    """Return whether a link's target has the suffix of an attachment."""
    dot = target.rfind(".")
    return dot >= 0 and target[dot:].lower() in ATTACHMENT_SUFFIXES


def may_lead_elsewhere(target: str) -> bool:
    """Return whether a link without a note is not broken.

    It may lead to an attachment, or to a page whose address only a generator knows.
    """
    address, is_reference = expand_tags(target)
    return is_attachment(address) or (address != target and not is_reference)


def expand_tags(target: str) -> tuple[str, bool]:
    """Return a target with its tags replaced by addresses, and whether a tag names a file.

    A target with an unknown tag becomes empty.
    """
    if "{" not in target and "<%" not in target:
        return target, False
    address, is_reference, end = "", False, 0
    for tag in _TEMPLATE_TAG.finditer(target):
        inner = (tag[1] or tag[2] or "").strip("<>%- \t\n")
        if reference := _REFERENCE.match(inner):
            replacement, is_reference = reference["quoted"] or reference["bare"] or "", True
        elif filtered := _FILTERED.match(inner):
            replacement = filtered["address"]
        elif _SITE_ADDRESS.fullmatch(inner):
            replacement = ""
        else:
            return "", False
        address, end = f"{address}{target[end : tag.start()]}{replacement}", tag.end()
    return (address + target[end:]).partition("?")[0] if end else target, is_reference


# ------------------------------------------------------------------ resolve

_PAGE_SUFFIXES = (".html", ".htm")  # published docs link to the rendered page
_INDEX_NAMES = ("index", "_index", "readme")  # the first of a folder is the folder's page
NUMBER_PREFIXES = ("adr", "rfc", "pep", "kep", "eip", "bip", "dr", "rfd", "madr")
_NUMBER = re.compile(rf"(?:({'|'.join(NUMBER_PREFIXES)})[-_ ]?)?#?(\d{{1,6}})")
_NUMBERED = re.compile(rf"(?!\d{{4}}[-_.]?\d\d){_NUMBER.pattern}(?=[-_.:) ]|$)")
_SITE_ROOT = re.compile(r"@(?:site)?(?=/)")  # Docusaurus, Zola


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """Finds the document that a link refers to. Built once per folder."""

    exact: Mapping[str, str]  # folded path with suffix -> path
    paths: Mapping[str, str]  # folded path without suffix -> the first such path
    names: Mapping[str, Sequence[str]]  # folded file name without suffix -> paths
    aliases: Mapping[str, Sequence[str]]  # folded alias, `id` or `slug` -> paths
    titles: Mapping[str, Sequence[str]]  # folded title -> paths
    addresses: Mapping[str, str]  # folded address in a published site -> path
    last_parts: Mapping[str, Sequence[str]]  # last part of an address -> addresses
    suffixes: frozenset[str]  # of the documents, with the dot
    # number at the start of a name or title -> its prefix (`adr`, or empty) and path
    numbers: Mapping[int, Sequence[tuple[str, str]]]
    root: str = ""  # folded name of the folder itself

    @classmethod
    def of(cls, documents: Iterable[Document], root: str = "") -> LinkResolver:
        """Index a folder's documents.

        Links in published sites may begin with `root`, the folder's name (`/docs/guide`).
        """
        exact: dict[str, str] = {}
        paths: dict[str, str] = {}
        names: dict[str, list[str]] = {}
        aliases: dict[str, list[str]] = {}
        titles: dict[str, list[str]] = {}
        addresses: dict[str, str] = {}
        suffixes: set[str] = set()
        numbers: dict[int, list[tuple[str, str]]] = {}
        index_pages: list[tuple[int, str, str]] = []
        for document in sorted(documents, key=lambda document: document.path):
            folded = _fold(document.path)
            stem, suffix = posixpath.splitext(folded)
            folder, name = posixpath.split(stem)
            suffixes.add(suffix)
            exact.setdefault(folded, document.path)
            paths.setdefault(stem, document.path)
            names.setdefault(name, []).append(document.path)
            title = _fold(document.title)
            titles.setdefault(title, []).append(document.path)
            if match := _NUMBERED.match(name) or _NUMBERED.match(title):
                numbers.setdefault(int(match[2]), []).append((match[1] or "", document.path))
            for alias in dict.fromkeys(map(_fold, _other_names(document, name))):
                aliases.setdefault(alias, []).append(document.path)
            for address in _addresses(document, folder, name):
                addresses.setdefault(address, document.path)
            if name in _INDEX_NAMES:
                index_pages.append((_INDEX_NAMES.index(name), folder, document.path))
        for _, folder, path in sorted(index_pages):
            addresses.setdefault(folder, path)
        last_parts: dict[str, list[str]] = {}
        for address in addresses:
            last_parts.setdefault(posixpath.basename(address), []).append(address)
        return cls(
            exact,
            paths,
            names,
            aliases,
            titles,
            addresses,
            last_parts,
            frozenset((suffixes - {""}).union(MARKDOWN_SUFFIXES)),
            numbers,
            _fold(root),
        )

    def resolve(self, link: Link, source: str) -> str | None:
        """Return the path of the document that a link in `source` refers to.

        Returns an empty string if the link may lead to something else, or None if it is broken.
        """
        if link.kind in SUCCESSION:
            document = self._find(replace(link, kind=LinkKind.RELATED), source)
            return document or self._by_number(_fold(link.target), source) or ""
        document = self._find(link, source)
        return "" if document is None and may_lead_elsewhere(link.target) else document

    def _find(self, link: Link, source: str) -> str | None:
        is_address = link.kind is LinkKind.MARKDOWN
        written = expand_tags(link.target)[0] if is_address else link.target
        target = _fold(written).replace("\\", "/").strip()
        if not target:
            return None if link.target else source
        folder = posixpath.dirname(source)
        paths = list(possible_paths(target, _fold(source), link.kind, self.root))
        for path in paths:
            if document := self._file_at(path) or (is_address and self._page_at(path)):
                return document
        if is_address:
            is_name = not is_attachment(target)
            return self._by_name(_SITE_ROOT.sub("", target), folder, True) if is_name else None
        return self._by_name(target, folder, False) or next(
            (page for path in paths if (page := self._page_at(path))), None
        )

    def _file_at(self, path: str) -> str | None:
        """Return the document at a path, which may omit the suffix or name a published page."""
        return self.exact.get(path) or self.paths.get(path) or self.paths.get(self._stem(path))

    def _page_at(self, path: str) -> str | None:
        """Return the document at an address, which is its own or that of its folder."""
        stem, suffix = posixpath.splitext(path)
        return self.addresses.get(stem if suffix in _PAGE_SUFFIXES else path)

    def _by_name(self, target: str, folder: str, is_address: bool) -> str | None:
        for name in dict.fromkeys((self._stem(target), target)):
            parts = [part for part in name.split("/") if part not in ("", ".", "..")]
            if not parts:
                return None
            tail = "/" + "/".join(parts)
            candidates: Sequence[str] = [
                path
                for path in self.names.get(parts[-1], ())
                if ("/" + posixpath.splitext(_fold(path))[0]).endswith(tail)
            ]
            if not candidates and target.startswith("/"):
                candidates = [
                    self.addresses[address]
                    for address in self.last_parts.get(parts[-1], ())
                    if f"/{address}".endswith(tail)
                ]
            if candidates:
                break
        else:
            candidates = self.aliases.get(target) or ()
            if not candidates and not is_address:
                candidates = self.titles.get(target) or ()
        return min(
            candidates,
            key=lambda path: (_distance(folder, posixpath.dirname(path)), path),
            default=None,
        )

    def _by_number(self, target: str, source: str) -> str | None:
        """Return the document of `12` in the same folder, or of `ADR-12` also in another one.

        In another folder, the document must have the same prefix.
        """
        match = _NUMBER.fullmatch(target)
        if match is None:
            return None
        prefix, folder = match[1] or "", posixpath.dirname(source)
        distances = (
            (_distance(folder, posixpath.dirname(path)), path)
            for other, path in self.numbers.get(int(match[2]), ())
            if (prefix and other == prefix)
            or (posixpath.dirname(path) == folder and not (prefix and other))
        )
        return min(distances, default=(0, None))[1]

    def _stem(self, path: str) -> str:
        stem, suffix = posixpath.splitext(path)
        return stem if suffix in self.suffixes or suffix in _PAGE_SUFFIXES else path


def possible_paths(target: str, source: str, kind: LinkKind, root: str) -> Iterator[str]:
    """Yield the paths in a folder that a link's target may mean, the likeliest first.

    A target may begin with `root`, the name of the folder (`/docs/guide`).
    """
    folder = posixpath.dirname(source)
    address = _SITE_ROOT.sub("", target)
    if address != target:  # the root of a site may be any folder above the source
        bases = _ancestors(folder)
    elif target.startswith("/"):
        bases = [""]
    elif target.startswith(".") or kind in (LinkKind.MARKDOWN, LinkKind.RELATED):
        # the address of a page may be a folder, so links may begin there
        bases = [folder, "", posixpath.splitext(source)[0]]
    else:
        bases = [""]
    paths = [posixpath.join(base, address.lstrip("/")) for base in bases]
    first, slash, rest = address.lstrip("/").partition("/")
    if root and slash and address.startswith("/") and _fold(first) == _fold(root):
        paths.append(rest)
    for path in map(posixpath.normpath, paths):
        if not path.startswith(".."):
            yield "" if path == "." else path


def _other_names(document: Document, name: str) -> Iterator[str]:
    """Yield the names of a document that a link may use, without its path and title."""
    yield from document.aliases
    for key in ("id", "slug"):
        yield from filter(None, (value.strip("/") for value in document.properties.get(key, ())))
    if "___" in name or "%" in name:  # Logseq writes the page `a/b` to `a___b.md` or `a%2Fb.md`
        yield unquote(name.replace("___", "/"))


def _addresses(document: Document, folder: str, name: str) -> Iterator[str]:
    """Yield the folded addresses that a document's properties give it in a published site.

    `id` and `slug` replace the file name. An address from the root of the site is also one from
    the nearest folder `docs`, because that may be the root.
    """
    above, docs, _ = f"/{folder}/".rpartition("/docs/")
    absolute_bases = ("", above + docs) if docs else ("",)
    relative_bases = (folder, posixpath.dirname(folder)) if name in _INDEX_NAMES else (folder,)
    properties = [(key, text) for key in ADDRESS_KEYS for text in document.properties.get(key, ())]
    properties += [("alias", alias) for alias in document.aliases if alias.startswith("/")]
    for key, value in properties:
        if ":" in value:  # a whole URL, or a pattern such as `/:year/:title`
            continue
        is_relative = key in ("id", "slug") and not value.startswith("/")
        stem, suffix = posixpath.splitext(_fold(value))
        for base in relative_bases if is_relative else absolute_bases:
            address = posixpath.normpath(
                f"/{base}/{stem if suffix in _PAGE_SUFFIXES else _fold(value)}"
            )
            yield address.strip("/")


def _ancestors(folder: str) -> list[str]:
    """Return a folder and the folders above it."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:end]) for end in range(len(parts), -1, -1)]


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
