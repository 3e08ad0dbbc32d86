"""No regular expression of ours takes more than linear time, whatever it is fed."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import thumbindex

SOURCE = Path(thumbindex.__file__).parent
FUNCTIONS = {"compile", "sub", "subn", "split", "findall", "finditer", "match", "fullmatch", "search"}
SHORT, LONG = 8_000, 100_000
SECONDS = 1.0
"""For 100 KB; what is linear takes some hundredths, what is not takes ten seconds and more."""

WORST = ["[" * 100, "](", "[[", "%%", "<!--", "`" * 99 + " ", "\n\n", "- ", "> ", "| ", "1.", "a.a", "a-", "_a", "**a", "~~a", "\\[", "é" * 9, "가", "中", "\u200b\u200c"]


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages([str(SOURCE)], "thumbindex."):
        if found.name.rpartition(".")[2] not in {"__main__", "llama_index", "plots"}:
            yield importlib.import_module(found.name)


def inside(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a module's value, however deep in tuples and tables."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, dict)) and depth < 4:
        yield from chain.from_iterable(inside(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value))


def written() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of the module `re`."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
            if named and node.func.value.id == "re" and node.func.attr in FUNCTIONS:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def all_patterns() -> dict[str, re.Pattern[str]]:
    kept = {found.pattern: found for module in modules() for value in vars(module).values() for found in inside(value)}
    literal = [node.args[0].value for _, node in written() if isinstance(node.args[0], ast.Constant)]
    return kept | {each: re.compile(each) for each in literal if each not in kept}


PATTERNS = all_patterns()


def alphabet(tree: Any) -> Iterator[str]:
    """Yield characters that parts of a pattern take."""
    for operator, argument in tree:
        if operator is _constants.LITERAL:
            yield chr(argument)
        elif operator is _constants.RANGE:
            yield chr(argument[0])
        elif operator is _constants.CATEGORY:
            yield {"DIGIT": "7", "SPACE": " ", "WORD": "a"}.get(str(argument).rpartition("_")[2], "a")
        elif operator in (_constants.NOT_LITERAL, _constants.ANY, _constants.NEGATE):
            yield "x"
        elif isinstance(argument, (list, tuple)):
            parts = [each for each in argument if isinstance(each, (list, tuple, _parser.SubPattern))]
            for part in parts:
                inner = chain.from_iterable(part) if part and isinstance(part[0], _parser.SubPattern) else part
                yield from alphabet(each for each in inner if isinstance(each, tuple) and len(each) == 2)
            if operator is _constants.IN:
                yield from alphabet(argument)


def seconds(pattern: re.Pattern[str], text: str) -> float:
    began = time.perf_counter()
    deque(pattern.finditer(text), 0)
    return time.perf_counter() - began


def units(pattern: re.Pattern[str]) -> list[str]:
    """Return short texts that a pattern may take long over where they are repeated."""
    letters = list(dict.fromkeys([*alphabet(_parser.parse(pattern.pattern, pattern.flags)), " ", "a"]))
    pairs = (a + b for a, b in product(letters[:9], letters[:9]) if a != b)
    return [*letters[:40], *pairs, *WORST]


def worst(pattern: re.Pattern[str]) -> list[tuple[float, str, str, str]]:
    """Return the three inputs that take longest for their size: how they begin, what is repeated, how they end."""
    found = []
    for unit in units(pattern):
        for before, after in (("", "\0"), ("a", ""), ("- [", "x"), ("\n", "\nx")):
            found.append((seconds(pattern, before + unit * (SHORT // len(unit)) + after), before, unit, after))
    return sorted(found, reverse=True)[:3]


@pytest.mark.parametrize("name", sorted(PATTERNS), ids=range(len(PATTERNS)))
def test_a_pattern_takes_linear_time_for_100_kilobytes_of_its_worst_input(name: str) -> None:
    pattern = PATTERNS[name]
    for short, before, unit, after in worst(pattern):
        if short > 0.003:  # else a hundred kilobytes take less than a second even where time grows with the square
            assert min(seconds(pattern, before + unit * (LONG // 4 // len(unit)) + after) for _ in range(2)) < SECONDS / 4, (name, before, unit, after)
        assert seconds(pattern, before + unit * (LONG // len(unit)) + after) < SECONDS, (name, before, unit, after)


def test_every_pattern_is_known_before_anybody_asks() -> None:
    made_late = [where for where, node in written() if node.func.attr == "compile" and node.col_offset and not isinstance(node.args[0], ast.Constant)]
    assert len(PATTERNS) > 100
    assert {where.partition(":")[0] for where in made_late} <= {"index/globs.py", "query/reading.py", "query/terms.py", "corpus/hidden.py", "text.py",
        "query/parallel.py", "query/correct.py", "study/copies.py", "serve/quoting.py", "query/sketch.py", "config.py"}
