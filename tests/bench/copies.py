"""Copies of sections planted among notes, and asked for: which come several times in an answer, and
whether one that says another number is lost.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.results import Row
from bench.subject import Subject
from notes import write
from thumbindex.library import Library
from thumbindex.model import Passage, Place
from thumbindex.study.queries import load_queries
from thumbindex.text import STOP_WORDS, visible, words

SHARE = 0.2
"""Of the sections: so many are planted a second time."""

FIRST = 5
"""Results of an answer among which copies are counted."""

LEAST_WORDS, ASKED_WORDS = 25, 12
"""Words of a section that is worth copying, and those by which it is asked for."""

FOLDER = "pasted"
"""Where planted notes lie."""

COUNTED = ("met", "both", "lost", "as a pair")
"""Answers that show a section or its copy; that show both; that name another number and show it
nowhere; that say that the two disagree.
"""

OFF = (
    (
        "query.skip=expand,rerank,variants,dedup_known,dedup_hash,deduplicate,dedup_ngram,"
        "dedup_semantic,contradict"
    ),
)
"""Settings without any deduplication in an answer."""

_PHRASES = {
    "in order to": "to", "allows you to": "lets you", "lets you": "allows you to",
    "make sure": "ensure", "ensure": "make sure", "such as": "like", "for example": "for instance",
    "before": "prior to", "each": "every", "additional": "extra", "is able to": "can",
    "a number of": "several", "it is": "it's", "do not": "don't", "does not": "doesn't",
    "cannot": "can't", "you are": "you're", "you have": "you've", "create": "make", "use": "employ",
    "select": "choose", "show": "display", "remove": "delete", "start": "begin", "specify": "state",
    "want": "wish", "need": "require", "also": "as well", "if you": "in case you",
    "about": "regarding", "change": "modify", "however": "but", "contains": "holds",
    "quickly": "fast", "usually": "normally", "likely": "probably", "main": "primary",
    "get": "obtain",
}  # fmt: skip
"""What a writer may put another way, and how."""

_PHRASE = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, _PHRASES), key=len, reverse=True))})(?![\w-])"
)
_NUMBER = re.compile(r"(?<![\w.,:/-])[1-9]\d{0,3}(?![\w.,:/-]\w|\w)")
_NO_PROSE = re.compile(
    r"(?ms)^[ \t>]*(`{3,}|~{3,}).*?^[ \t>]*\1|^#.*?$|^[ \t]*\|.*?$"
    r"|^[ \t>]*\d+[.)](?=\s)|\[\^[^\]\s]+\]|`[^`\n]+`|\[\[[^\]\n]*\]\]|\]\([^)\n]*\)"
    r"|<[^>\n]*>|https?://\S+"
)
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Spot:
    """The decisive line of a section: the first that differs in its copy, the middle one where none
    does.
    """

    path: str
    line: int
    text: str

    def is_read_in(self, passage: Passage | Place) -> bool:
        return passage.path == self.path and passage.start_line <= self.line <= passage.end_line


@dataclass(frozen=True, slots=True)
class Planted:
    """A section that stands a second time, in a note of its own, and the question for it."""

    kind: str
    spots: tuple[Spot, Spot]  # in the original and in the copy
    question: str


def measure(subject: Subject) -> Iterator[Row]:
    """Plant copies among a copy of the folder's notes; ask for what they begin with, and labeled
    queries, without deduplication and with it.
    """
    made = subject.at(subject.empty("planted"), subject.empty("planted's index"))
    planted = plant(subject.folder, made.folder, seed=subject.given.seed)
    with made.open() as library:
        library.index()
    labeled = [each.query for path in subject.given.queries for each in load_queries(path)]
    kinds = Counter(each.kind for each in planted)
    for how, settings in (("without", OFF), ("with", ())):
        with made.open(*settings) as library:
            library.load_models()
            for name, questions in (
                ("own words", [each.question for each in planted]),
                ("labeled queries", labeled),
            ):
                found = count_copies(library, planted, questions)
                for kind, what in ((kind, what) for kind in kinds if questions for what in COUNTED):
                    note = (
                        f"{len(questions):,} answers, {kinds[kind]:,} sections planted"
                        if what == "met"
                        else ""
                    )
                    yield Row(
                        "copies",
                        f"{name}, {how} deduplication: {kind}, {what}",
                        "",
                        [found[kind, what]],
                        note=note,
                    )


def plant(source: Path, target: Path, share: float = SHARE, seed: int = 1) -> list[Planted]:
    """Write the notes of one folder to another, and further notes that hold copies of some
    sections; the same for the same seed.
    """
    chosen, sections, planted = (
        random.Random(seed),
        list(_copy_notes(source, target)),
        list[Planted](),
    )
    for original, line, text in chosen.sample(sections, len(sections)):
        if len(planted) == round(len(sections) * share):
            break
        kind = tuple(KINDS)[len(planted) % len(KINDS)]
        changed = KINDS[kind](text)
        if changed is not None:
            path = f"{FOLDER}/{len(planted)}.md"
            write(target / path, f"# Pasted {len(planted) + 1}\n\n{changed}\n")
            before, after = text.split("\n"), changed.split("\n")
            at = next(
                (n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b),
                len(before) // 2,
            )
            question = " ".join(
                [word for word in words(visible(text)) if word not in STOP_WORDS][:ASKED_WORDS]
            )
            planted.append(
                Planted(
                    kind,
                    (Spot(original, line + at, before[at]), Spot(path, 3 + at, after[at])),
                    question,
                )
            )
    return planted


def _copy_notes(source: Path, target: Path) -> Iterator[tuple[str, int, str]]:
    """Write each note anew; yield path, first line and text of those of its sections that are worth
    copying.
    """
    for note in sorted(source.rglob("*.md")):
        path, text = (
            note.relative_to(source).as_posix(),
            note.read_text(encoding="utf-8", errors="replace"),
        )
        if not any(part.startswith(".") for part in path.split("/")):
            write(target / path, text)
            for line, section in _cut(text):
                # no front matter
                if not section.startswith("---\n") and len(words(visible(section))) >= LEAST_WORDS:
                    yield path, line, section


def _cut(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield what stands between two headings, a heading with it, and the line (from 1) at which it
    begins.
    """
    first, own, in_fence = 1, list[str](), False
    for number, line in enumerate(markdown.split("\n"), 1):
        in_fence ^= bool(_FENCE.match(line))
        if line.startswith("#") and not in_fence:
            yield first, "\n".join(own)
            first, own = number, []
        own.append(line)
    yield first, "\n".join(own)


