"""Find dates in names, lines and queries, and determine the dates of a note."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain, takewhile

from thumbindex.conflict_copies import conflict_original
from thumbindex.text import fold_line

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
DATE = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<y1>\d{4})(?P<s>[-/._])(?P<m1>\d{1,2})(?P=s)(?P<d1>\d{1,2})(?![\d/-])"
    r"|(?P<y2>\d{4})(?P<m2>\d\d)(?P<d2>\d\d)(?![\w./-])"
    r"|(?P<y3>\d{4})\s?年\s?(?P<m3>\d{1,2})\s?月\s?(?P<d3>\d{1,2})\s?日"
    r"|(?P<a>\d{1,2})(?P<t>[./-])(?P<b>\d{1,2})(?P=t)(?P<y4>\d{4})(?![\d/-])"
    rf"|(?P<d5>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+|de\s+)?{_MONTH}"
    r",?\s+(?:de\s+|del\s+)?(?P<y5>\d{4})(?!\d)"
    rf"|{_MONTH.replace('month', 'name')}\s+(?P<d6>\d{{1,2}})(?:st|nd|rd|th)?"
    r",?\s+(?P<y6>\d{4})(?!\d)"
    r")"
)

_AMBIGUOUS_MONTHS = "may|march|mar|mars|mai|dec|sept|abril"
_MONTH_AND_YEAR = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<y1>\d{4})[-_](?P<m1>0[1-9]|1[0-2])(?![\w/-])"
    rf"|{_MONTH},?\s+(?:of\s+|de\s+|del\s+)?(?P<y2>\d{{4}})(?![\w/-])"
    # `RFC 2026 may change` has no month
    rf"|(?P<y3>\d{{4}})[\s-](?!(?:{_AMBIGUOUS_MONTHS})\s+\w){_MONTH.replace('month', 'name')}(?!\w)"
    r")"
)
"""A month with a year: `2026-01`, `January 2026`, `2026 January`."""

_PAIRED = re.compile(
    r"\d(?:st|nd|rd|th|\.)?\s*(?:[-–&,]|and|to|or|until|till|und|bis|oder|et|ou|au|y|o|al|a)\s*$"
)
"""The end of a text before a date that adds another day: `5 and` before `7 May 2026`."""


def find_dates(text: str, *, is_name: bool = False) -> Iterator[tuple[re.Match[str], date]]:
    """Yield (match, date) for each date in a folded text.

    With `is_name`, dates that begin with the year are skipped, because release numbers
    look the same.
    """
    for match in DATE.finditer(text):
        if (day := date_of_match(match)) and not (is_name and (match["y1"] or match["y2"])):
            yield match, day


def date_of_match(match: re.Match[str]) -> date | None:
    """Return the date of a match; None if the date is invalid or ambiguous (03/04/2026)."""
    parts = match.groupdict()
    if not parts:
        year, month, day, *_ = (int(group) for group in match.groups() if group and group.isdigit())
    elif parts["y4"]:
        first, second, year = int(parts["a"]), int(parts["b"]), int(parts["y4"])
        if first <= 12 and second <= 12 and first != second:
            return None
        day, month = max(first, second), min(first, second)
    else:
        year, day = (
            next(int(parts[f"{kind}{n}"]) for n in (1, 2, 3, 5, 6) if parts[f"{kind}{n}"])
            for kind in "yd"
        )
        name = parts["month"] or parts["name"]
        month = (
            _MONTHS[name]
            if name
            else next(int(parts[f"m{n}"]) for n in (1, 2, 3) if parts[f"m{n}"])
        )
    try:
        return date(year, month, day) if 1970 <= year <= 2100 else None
    except ValueError:
        return None


def find_months(text: str) -> Iterator[tuple[int, int]]:
    """Yield (year, month) for each month with a year but no day in a folded text."""
    for match in _MONTH_AND_YEAR.finditer(DATE.sub(" | ", text)):
        year = int(match["y1"] or match["y2"] or match["y3"])
        if 1970 <= year <= 2100:
            yield (
                year,
                int(match["m1"]) if match["m1"] else _MONTHS[match["month"] or match["name"]],
            )


def single_day(text: str) -> tuple[date, str] | None:
    """Return the only date in a folded text, and the spelling of the date there.

    Returns None if the text has no date, more than one date, or a month without a day.
    """
    dates = list(find_dates(text))
    if (
        len({day for _, day in dates}) != 1
        or any(find_months(text))
        or any(_PAIRED.search(text[: match.start()]) for match, _ in dates)
    ):
        return None
    return dates[0][1], dates[0][0][0]


def single_month(text: str) -> tuple[int, int] | None:
    """Return (year, month) of the only month in a folded text.

    Returns None if the text has no month, more than one month, or a full date.
    """
    months = set(find_months(text))
    return months.pop() if len(months) == 1 and not any(find_dates(text)) else None


def without_dates(text: str) -> str:
    """Return a folded text without its dates, and without months that have a year."""
    return _MONTH_AND_YEAR.sub(" ", DATE.sub(" | ", text))


def month_spellings(year: int, month: int) -> Iterator[str]:
    """Yield how names may spell a month, in all supported languages: `2026-01`, `jan 2026`."""
    yield from (f"{year}{sign}{month:02}" for sign in ("-", "_", ".", ""))
    for name in (name for name, number in _MONTHS.items() if number == month):
        yield from (f"{name} {year}", f"{year} {name}")


_PERIOD = re.compile(
    r"(\d{4})(?:-(?!00)(\d\d)(?:-(?!00)(\d\d)"
    r"(?:[t ]\d\d:\d\d(?::\d\d)?+(?:\.\d+)?+ ?(?:z|[+-][\d:]+)?+)?)?)?"
)
_YEAR, _MAX_DAY_CHARS = re.compile(r"\d{4}"), 60


def day_period(text: str) -> tuple[date, date] | None:
    """Return the first and last day that a whole text names: `2026`, `2026-12`, `1 May 2026`."""
    if len(text) > _MAX_DAY_CHARS or not _YEAR.search(text):
        return None
    folded = fold_line(text).strip("\"' ")
    if match := _PERIOD.fullmatch(folded):
        year, month, day = (int(part or 0) for part in match.groups())
        try:
            last = date(year, month or 12, day or monthrange(year, month or 12)[1])
        except ValueError:
            return None
        return date(year, month or 1, day or 1), last
    match = DATE.fullmatch(folded)
    written = date_of_match(match) if match else None
    return (written, written) if written else None


# ------------------------------------------------------------------ dates of a note

_UPDATED_KEYS = (
    "updated lastupdated dateupdated updatedat updatedon lastupdate modified lastmod lastmodified "
    "datemodified modifiedat lastmodifiedat modifiedon"
    " modifieddate updatedate lastedited edited lastchanged revised lastrevised"
).split()
_DATE_KEYS = (
    "date published datepublished publishdate publisheddate publishedat pubdate publicationdate "
    "posted released releasedate day"
).split()
_CREATED_KEYS = (
    "created datecreated createdat createdon creationdate createddate createdtime ctime written"
).split()
"""Front matter keys of Hugo, Jekyll, Obsidian and others, in lower case without punctuation.

