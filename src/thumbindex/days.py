"""Dates in texts: as people write them in names, lines and questions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date

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

_WORDS_TOO = "may|march|mar|mars|mai|dec|sept|abril"
_MONTH_AND_YEAR = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<y1>\d{4})[-_](?P<m1>0[1-9]|1[0-2])(?![\w/-])"
    rf"|{_MONTH},?\s+(?:of\s+|de\s+|del\s+)?(?P<y2>\d{{4}})(?![\w/-])"
    rf"|(?P<y3>\d{{4}})[\s-](?!(?:{_WORDS_TOO})\s+\w){_MONTH.replace('month', 'name')}(?!\w)"
    r")"
)
"""A month with its year.

Behind a year what is a word, too, is a month only where the words end: `RFC 2026 may change`.
"""

_PAIRED = re.compile(
    r"\d(?:st|nd|rd|th|\.)?\s*(?:[-–&,]|and|to|or|until|till|und|bis|oder|et|ou|au|y|o|al|a)\s*$"
)
"""A day without its month before a date that is written out: `between 5 and 7 January 2026`."""


def find_dates(text: str, *, is_name: bool = False) -> Iterator[tuple[re.Match[str], date]]:
    """Yield the dates in a folded text, with their matches; in a name none that begins with the
    year, which may be a release.
    """
    for found in DATE.finditer(text):
        if (day := date_of_match(found)) and not (is_name and (found["y1"] or found["y2"])):
            yield found, day


def date_of_match(found: re.Match[str]) -> date | None:
    """Return the date of a match; None if there is no such day, or it is ambiguous (03/04/2026)."""
    parts = found.groupdict()
    if not parts:
        year, month, day, *_ = (int(each) for each in found.groups() if each and each.isdigit())
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
    """Yield the months with a year and without a day in a folded text, as year and month."""
    for found in _MONTH_AND_YEAR.finditer(DATE.sub(" | ", text)):
        year = int(found["y1"] or found["y2"] or found["y3"])
        if 1970 <= year <= 2100:
            yield (
                year,
                int(found["m1"]) if found["m1"] else _MONTHS[found["month"] or found["name"]],
            )


def single_day(text: str) -> tuple[date, str] | None:
    """Return the only date in a folded text, and how it is written there; None if there are several
    dates, or months.
    """
    found = list(find_dates(text))
    if (
        len({day for _, day in found}) != 1
        or any(find_months(text))
        or any(_PAIRED.search(text[: match.start()]) for match, _ in found)
    ):
        return None
    return found[0][1], found[0][0][0]


def single_month(text: str) -> tuple[int, int] | None:
    """Return the only month in a folded text, as year and month; None if there are several months,
    or days.
    """
    months = set(find_months(text))
    return months.pop() if len(months) == 1 and not any(find_dates(text)) else None


def without_dates(text: str) -> str:
    """Return a folded text without its dates and months."""
    return _MONTH_AND_YEAR.sub(" ", DATE.sub(" | ", text))


def month_spellings(year: int, month: int) -> Iterator[str]:
    """Yield the spellings of a month in a name, in all languages known here: `2026-01`, `202601`,
    `January 2026`, `2026 Jan`.
    """
    yield from (f"{year}{sign}{month:02}" for sign in ("-", "_", ".", ""))
    for name in (name for name, number in _MONTHS.items() if number == month):
        yield from (f"{name} {year}", f"{year} {name}")
