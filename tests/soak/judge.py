"""What a soak and a storm are judged by: verdicts, and the figures that they rest on.

No process, no disk, no clock.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from load import Pace

LEAST_PACE = 0.95
"""Less than this of the intended load is another, lighter test."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that must hold, what was seen of it, and what is allowed.

    `held` is None where the run says nothing about it.
    """

    what: str
    held: bool | None
    seen: str

    def __str__(self) -> str:
        """Return it as a line."""
        verdict = "not judged" if self.held is None else "held" if self.held else "FAILED"
        return f"{verdict:<11}{self.what}: {self.seen}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much more a thing may be in the last quarter of a run than in the second: so many times,
    and so much besides.
    """

    times: float
    besides: float


LEVEL: Mapping[str, Allowance] = {
    # The collector of garbage and the allocator breathe by some MB; a leak of 20 bytes a question
    # is under it, one of 3 KB an edit is not.
    "resident": Allowance(1.05, 8 * 2**20),
    # A pool's thread or two that sleep meanwhile.
    "threads": Allowance(1.0, 3),
    # Files of the generation that is just being opened.
    "handles": Allowance(1.0, 8),
    # Whoosh merges and SQLite's log is written back now and then.
    "bytes on disk": Allowance(1.15, 0),
}
"""What counts as level, by what is measured."""


def judge_pace(name: str, a_second: float, pace: Pace) -> Verdict:
    """Judge whether the load was what was intended."""
    due = pace.done + len(pace.undone)
    seen = (
        f"{pace.done:,} of {due:,} due at {a_second:g} a second, {pace.share:.1%} (at least "
        f"{LEAST_PACE:.0%}); {pace.behind:.2f} s late at most"
    )
    return Verdict(f"pace of {name}", pace.share >= LEAST_PACE and due > 0, seen)


def judge_wrong(asked: int, wrong: Sequence[str], shown: int = 20) -> Verdict:
    """Judge the answers: none may be wrong or fail, and there must be some."""
    listed = "".join(f"\n             {each}" for each in wrong[:shown])
    return Verdict(
        "answers",
        not wrong and asked > 0,
        f"{len(wrong)} of {asked:,} wrong or failed (none){listed}",
    )


def judge_level(
    whose: str, measure: str, values: Sequence[float], long_enough: bool = True
) -> Verdict:
    """Judge whether something stopped growing: the last quarter's median against the second
    quarter's.
    """
    allowed = LEVEL[measure]
    early, late = quarters(values)
    most = early * allowed.times + allowed.besides
    seen = (
        f"{early:,.0f} in the second quarter, {late:,.0f} in the last, "
        f"{late / early if early else math.nan:.3f} times "
        f"(at most {most:,.0f}); most {max(values):,.0f}; slope of the second half "
        f"{slope(values[len(values) // 2 :]):+,.1f} a sample"
    )
    return Verdict(f"{whose} levels off in {measure}", late <= most if long_enough else None, seen)


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the second and of the last quarter."""
    quarter = max(1, len(values) // 4)
    return statistics.median(values[quarter : 2 * quarter] or values), statistics.median(
        values[-quarter:]
    )


def slope(values: Sequence[float]) -> float:
    """Return by how much values rise from one to the next: the median over all pairs (Theil and
    Sen), which a few outliers do not move.
    """
    rises = [
        (later - earlier) / (n - m)
        for m, earlier in enumerate(values)
        for n, later in enumerate(values)
        if n > m
    ]
    return statistics.median(rises) if rises else 0.0


def quantile(seconds: Sequence[float], share: float) -> float:
    """Return the value that so many do not exceed (nearest rank); infinite where there are none."""
    ordered = sorted(seconds)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.inf


def distribution(name: str, seconds: Sequence[float]) -> str:
    """Return the line that tells what questions took."""
    p50, p95, p99, longest = (quantile(seconds, share) for share in (0.5, 0.95, 0.99, 1.0))
    return (
        f"question, {name}: {len(seconds):,} asked, p50 {p50:.3f} s, p95 {p95:.3f} s, p99 "
        f"{p99:.3f} s, longest {longest:.3f} s"
    )


def conclude(verdicts: Iterable[Verdict]) -> int:
    """Print the verdicts and what they come to; return the exit code: 1 where something failed, 3
    where something could not be judged, else 0.
    """
    known = list(verdicts)
    for each in known:
        print(each)
    failed, unjudged = (sum(each.held is state for each in known) for state in (False, None))
    word, code = (
        ("FAILED", 1) if failed else ("NOT JUDGED", 3) if unjudged or not known else ("HELD", 0)
    )
    print(f"{word}: {failed} of {len(known)} failed, {unjudged} not judged")
    return code