In each of `_UPDATED_KEYS`, `_DATE_KEYS` and `_CREATED_KEYS`, the first key with a date counts.
"""

_UPDATED_LABELS = frozenset(
    "actualizado|aktualisiert|derniere mise a jour|last changed|last edited|last modified|last "
    "revised|last update|last updated|letzte aktualisierung"
    "|mis a jour|modified|revised|stand|ultima actualizacion|update|updated|zuletzt "
    "aktualisiert|zuletzt geandert".split("|")
)
_WRITTEN_LABELS = frozenset(
    "created|creado|cree|date|date created|date de publication|datum|dated|erstellt|fecha|meeting "
    "date|posted|publicado|publication date|publie"
    "|published|release date|released|veroffentlicht|written".split("|")
)
"""Labels that may precede a date in a line, in lower case without accents."""

_DATE_IN_NAME = re.compile(
    r"(?<![^\W_])(?<!\d[-.])"
    r"(?:(\d{4})([-_. ])(\d\d)\2(\d\d)(?![^\W_T]|[-.]\d\d?(?!\d))"
    r"|(\d{4})(\d\d)(\d\d)(?:T?\d{4}|T?\d{6})?(?![^\W_]|\.\d))"
)
_FOLDERS = re.compile(r"(?:^|/)(\d{4})/(\d\d)/(\d\d)(?!\d)")

_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b[.,]? ?)?"
_LABEL = re.compile(rf"\W*(?P<label>[^\W\d][^\d:=]*?)(?: (?:on|at|am|le|el))? ?[:=]* ?{_WEEKDAY}")
_MARKUP = re.compile(r"<[^<>]{0,200}>|[*`~\[\]{}]|(?<!\d)_|_(?!\d)|^[\s>#+-]+")
_PART_SEPARATOR = re.compile(r" ?[|;·•] ?| [—–-] ")
_FENCE = re.compile(r"\s*(?:```|~~~)")

_FIRST_LINES = 10
"""How many nonblank lines at the start of a note are searched for a date."""

_MAX_LINE, _MAX_BODY = 200, 8_000


def note_dates(
    path: str, keys: Iterable[str], values_of: Callable[[str], Sequence[str]], body: str
) -> tuple[str, str]:
    """Return the ISO dates of a note's last update (or publication) and creation; empty if unknown.

    The front matter takes precedence over the path, and the path over the first lines. `values_of`
    returns the values of a front matter key, which is given in lower case.
    """
    names = {re.sub(r"[\W_]", "", key.lower()): key.lower() for key in reversed([*keys])}
    updated, written, created = (
        _date_in_values(values_of(names[key]) for key in date_keys if key in names)
        for date_keys in (_UPDATED_KEYS, _DATE_KEYS, _CREATED_KEYS)
    )
    path_date, (body_updated, body_written) = _date_in_path(path), _dates_in_lines(body)
    latest = next(filter(None, (updated, written, path_date, body_updated, body_written)), None)
    first = next(filter(None, (created, written, path_date, body_written)), None)
    return latest.isoformat() if latest else "", first.isoformat() if first else ""


def _date_in_values(values: Iterable[Sequence[str]]) -> date | None:
    texts = chain.from_iterable(values)
    return next((day for text in texts if (day := _leading_date(text[:100]))), None)


def _leading_date(text: str) -> date | None:
    """Return the date at the beginning of a value, or else the first date in it.

    Examples: `[[2026-01-31]]`, `202601311530`.
    """
    text = fold_line(text).strip("[]\"' ")
    match = (
        DATE.match(text)
        or _DATE_IN_NAME.match(text)
        or next((candidate for candidate, _ in find_dates(text)), None)
    )
    return date_of_match(match) if match else None


def _date_in_path(path: str) -> date | None:
    """Return the date in the name of a file, or else in the name of the nearest folder.

    Examples: `2026-01-31 x.md`, `Jan 31st, 2026.md`, `2026/01/31.md`.
    """
    stem, dot, _ = (conflict_original(path) or path).rpartition(".")
    stem = stem if dot else path
    for part in reversed(stem.split("/")):
        name_date = next(
            filter(None, map(date_of_match, _DATE_IN_NAME.finditer(part))), None
        ) or next((day for _, day in find_dates(fold_line(part), is_name=True)), None)
        if name_date:
            return name_date
    return next(filter(None, map(date_of_match, _FOLDERS.finditer(stem))), None)


def _dates_in_lines(body: str) -> tuple[date | None, date | None]:
    """Return the dates of the last update and of writing from the first lines of a note.

    A date counts only after a label such as `Released on` or `Last updated:`.
    """
    updated = written = None
    lines = [line for line in body[:_MAX_BODY].split("\n") if line.strip()][:_FIRST_LINES]
    for line in takewhile(lambda line: not _FENCE.match(line), lines):
        if len(line) > _MAX_LINE or not _YEAR.search(line):
            continue
        # the first cell of a table row is the label
        text = _MARKUP.sub("", _MARKUP.sub("", fold_line(line))).strip(" |").replace("|", ":", 1)
        for part in _PART_SEPARATOR.split(" ".join(text.split())):
            for match, day in find_dates(part):
                before = _LABEL.fullmatch(part[: match.start()])
                label = " ".join(before["label"].split()) if before else ""
                if label in _UPDATED_LABELS:
                    updated = updated or day
                elif label in _WRITTEN_LABELS:
                    written = written or day
    return updated, written
