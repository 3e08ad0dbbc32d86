"""Make labeled queries from names in a folder: paths, titles, aliases, links, rare headings, and
other spellings of these.

`python tests/evaluation/name_queries.py FOLDER [COUNT] > FOLDER.names.jsonl` writes up to COUNT
queries per kind, deterministically. Every note of that name is relevant. Run the file with
`thumbindex eval` and look at S@1.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from thumbindex.corpus.parse import parse_document, parse_headings
from thumbindex.settings import CorpusSettings

T = TypeVar("T")
COUNT = 40
MOST_NOTES = 3
"""Maximum notes with a heading that counts as a name."""

_ACCENTED = str.maketrans("aeiou", "áéíóú")


def letters(text: str) -> str:
    """Return the letters and digits of a name, without case and Latin accents."""
    plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))
    return "".join(
        c
        for c in unicodedata.normalize("NFC", plain)
        if c.isalnum() or unicodedata.category(c).startswith("M")
    )


def without_accents(text: str) -> str:
    return unicodedata.normalize(
        "NFC", re.sub("(?<=[A-Za-z])[\u0300-\u036f]+", "", unicodedata.normalize("NFD", text))
    )


SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "upper case": str.upper,
    "small letters": str.lower,
    "accents off": without_accents,
    "accents added": lambda name: name.translate(_ACCENTED),
    "punctuation off": lambda name: " ".join(re.sub(r"[^\w\s]|_", " ", name).split()),
    "punctuation added": lambda name: f"“{'-'.join(name.split())}!”",
}


def names_in(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind, text and note path of each name of a note."""
    for path in sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if file.suffix in CorpusSettings().extensions
    ):
        data = (folder / path).read_bytes()
        document = parse_document(path, data, CorpusSettings()).document
        file_name = path.rpartition("/")[2]
        stem = file_name.rpartition(".")[0]
        yield from (
            ("path", path, path),
            ("path without suffix", path.rpartition(".")[0], path),
            ("file", stem, path),
            ("file with suffix", file_name, path),
        )
        yield from (
            ("title", document.title, path),
            *(("alias", alias, path) for alias in document.aliases),
        )
        yield from (
            ("wikilink", f"[[{stem}]]", path),
            ("wikilink with text", f"[[{stem}|see there]]", path),
            ("link", f"[see](<{path}>)", path),
        )
        for level, heading, _ in parse_headings(path, data.decode("utf-8", "replace"), True):
            if level > 1:
                yield "heading", heading, path
                yield "wikilink to a heading", f"[[{stem}#{heading}]]", path


def name_queries(folder: Path, count: int = COUNT) -> list[dict[str, object]]:
    """Return up to `count` labeled queries per kind; all notes of a name are relevant."""
    named, headed = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    kinds = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    for kind, text, path in names_in(folder):
        kinds[kind][text].add(path)
        if kind in ("file", "title", "alias"):
            named[letters(text)].add(path)
        elif kind == "heading":
            headed[letters(text)].add(path)
    names: list[tuple[str, str, set[str]]] = []
    for kind, texts in kinds.items():
        for text, paths in _some(texts, len(texts)):
            if kind in ("file", "title", "alias", "file with suffix") or kind.startswith(
                "wikilink"
            ):
                name = (
                    text.strip("[]").partition("|")[0].partition("#")[0]
                    if kind.startswith("wikilink")
                    else text
                )
                paths = paths | named.get(letters(name), set()) | kinds["file"].get(name, set())
            if kind == "heading" and (
                len(headed[letters(text)]) > MOST_NOTES or letters(text) in named
            ):
                continue
            if letters(text):
                names.append((kind, text, paths))
    by_kind = {kind: [name for name in names if name[0] == kind] for kind in kinds}
    queries = [name for kind in kinds for name in by_kind[kind][:count]]
    plain = [
        name for kind in ("file", "title", "alias", "heading") for name in by_kind.get(kind, ())
    ]
    for kind, spell in SPELLINGS.items():
        respelled = {
            spell(text): (text, paths) for _, text, paths in plain if spell(text) not in (text, "")
        }
        queries += [
            (kind, text, paths | named[letters(original)] | headed[letters(original)])
            for text, (original, paths) in _some(respelled, count)
        ]
    return [
        {
            "id": f"n-{n}",
            "query": text,
            "kind": kind,
            "relevant": [{"path": path, "heading": None, "grade": 2} for path in sorted(paths)],
        }
        for n, (kind, text, paths) in enumerate(queries)
    ]


def _some(texts: Mapping[str, T], count: int) -> list[tuple[str, T]]:
    """Return up to `count` items, selected by a digest of their keys."""
    return sorted(
        texts.items(),
        key=lambda item: hashlib.sha256(item[0].encode("utf-8", "surrogatepass")).digest(),
    )[:count]


if __name__ == "__main__":
    for query in name_queries(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else COUNT):
        sys.stdout.write(json.dumps(query, ensure_ascii=False) + "\n")
