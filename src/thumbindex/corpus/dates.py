"""On which day was a note written, and last updated? What the note itself says: its front matter, then its path, then its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from thumbindex.corpus.front_matter import FrontMatter
from thumbindex.text import fold_line

_UPDATED = (
    "updated lastupdated dateupdated updatedat updatedon lastupdate modified lastmod lastmodified datemodified modifiedat lastmodifiedat modifiedon"
    " modifieddate updatedate lastedited edited lastchanged revised lastrevised"
).split()
_WRITTEN = "date published datepublished publishdate publisheddate publishedat pubdate publicationdate posted released releasedate day".split()
_CREATED = "created datecreated createdat createdon creationdate createddate createdtime ctime written".split()
"""Keys of front matter, without case, blanks, `-` and `_`, as Hugo, Jekyll, Obsidian and others write them; the first that says a day counts."""

_SAYS_UPDATED = frozenset(
    "actualizado|aktualisiert|derniere mise a jour|last changed|last edited|last modified|last revised|last update|last updated|letzte aktualisierung"
    "|mis a jour|modified|revised|stand|ultima actualizacion|update|updated|zuletzt aktualisiert|zuletzt geandert".split("|")
)
_SAYS_WRITTEN = frozenset(
    "created|creado|cree|date|date created|date de publication|datum|dated|erstellt|fecha|meeting date|posted|publicado|publication date|publie"
    "|published|release date|released|veroffentlicht|written".split("|")
)
"""What stands before a date that a line states, without accents."""

_MONTHS: Mapping[str, int] = {
    name: n % 12 + 1
    for names in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar marz april mai juni juli august sept oktober november dezember",
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    )
    for n, name in enumerate(names.split())
}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DATE = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<y1>\d{4})(?P<s>[-/._])(?P<m1>\d{1,2})(?P=s)(?P<d1>\d{1,2})(?![\d/-])"
    r"|(?P<y2>\d{4})(?P<m2>\d\d)(?P<d2>\d\d)(?![\w./-])"
    r"|(?P<y3>\d{4})\s?年\s?(?P<m3>\d{1,2})\s?月\s?(?P<d3>\d{1,2})\s?日"
    r"|(?P<a>\d{1,2})(?P<t>[./-])(?P<b>\d{1,2})(?P=t)(?P<y4>\d{4})(?![\d/-])"
    rf"|(?P<d5>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+|de\s+)?{_MONTH},?\s+(?:de\s+|del\s+)?(?P<y5>\d{{4}})(?!\d)"
    rf"|{_MONTH.replace('month', 'name')}\s+(?P<d6>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y6>\d{{4}})(?!\d)"
    r")"
)
_IN_NAME = re.compile(
    r"(?<![^\W_])(?<!\d[-.])(?:(\d{4})([-_. ])(\d\d)\2(\d\d)(?![^\W_T]|[-.]\d\d?(?!\d))|(\d{4})(\d\d)(\d\d)(?:T?\d{4}|T?\d{6})?(?![^\W_]|\.\d))"
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
    """Return two ISO dates: the day of the last update, else the one that `date`, the path or a line says; and the day of the writing."""
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
    """Return the day that a value begins with, a time of day behind it or not: `[[2026-01-31]]` and `202601311530` too."""
    text = fold_line(text).strip("[]\"' ")
    found = _DATE.match(text) or _IN_NAME.match(text) or next((each for each, _ in _days(text)), None)
    return _day_of(found) if found else None


def day_of_path(path: str) -> date | None:
    """Return the day that a file's name says, else its folders, the nearest first: `2026-01-31 x.md`, `Jan 31st, 2026.md`, `2026/01/31.md`."""
    stem, dot, _ = path.rpartition(".")
    stem = stem if dot else path
    for part in reversed(stem.split("/")):
        found = next(filter(None, map(_day_of, _IN_NAME.finditer(part))), None) or next(
            (day for _, day in _days(fold_line(part), is_name=True)), None
        )
        if found:
            return found
    return next(filter(None, map(_day_of, _FOLDERS.finditer(stem))), None)


def days_of_lines(body: str) -> tuple[date | None, date | None]:
    """Return the days of update and of writing that the first lines state.

    A line states a day behind a word such as `Released on` or `Last updated:`; the first line, and the one below a first heading, with nothing
    but the day too, and a first heading by beginning or ending with it. A date in a sentence states nothing.
    """
    lines = [line for line in body[:_MOST_CHARACTERS].split("\n") if line.strip()][:FIRST_LINES]
    updated = written = None
    below = True  # nothing but a first heading stands above
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            break
        said_updated, said_written = _days_of_line(line, is_bare=below, is_title=number == 0 and line.startswith("# "))
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
        for found, day in _days(part):
            before, after = _BEFORE.fullmatch(part[: found.start()]), _AFTER.fullmatch(part[found.end() :])
            label = " ".join((before["label"] or "").split()) if before else None
            is_alone = is_title and len(list(_days(text))) == 1
            begins_or_ends = (label == "" and part == text) or found.end() == len(text)
            if label in _SAYS_UPDATED and after:
                updated = updated or day
            elif (after and (label in _SAYS_WRITTEN or (label == "" and is_bare and part == text))) or (is_alone and begins_or_ends):
                written = written or day
    return updated, written


def _days(text: str, *, is_name: bool = False) -> Iterator[tuple[re.Match[str], date]]:
    """Yield the dates in a text, with the days that they are; of a name those that begin with the year are left out, which may be a release."""
    for found in _DATE.finditer(text):
        if (day := _day_of(found)) and not (is_name and (found["y1"] or found["y2"])):
            yield found, day


def _day_of(found: re.Match[str]) -> date | None:
    """Return the day of a match; None where there is no such day, or it may be another one (03/04/2026)."""
    parts = found.groupdict()
    if not parts:
        year, month, day, *_ = (int(each) for each in found.groups() if each and each.isdigit())
    elif parts["y4"]:
        first, second, year = int(parts["a"]), int(parts["b"]), int(parts["y4"])
        if first <= 12 and second <= 12 and first != second:
            return None
        day, month = max(first, second), min(first, second)
    else:
        year, day = (next(int(parts[f"{kind}{n}"]) for n in (1, 2, 3, 5, 6) if parts[f"{kind}{n}"]) for kind in "yd")
        name = parts["month"] or parts["name"]
        month = _MONTHS[name] if name else next(int(parts[f"m{n}"]) for n in (1, 2, 3) if parts[f"m{n}"])
    try:
        return date(year, month, day) if 1970 <= year <= 2100 else None
    except ValueError:
        return None
