"""An earlier run of `eval`, read from its JSON, and what has changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.study.ablation import main_values
from thumbindex.study.bootstrap import Difference, compare
from thumbindex.study.evaluate import Evaluation
from thumbindex.study.queries import QuerySet, digest_of


@dataclass(frozen=True, slots=True)
class Baseline:
    """The main measure of each query of an earlier run, by set, and the sets' digests."""

    path: Path
    digests: Mapping[str, str]
    values: Mapping[str, Mapping[str, float]]


def read_baseline(path: Path) -> Baseline:
    """Read what `eval --json` or `--report` wrote. Raises UsageError with what is wrong."""
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        digests = {str(each["name"]): str(each["digest"]) for each in told["sets"]}
        values = {str(each["name"]): {query: float(value) for query, value in each["by_query"].items()} for each in told["sets"]}
    except OSError as error:
        raise UsageError(f"{path}: the baseline cannot be read ({error.strerror}): give a file that `thumbindex eval --json` wrote.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a run of `thumbindex eval` ({error!r}): make one with `thumbindex eval … --json > RUN.json`.") from error
    return Baseline(path, digests, values)


def check_baseline(baseline: Baseline, sets: Sequence[QuerySet]) -> None:
    """Raise UsageError where a set is not the one that the baseline was asked."""
    for each in sets:
        if each.name not in baseline.digests:
            held = ", ".join(baseline.digests) or "none"
            raise UsageError(f"{baseline.path}: the baseline holds no set {each.name}, only {held}: leave the set out, or make a baseline with it.")
        if baseline.digests[each.name] != digest_of(each.queries) or baseline.values[each.name].keys() != {query.id for query in each.queries}:
            raise UsageError(f"{baseline.path}: {each.name} held other queries or labels when the baseline was made: make the baseline anew.")


def compare_with(baseline: Baseline, evaluations: Sequence[Evaluation]) -> tuple[Difference, ...]:
    """Compare sets query by query with what the baseline holds, all of them together first where there are several."""
    before = [[baseline.values[each.name][query.id] for query in each.queries] for each in evaluations]
    after = [main_values([each]) for each in evaluations]
    apart = tuple(compare(each.name, *pair) for each, *pair in zip(evaluations, before, after, strict=True))
    return apart if len(apart) == 1 else (compare("ALL", [*chain(*before)], [*chain(*after)]), *apart)
