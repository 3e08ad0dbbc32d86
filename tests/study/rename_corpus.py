"""Rename a product and its parts in a corpus and its query sets, so that what a language model
knows of them by name helps it no longer.

`python tests/study/rename_corpus.py FOLDER OUT [SET.jsonl …] --names Obsidian "Live Preview" …`
writes `OUT/notes`, and the sets beside it by their own names; FOLDER stays as it is. Each name
becomes an invented word that can be spoken and that the corpus lacks, the same for the same
`--seed`: in texts, headings, links, file names and folders, queries and labels. Rewordings (`also`,
`passage`) stay: a model that knows the old names says them. Found are a name in any case, with a
plural's s, as a part of an identifier (`obsidianUrl`, `ob_sync`), and a name of several words
joined by a space, a dash, an underscore, `%20` or nothing. Without `--names` those that the corpus
shows are taken: words that stand inside its sentences with a capital, more often than without one
(`--list` prints them; look them through: some names of a product are plain words).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"

_JOINTS = r"((?:[ _-]|%20)?)"

LEAST_SEEN = 20
"""Times that a word is seen inside a sentence before it is taken for a name."""

_INSIDE = re.compile(r"(?<=[a-z,] )([A-Z][a-z]{3,})\b")

_NO_NAMES = frozenset(
    "january february march april may june july august september october november december monday "
    "tuesday wednesday thursday friday saturday sunday"
    " english german french spanish japanese chinese when what where which while your this that "
    "there then with note example".split()
)


def invented(name: str, seed: int, taken: Collection[str]) -> str:
    """Return a word of syllables for a name, about as long as it, that is not among those taken."""
    for attempt in range(1000):
        digest = hashlib.blake2b(f"{seed} {attempt} {name.casefold()}".encode()).digest()
        syllables = max(2, round(len(name) / 2.5))
        word = "".join(
            _CONSONANTS[a % len(_CONSONANTS)] + _VOWELS[b % len(_VOWELS)]
            for a, b in zip(digest[::2], digest[1::2], strict=True)
        )
        word = word[: 2 * syllables] + _CONSONANTS[digest[-1] % len(_CONSONANTS)]
        if word not in taken:
            return word
    raise SystemExit(f"No word is left for {name}: give another --seed.")


class Renaming:
    """Names with the invented words that stand for them."""

    def __init__(self, names: Iterable[str], seed: int = 1, taken: Collection[str] = ()) -> None:
        ordered = sorted(
            {name.casefold(): name for name in names}, key=lambda name: (-len(name), name)
        )
        used = set(taken)
        # each word of each name; one word has one invention in whatever name it stands
        self.words: dict[str, str] = {}
        for word in (word for name in ordered for word in name.split()):
            if word not in self.words:
                self.words[word] = invented(word, seed, used)
                used.add(self.words[word])
        self._patterns = [
            (
                name.split(),
                re.compile(
                    _JOINTS.join(f"({re.escape(word)})" for word in name.split()), re.IGNORECASE
                ),
            )
            for name in ordered
        ]

    def of(self, text: str) -> str:
        """Return a text with the names replaced, the longest first."""
        for words, pattern in self._patterns:
            text = pattern.sub(lambda found, words=words: self._replaced(found, words), text)
        return text

    def _replaced(self, found: re.Match[str], words: Sequence[str]) -> str:
        if not _stands_apart(found.string, found.start(), found.end()):
            return found.group()
        parts = list(found.groups())
        parts[::2] = [
            _cased(part, self.words[word]) for part, word in zip(parts[::2], words, strict=True)
        ]
        return "".join(parts)


def _stands_apart(text: str, start: int, end: int) -> bool:
    """Tell whether a word begins and ends here, a plural's s aside: at a letter of another case
    too, as parts of an identifier do.
    """
    before, after, behind = text[start - 1 : start], text[end : end + 1], text[end + 1 : end + 2]
    begins = not before.isalpha() or (before.islower() and text[start].isupper())
    ends = (
        not after.isalpha()
        or (after.isupper() and text[end - 1].islower())
        or (after == "s" and not behind.islower())
    )
    return begins and ends


def _cased(old: str, new: str) -> str:
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new.capitalize() if old[:1].isupper() else new


def find_names(texts: Iterable[str]) -> list[str]:
    """Return what is written with a capital inside sentences, more often than without one anywhere,
    the most frequent first.
    """
    large, small = Counter[str](), Counter[str]()
    for text in texts:
        large.update(_INSIDE.findall(text))
        small.update(re.findall(r"\b[a-z]{4,}\b", text))
    names = [
        (count, word)
        for word, count in large.items()
        if count >= LEAST_SEEN and count > small[word.casefold()]
    ]
    return [
        word
        for _, word in sorted(names, key=lambda pair: (-pair[0], pair[1]))
        if word.casefold() not in _NO_NAMES
    ]


def rename_line(row: Mapping[str, Any], renaming: Renaming) -> dict[str, Any]:
    """Return a line of a query set with its query, labels and ignored paths renamed, its rewordings
    as they are.
    """
    places = [
        renaming.of(each)
        if isinstance(each, str)
        else each | {key: renaming.of(each[key]) for key in ("path", "heading") if each.get(key)}
        for each in row.get("relevant") or ()
    ]
    ignored = {"ignore": [renaming.of(each) for each in row["ignore"]]} if row.get("ignore") else {}
    return {
        **row,
        "query": renaming.of(row["query"]),
        **({"relevant": places} if places else {}),
        **ignored,
    }


def rename_corpus(
    folder: Path, out: Path, sets: Sequence[Path] = (), names: Sequence[str] = (), seed: int = 1
) -> Renaming:
    """Write a folder and its sets with other names into a new directory."""
    if out.exists() or out.resolve().is_relative_to(folder.resolve()):
        raise SystemExit(f"{out}: give a directory that is not there yet, outside of {folder}.")
    texts = texts_of(folder)
    present = {
        word for text in texts.values() if text for word in re.findall(r"[a-z]+", text.casefold())
    }
    renaming = Renaming(names or find_names(text for text in texts.values() if text), seed, present)
    for path, text in texts.items():
        target = out / "notes" / renaming.of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(
            (folder / path).read_bytes() if text is None else renaming.of(text).encode()
        )
    for path in sets:
        rows = [
            rename_line(json.loads(line), renaming)
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        (out / path.name).write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
        )
    return renaming


def texts_of(folder: Path) -> dict[str, str | None]:
    """Return each file's text by its path, None where it is no UTF-8."""
    found: dict[str, str | None] = {}
    for path in sorted(
        each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()
    ):
        try:
            found[path.relative_to(folder).as_posix()] = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            found[path.relative_to(folder).as_posix()] = None
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("sets", type=Path, nargs="*")
    parser.add_argument("--names", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--list", action="store_true", help="print the names that would be taken, and write nothing"
    )
    given = parser.parse_args()
    if given.list or given.out is None:
        sys.stdout.write(
            "".join(
                f"{name}\n"
                for name in find_names(text for text in texts_of(given.folder).values() if text)
            )
        )
    else:
        made = rename_corpus(given.folder, given.out, given.sets, given.names, given.seed)
        sys.stdout.write("".join(f"{old} -> {new}\n" for old, new in sorted(made.words.items())))
