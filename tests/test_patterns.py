"""All regular expressions of the package take linear time on any input."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import thumbindex

SOURCE = Path(thumbindex.__file__).parent
FUNCTIONS = {
    "compile",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
    "match",
    "fullmatch",
    "search",
}
SHORT, LONG = 6_000, 100_000
SECONDS = 1.0
"""Maximum for 100 KB. Linear patterns take some hundredths, others over ten seconds."""

WORST = [
    "[" * 100,
    "](",
    "[[",
    "%%",
    "<!--",
    "`" * 99 + " ",
    "\n\n",
    "- ",
    "> ",
    "| ",
    "1.",
    "a.a",
    "a-",
    "_a",
    "**a",
    "~~a",
    "\\[",
    "é" * 9,
    "가",
    "中",
    "\u200b\u200c",
]


def modules() -> Iterator[Any]:
    for module in pkgutil.walk_packages([str(SOURCE)], "thumbindex."):
        # no input of others reaches evaluation, and llama_index is an extra
        if module.name.rpartition(".")[2] not in {
            "__main__",
            "llama_index",
        } and not module.name.startswith("thumbindex.evaluation"):
            yield importlib.import_module(module.name)


def nested_patterns(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a module's value, also inside tuples and dicts."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, dict)) and depth < 4:
        yield from chain.from_iterable(
            nested_patterns(each, depth + 1)
            for each in (value.values() if isinstance(value, dict) else value)
        )


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def regex_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of the module `re`, with its file and line."""
    for path in sorted(path for path in SOURCE.rglob("*.py") if "evaluation" not in path.parts):
        for node in nodes(path):
            is_method_call = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            )
            if is_method_call and node.func.value.id == "re" and node.func.attr in FUNCTIONS:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def methods_of(path: Path) -> dict[str, set[str]]:
    """Return the methods called on each name of a module."""
    methods: dict[str, set[str]] = {}
    for node in nodes(path):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in FUNCTIONS
        ):
            methods.setdefault(node.value.id, set()).add(node.attr)
    return methods


@dataclass(frozen=True)
class PatternUse:
    """A pattern, and whether it is only matched at the start."""

    pattern: re.Pattern[str]
    anchored: bool = False


def all_patterns() -> dict[str, PatternUse]:
    uses: dict[str, PatternUse] = {}
    for module in modules():
        methods = methods_of(Path(module.__file__))
        for name, value in vars(module).items():
            for pattern in nested_patterns(value):
                anchored = bool(methods.get(name)) and methods[name] <= {"match", "fullmatch"}
                uses.setdefault(pattern.pattern, PatternUse(pattern, anchored))
    for place, node in regex_calls():
        if (
            isinstance(node.args[0], ast.Constant)
            and node.args[0].value not in uses
            and not place.startswith("config.py")
        ):
            uses[node.args[0].value] = PatternUse(
                re.compile(node.args[0].value), node.func.attr in {"match", "fullmatch"}
            )
    return uses


def alphabet(tree: Any) -> Iterator[str]:
    """Yield characters that parts of a pattern match."""
    for operator, argument in tree:
        if operator is _constants.LITERAL:
            yield chr(argument)
        elif operator is _constants.RANGE:
            yield chr(argument[0])
        elif operator is _constants.CATEGORY:
            yield {"DIGIT": "7", "SPACE": " ", "WORD": "a"}.get(
                str(argument).rpartition("_")[2], "a"
            )
        elif operator in (_constants.NOT_LITERAL, _constants.ANY, _constants.NEGATE):
            yield "x"
        elif isinstance(argument, (list, tuple)):
            parts = [
                each for each in argument if isinstance(each, (list, tuple, _parser.SubPattern))
            ]
            for part in parts:
                inner = (
                    chain.from_iterable(part)
                    if part and isinstance(part[0], _parser.SubPattern)
                    else part
                )
                yield from alphabet(
                    each for each in inner if isinstance(each, tuple) and len(each) == 2
                )
            if operator is _constants.IN:
                yield from alphabet(argument)


def seconds(use: PatternUse, text: str) -> float:
    started = time.perf_counter()
    if use.anchored:
        use.pattern.match(text)
        use.pattern.fullmatch(text)
    else:
        deque(use.pattern.finditer(text), 0)
    return time.perf_counter() - started


def units(pattern: re.Pattern[str]) -> list[str]:
    """Return short texts that may be slow for a pattern if repeated."""
    letters = list(
        dict.fromkeys([*alphabet(_parser.parse(pattern.pattern, pattern.flags)), " ", "a"])
    )
    pairs = (a + b for a, b in product(letters[:9], letters[:9]) if a != b)
    return [*letters[:40], *pairs, *WORST]


AROUND = (("", "\0"), ("- [", "x"), ("\n", "\nx"))


def fill(unit: str, size: int, around: tuple[str, str]) -> str:
    return around[0] + unit * (size // len(unit)) + around[1]


def slowest_inputs(use: PatternUse) -> list[tuple[float, str, tuple[str, str]]]:
    """Return the two slowest inputs. Sizes grow step by step, so exponential time is noticed."""
    size = 24
    inputs = [(unit, around) for unit in units(use.pattern) for around in AROUND]
    while size < SHORT:
        size *= 4
        slowest = sorted(
            ((seconds(use, fill(unit, size, around)), unit, around) for unit, around in inputs),
            reverse=True,
        )
        assert slowest[0][0] < SECONDS, (use.pattern.pattern, size, slowest[0])
        inputs = [(unit, around) for _, unit, around in slowest[: max(8, len(slowest) // 4)]]
    return slowest[:2]


def test_patterns_take_linear_time_on_worst_input() -> None:
    patterns = all_patterns()
    assert len(patterns) > 90
    for name, use in patterns.items():
        for took, unit, around in slowest_inputs(use):
            # notice quadratic time before it takes minutes
            for size in (SHORT, 4 * SHORT, LONG) if took > 0.001 else (LONG,):
                limit = SECONDS * max(size / LONG, 0.1)
                assert seconds(use, fill(unit, size, around)) < limit, (name, unit, around)
