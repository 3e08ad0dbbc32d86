"""On which day was a note written, and last updated?

What the note itself says: its front matter, then its path, then its first lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from thumbindex.corpus.front_matter import FrontMatter
from thumbindex.days import DATE, date_of_match, find_dates
from thumbindex.text import fold_line

_UPDATED = (
    "updated lastupdated dateupdated updatedat updatedon lastupdate modified lastmod lastmodified "
    "datemodified modifiedat lastmodifiedat modifiedon"
    " modifieddate updatedate lastedited edited lastchanged revised lastrevised"
).split()
_WRITTEN = (
    "date published datepublished publishdate publisheddate publishedat pubdate publicationdate "
    "posted released releasedate day"
).split()
_CREATED = (
    "created datecreated createdat createdon creationdate createddate createdtime ctime written"
).split()
"""Keys of front matter, without case, blanks, `-` and `_`, as Hugo, Jekyll, Obsidian and others
write them; the first that says a day counts.
"""

_SAYS_UPDATED = frozenset(
    "actualizado|aktualisiert|derniere mise a jour|last changed|last edited|last modified|last "
    "revised|last update|last updated|letzte aktualisierung"
    "|mis a jour|modified|revised|stand|ultima actualizacion|update|updated|zuletzt "
    "aktualisiert|zuletzt geandert".split("|")
)
_SAYS_WRITTEN = frozenset(
    "created|creado|cree|date|date created|date de publication|datum|dated|erstellt|fecha|meeting "
    "date|posted|publicado|publication date|publie"
    "|published|release date|released|veroffentlicht|written".split("|")
)
"""What stands before a date that a line states, without accents."""

_IN_NAME = re.compile(
    r"(?<![^\W_])(?<!\d[-.])"
    r"(?:(\d{4})([-_. ])(\d\d)\2(\d\d)(?![^\W_T]|[-.]\d\d?(?!\d))"
    r"|(\d{4})(\d\d)(\d\d)(?:T?\d{4}|T?\d{6})?(?![^\W_]|\.\d))"
)
_FOLDERS = re.compile(r"(?:^|/)(\d{4})/(\d\d)/(\d\d)(?!\d)")

_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b[.,]? ?)?"
_BEFORE = re.compile(rf"(?P<label>[^\W\d][^\d:=]*?)??(?: (?:on|at|am|le|el))? ?[:=]* ?{_WEEKDAY}")
_AFTER = re.compile(rf"[.,]? ?(?:(?:[Tt]|at )? ?\d{{1,2}}:\d\d\S*.*|\(.*\)\.?|by .*|{_WEEKDAY})")
_MARKUP = re.compile(r"<[^<>]{0,200}>|[*`~\[\]{}]|(?<!\d)_|_(?!\d)|^[\s>#+-]+")
_PARTS = re.compile(r" ?[|;·•] ?| [—–-] ")
_FENCE = re.compile(r"\s*(?:```|~~~)")

FIRST_LINES = 10
"""Lines with text, from a note's first, in which a date is looked for."""

_LONGEST_LINE, _MOST_CHARACTERS = 200, 8_000


def read_dates(path: str, front: FrontMatter, body: str) -> tuple[str, str]:
    """Return two ISO dates: the day of the last update, else the one that `date`, the path or a
    line says; and the day of the writing.
    """
    updated, written, created = (_of_keys(front, keys) for keys in (_UPDATED, _WRITTEN, _CREATED))
    named, (said_updated, said_written) = day_of_path(path), days_of_lines(body)
    latest = next(filter(None, (updated, written, named, said_updated, said_written)), None)
    first = next(filter(None, (created, written, named, said_written)), None)
    return latest.isoformat() if latest else "", first.isoformat() if first else ""


def _of_keys(front: FrontMatter, keys: Iterable[str]) -> date | None:
    names = {re.sub(r"[\W_]", "", name.lower()): name.lower() for name in reversed([*front.fields])}
    texts = (text for key in keys if key in names for text in front.values(names[key], split=""))
    return next((day for text in texts if (day := _first_day(text[:100]))), None)


def _first_day(text: str) -> date | None:
    """Return the day that a value begins with, a time of day behind it or not: `[[2026-01-31]]` and
    `202601311530` too.
    """
    text = fold_line(text).strip("[]\"' ")
    found = (
        DATE.match(text)
        or _IN_NAME.match(text)
        or next((each for each, _ in find_dates(text)), None)
    )
    return date_of_match(found) if found else None


def day_of_path(path: str) -> date | None:
    """Return the day that a file's name says, else its folders, the nearest first: `2026-01-31
    x.md`, `Jan 31st, 2026.md`, `2026/01/31.md`.
    """
    stem, dot, _ = path.rpartition(".")
    stem = stem if dot else path
    for part in reversed(stem.split("/")):
        found = next(filter(None, map(date_of_match, _IN_NAME.finditer(part))), None) or next(
            (day for _, day in find_dates(fold_line(part), is_name=True)), None
        )
        if found:
            return found
    return next(filter(None, map(date_of_match, _FOLDERS.finditer(stem))), None)


def days_of_lines(body: str) -> tuple[date | None, date | None]:
    """Return the days of update and of writing that the first lines state.

    A line states a day behind a word such as `Released on` or `Last updated:`; the first line, and
    the one below a first heading, with nothing but the day too, and a first heading by beginning or
    ending with it. A date in a sentence states nothing.
    """
    lines = [line for line in body[:_MOST_CHARACTERS].split("\n") if line.strip()][:FIRST_LINES]
    updated = written = None
    below = True  # nothing but a first heading stands above
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            break
        said_updated, said_written = _days_of_line(
            line, is_bare=below, is_title=number == 0 and line.startswith("# ")
        )
        updated, written = updated or said_updated, written or said_written
        below = number == 0 and line.startswith("# ")
    return updated, written


def _days_of_line(line: str, *, is_bare: bool, is_title: bool) -> tuple[date | None, date | None]:
    if len(line) > _LONGEST_LINE or not re.search(r"\d{4}", line):
        return None, None
    if line.lstrip().startswith("|"):  # a row of a table says its label in the first cell
        line = line.strip(" |").replace("|", ":", 1)
    text = " ".join(_MARKUP.sub("", _MARKUP.sub("", fold_line(line))).split()).rstrip(" #")
    updated = written = None
    for part in _PARTS.split(text):
        for found, day in find_dates(part):
            before, after = (
                _BEFORE.fullmatch(part[: found.start()]),
                _AFTER.fullmatch(part[found.end() :]),
            )
            label = " ".join((before["label"] or "").split()) if before else None
            is_alone = is_title and len(list(find_dates(text))) == 1
            begins_or_ends = (label == "" and part == text) or found.end() == len(text)
            if label in _SAYS_UPDATED and after:
                updated = updated or day
            elif (
                after and (label in _SAYS_WRITTEN or (label == "" and is_bare and part == text))
            ) or (is_alone and begins_or_ends):
                written = written or day
    return updated, written
