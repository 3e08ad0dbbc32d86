"""Queries that are names, of any folder: paths, file names, titles, aliases, links and rare
headings, and the same in other spellings.

`python tests/evaluation/name_queries.py FOLDER [COUNT] > FOLDER.names.jsonl` writes up to COUNT
queries a kind, the same ones each time; right is every note of that name. `thumbindex eval` reads
the file: S@1 is what counts.
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
"""Notes that a heading may stand in to be a name."""

_ACCENTED = str.maketrans("aeiou", "áéíóú")


def letters(text: str) -> str:
    """Return the letters and digits of a name, without case and without the accents of Latin
    letters.
    """
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
    """Yield each name that a note bears, as a person writes it: its kind, the text, the note's
    path.
    """
    for path in sorted(
        each.relative_to(folder).as_posix()
        for each in folder.rglob("*")
        if each.suffix in CorpusSettings().extensions
    ):
        data = (folder / path).read_bytes()
        document = parse_document(path, data, CorpusSettings()).document
        file = path.rpartition("/")[2]
        stem = file.rpartition(".")[0]
        yield from (
            ("path", path, path),
            ("path without suffix", path.rpartition(".")[0], path),
            ("file", stem, path),
            ("file with suffix", file, path),
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
        for level, heading, _ in parse_headings(path, data.decode("utf-8", "replace")):
            if level > 1:
                yield "heading", heading, path
                yield "wikilink to a heading", f"[[{stem}#{heading}]]", path


def name_queries(folder: Path, count: int = COUNT) -> list[dict[str, object]]:
    """Return labeled queries, up to so many a kind; of the other spellings those that are no name
    of another note.
    """
    bearers, headed = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    kinds = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    for kind, text, path in names_in(folder):
        kinds[kind][text].add(path)
        if kind in ("file", "title", "alias"):
            bearers[letters(text)].add(path)
        elif kind == "heading":
            headed[letters(text)].add(path)
    found: list[tuple[str, str, set[str]]] = []
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
                paths = paths | bearers.get(letters(name), set()) | kinds["file"].get(name, set())
            if kind == "heading" and (
                len(headed[letters(text)]) > MOST_NOTES or letters(text) in bearers
            ):
                continue
            if letters(text):
                found.append((kind, text, paths))
    chosen = [each for kind in kinds for each in [one for one in found if one[0] == kind][:count]]
    plain = [
        each
        for kind in ("file", "title", "alias", "heading")
        for each in [one for one in found if one[0] == kind]
    ]
    for kind, spell in SPELLINGS.items():
        respelled = {
            spell(text): (text, paths) for _, text, paths in plain if spell(text) not in (text, "")
        }
        chosen += [
            (kind, text, paths | bearers[letters(was)] | headed[letters(was)])
            for text, (was, paths) in _some(respelled, count)
        ]
    return [
        {
            "id": f"n-{n}",
            "query": text,
            "kind": kind,
            "relevant": [{"path": path, "heading": None, "grade": 2} for path in sorted(paths)],
        }
        for n, (kind, text, paths) in enumerate(chosen)
    ]


def _some(texts: Mapping[str, T], count: int) -> list[tuple[str, T]]:
    """Return some items of a mapping, chosen by a digest of their keys."""
    return sorted(
        texts.items(),
        key=lambda item: hashlib.sha256(item[0].encode("utf-8", "surrogatepass")).digest(),
    )[:count]


if __name__ == "__main__":
    for query in name_queries(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else COUNT):
        sys.stdout.write(json.dumps(query, ensure_ascii=False) + "\n")
