"""Plant copies among notes and ask for them: which come several times in an answer, and whether one that says another number is lost."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thumbindex.model import Passage, Place, Progress
from thumbindex.text import STOP_WORDS, visible, words

if TYPE_CHECKING:
    from thumbindex.library import Library

Kind = Literal["copied", "reworded", "renumbered"]

KINDS: tuple[Kind, ...] = ("copied", "reworded", "renumbered")

SHARE = 0.2
"""Of the sections: so many are planted a second time, by turns as they are, in other words and with another number."""

FIRST = 5
"""Results of an answer among which copies are counted."""

LEAST_WORDS = 25
"""Words of a section that is worth copying."""

ASKED_WORDS = 12
"""Words of a section by which it is asked for."""

FOLDER = "pasted"
"""Where planted notes lie."""

OFF = tuple(f"query.{stage}.enabled=false" for stage in ("variants", "dedup_known", "dedup_hash", "dedup_ngram", "dedup_semantic", "contradict"))
"""Settings without any deduplication in an answer."""

_PHRASES = {
    "in order to": "to", "allows you to": "lets you", "lets you": "allows you to", "make sure": "ensure", "ensure": "make sure", "such as": "like",
    "for example": "for instance", "before": "prior to", "each": "every", "additional": "extra", "is able to": "can",
    "a number of": "several", "it is": "it's", "do not": "don't", "does not": "doesn't", "cannot": "can't", "you are": "you're", "you have": "you've",
    "create": "make", "use": "employ", "select": "choose", "show": "display", "remove": "delete", "start": "begin", "specify": "state",
    "want": "wish", "need": "require", "also": "as well", "if you": "in case you", "about": "regarding", "change": "modify", "however": "but",
    "contains": "holds", "quickly": "fast", "usually": "normally", "likely": "probably", "main": "primary", "get": "obtain",
}  # fmt: skip
"""What a writer may put another way, and how."""

_PHRASE = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, _PHRASES), key=len, reverse=True))})(?![\w-])")
_HELD = re.compile(
    r"(?ms)^[ \t>]*(`{3,}|~{3,}).*?^[ \t>]*\1|^#.*?$|^[ \t]*\|.*?$|^[ \t>]*\d+[.)](?=\s)|\[\^[^\]\s]+\]|`[^`\n]+`|\[\[[^\]\n]*\]\]|\]\([^)\n]*\)|<[^>\n]*>|https?://\S+"
)
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})")
_NUMBER = re.compile(r"(?<![\w.,:/-])[1-9]\d{0,3}(?![\w.,:/-]\w|\w)")
_LEAST_PUT = 2


@dataclass(frozen=True, slots=True)
class Spot:
    """The decisive line of a section: the first that differs in its copy, the middle one where none does."""

    path: str
    line: int
    text: str

    def is_read_in(self, passage: Passage | Place) -> bool:
        """Tell whether a passage shows it."""
        return passage.path == self.path and passage.start_line <= self.line <= passage.end_line


@dataclass(frozen=True, slots=True)
class Planted:
    """A section that stands a second time, in a note of its own."""

    kind: Kind
    original: Spot
    copy: Spot
    question: str


@dataclass(slots=True)
class Copies:
    """What became of planted copies in the first results of some answers."""

    answers: int = 0
    met: Counter[Kind] = field(default_factory=Counter)  # answers in which a section or its copy was to be read
    twice: Counter[Kind] = field(default_factory=Counter)  # both were
    lost: Counter[Kind] = field(default_factory=Counter)  # another number is named, and nowhere to be read
    paired: Counter[Kind] = field(default_factory=Counter)  # the two are said to disagree


# ------------------------------------------------------------------ planting


def plant(source: Path, target: Path, share: float = SHARE, seed: int = 1) -> tuple[Planted, ...]:
    """Write the notes of one folder to another, and further notes that hold copies of some sections; the same for the same seed."""
    chosen = random.Random(seed)
    sections = list(_copy_notes(source, target))
    planted: list[Planted] = []
    wanted = round(len(sections) * share)
    for source_path, line, text in chosen.sample(sections, len(sections)):
        if len(planted) == wanted:
            break
        kind = KINDS[len(planted) % len(KINDS)]
        changed = _CHANGES[kind](text)
        if changed is not None:
            path, first = f"{FOLDER}/{len(planted)}.md", 3  # below a title
            _write(target / path, f"# Pasted {len(planted) + 1}\n\n{changed}\n")
            before, after = text.split("\n"), changed.split("\n")
            at = next((n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b), len(before) // 2)
            spots = Spot(source_path, line + at, before[at]), Spot(path, first + at, after[at])
            planted.append(Planted(kind, *spots, _question(text)))
    return tuple(planted)


def _copy_notes(source: Path, target: Path) -> Iterator[tuple[str, int, str]]:
    """Write each note anew; yield path, first line and text of those of its sections that are worth copying."""
    for note in sorted(source.rglob("*.md")):
        path, text = note.relative_to(source).as_posix(), note.read_text(encoding="utf-8", errors="replace")
        if not any(part.startswith(".") for part in path.split("/")):
            _write(target / path, text)
            sections = ((line, section) for line, section in cut(text) if not section.startswith("---\n"))  # front matter
            yield from ((path, line, section) for line, section in sections if len(words(visible(section))) >= LEAST_WORDS)


def cut(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield what stands between two headings, a heading with it, and the line (from 1) at which it begins."""
    first, own, in_fence = 1, list[str](), False
    for number, line in enumerate(markdown.split("\n"), 1):
        in_fence ^= bool(_FENCE.match(line))
        if line.startswith("#") and not in_fence:
            yield first, "\n".join(own)
            first, own = number, []
        own.append(line)
    yield first, "\n".join(own)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _question(text: str) -> str:
    """Return the first words of a section that carry its subject."""
    return " ".join([word for word in words(visible(text)) if word not in STOP_WORDS][:ASKED_WORDS])


