"""Conditions on properties, read plainly: one value at a time, with strings for days."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import ge, gt, le, lt

from thumbindex.text import fold_line

_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge}


def meets(properties: Mapping[str, Sequence[str]], condition: str) -> bool:
    """Return whether a note with these properties meets a condition, which may begin with `-`."""
    if condition.startswith("-"):
        return not meets(properties, condition[1:])
    key, operator, wanted = re.fullmatch(r"([^:<>=]+)([<>]=?|[:=])(.+)", condition).groups()
    by_key = {fold_line(name): values for name, values in properties.items()}
    if key == "has":
        return fold_line(wanted) in by_key
    wanted = wanted.strip('"')
    return any(_is(value, operator, wanted) for value in by_key.get(fold_line(key), ()))


def _is(value: str, operator: str, wanted: str) -> bool:
    numbers, days = [_number(text) for text in (value, wanted)], [_days(t) for t in (value, wanted)]
    if None not in numbers and operator not in ":=":
        return _COMPARE[operator](*numbers)
    if None not in days and None in numbers:
        (first, last), (low, high) = days
        if operator not in ":=":
            # all of the value's days are on this side
            a, b = {"<": (last, low), "<=": (last, high), ">": (first, high), ">=": (first, low)}[
                operator
            ]
            return _COMPARE[operator](a, b)
        if low <= first and last <= high:
            return True
    if operator not in ":=":
        return False
    if "[" not in value + wanted:
        return _whole(fold_line(value)) == _whole(fold_line(wanted))
    short, long = sorted((_path(value), _path(wanted)), key=len)
    return long[len(long) - len(short) :] == short


def _whole(text: str) -> str:
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)


def _inside(text: str) -> str:
    link = re.fullmatch(r"\[\[([^|#\]]*).*\]\]|\[.*\]\(([^#)]*).*\)", text)
    return (link[1] or link[2]) if link else text


def _path(text: str) -> list[str]:
    return re.sub(r"\.md$", "", _whole(fold_line(_inside(text)))).split("/")


def _number(text: str) -> float | None:
    name = _inside(text).split("/")[-1] if "[" in text else text
    return float(name) if re.fullmatch(r"-?\d+(\.\d+)?", name) else None


def _days(text: str) -> tuple[str, str] | None:
    name = _inside(text).split("/")[-1] if "[" in text else text
    day = re.fullmatch(r"(\d{4})(-\d\d)?(-\d\d)?(T\d\d:\d\d)?", name)
    if not day:
        return None
    first = "".join(part or "" for part in day.groups()[:3])
    return first + "-01-01"[len(first) - 4 :], first + "-12-31"[len(first) - 4 :]