def reword(text: str) -> str | None:
    """Return a Markdown text with what a writer may put another way put so, code and links as they
    are; None where next to nothing is.
    """
    changed, put = _change_prose(text, _PHRASE, lambda found: _PHRASES[found[0]])
    return changed if put > 1 else None


def renumber(text: str) -> str | None:
    """Return a Markdown text in which the first number of its prose is another one; None without a
    number.
    """
    changed, put = _change_prose(text, _NUMBER, lambda found: str(int(found[0]) * 3), most=1)
    return changed if put else None


def _change_prose(
    text: str, pattern: re.Pattern[str], other: Callable[[re.Match[str]], str], most: int = 0
) -> tuple[str, int]:
    """Replace a pattern, `most` times at most, between code, links, headings and tables; return the
    text and how often.
    """
    parts, end, put = list[str](), 0, 0
    for start, stop in (
        *(each.span() for each in _NO_PROSE.finditer(text)),
        (len(text), len(text)),
    ):
        prose, times = text[end:start], 0
        if not most or put < most:
            prose, times = pattern.subn(other, prose, count=most)
        parts += [prose, text[start:stop]]
        end, put = stop, put + times
    return "".join(parts), put


KINDS: dict[str, Callable[[str], str | None]] = {
    "copied": str,
    "reworded": reword,
    "renumbered": renumber,
}


def count_copies(
    library: Library, planted: Sequence[Planted], questions: Iterable[str]
) -> Counter[tuple[str, str]]:
    """Ask, and count by kind what became of the planted copies."""
    found = Counter[tuple[str, str]]()
    for question in questions:
        passages = library.query(question, limit=FIRST).passages
        for each in planted:
            shown = [
                next((every for every in passages if spot.is_read_in(every)), None)
                for spot in each.spots
            ]
            if any(shown):
                found[each.kind, "met"] += 1
                found[each.kind, "both"] += all(shown)
                found[each.kind, "as a pair"] += any(every.disagrees for every in shown if every)
                found[each.kind, "lost"] += each.kind == "renumbered" and any(
                    _is_lost(spot, passages) for spot in each.spots
                )
    return found


def _is_lost(spot: Spot, passages: Sequence[Passage]) -> bool:
    """Tell whether a line is named by a passage, and stands in none."""
    return any(spot.is_read_in(also) for every in passages for also in every.also_in) and not any(
        spot.text in every.text for every in passages
    )