def reword(text: str) -> str | None:
    """Return a Markdown text with what a writer may put another way put so, code and links as they are; None where next to nothing is."""
    put = 0

    def other(found: re.Match[str]) -> str:
        nonlocal put
        put += 1
        return _PHRASES[found[0]]

    changed = _between(text, lambda prose: _PHRASE.sub(other, prose))
    return changed if put >= _LEAST_PUT else None


def renumber(text: str) -> str | None:
    """Return a Markdown text in which the first number of its prose is another one; None without a number."""
    changed = False

    def other(found: re.Match[str]) -> str:
        nonlocal changed
        number, changed = int(found[0]), True
        return str(number * 3)

    def once(prose: str) -> str:
        return prose if changed else _NUMBER.sub(other, prose, count=1)

    found = _between(text, once)
    return found if changed else None


def _between(text: str, change: Callable[[str], str]) -> str:
    """Change what stands between code, links, headings and tables."""
    parts, end = list[str](), 0
    for held in _HELD.finditer(text):
        parts += [change(text[end : held.start()]), held[0]]
        end = held.end()
    return "".join((*parts, change(text[end:])))


_CHANGES: Mapping[Kind, Callable[[str], str | None]] = {"copied": str, "reworded": reword, "renumbered": renumber}


# ------------------------------------------------------------------ asking

Open = Callable[[Sequence[str]], "Library"]
"""Opens the notes with copies among them, by settings."""


def measure_copies(planted: Sequence[Planted], questions: Sequence[str], open_library: Open, tell: Callable[[Progress], None]) -> dict[str, Copies]:
    """Ask what copies and their originals begin with, and further questions: without deduplication, and with it."""
    with open_library(()) as library:
        library.index(progress=tell)
    asked = {"their own words": [each.question for each in planted], "labeled queries": questions}
    found = dict[str, Copies]()
    for how, settings in (("without", OFF), ("with", ())):
        with open_library(settings) as library:
            library.load_models()
            found |= {f"{name}, {how} deduplication": count_copies(library, planted, some) for name, some in asked.items() if some}
    return found


def count_copies(library: Library, planted: Sequence[Planted], questions: Iterable[str]) -> Copies:
    """Ask, and count what became of the planted copies."""
    found = Copies()
    for question in questions:
        passages = library.query(question, limit=FIRST).passages
        found.answers += 1
        for each in planted:
            shown = [next((every for every in passages if spot.is_read_in(every)), None) for spot in (each.original, each.copy)]
            if any(shown):
                found.met[each.kind] += 1
                found.twice[each.kind] += all(shown)
                found.paired[each.kind] += any(every.disagrees for every in shown if every)
                found.lost[each.kind] += each.kind == "renumbered" and any(_is_lost(spot, passages) for spot in (each.original, each.copy))
    return found


def _is_lost(spot: Spot, passages: Sequence[Passage]) -> bool:
    """Tell whether a line is named by a passage, and stands in none."""
    return any(spot.is_read_in(also) for every in passages for also in every.also_in) and not any(spot.text in every.text for every in passages)
