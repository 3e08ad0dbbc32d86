"""Eight hours of a busy vault in one: what servers hold and write must level off, by a slope that
chance explains.

`make marathon` runs it for an hour (Linux), `make marathon ARGS="--minutes 15"` shorter at the same
pace.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from edited import Vault
from ending import compare_with_fresh, settle
from judge import Verdict, conclude, distribution, judge_pace
from load import Crew, Pace
from processes import Sample, judge_same_processes, take_sample
from trend import judge_trend

from servers import ServerProcess, await_start
from soak import ASKERS, LARGEST, SETTLE_SECONDS, Scores, ask, judge_answers, main
from thumbindex.index.files import VECTORS, size_of_file
from thumbindex.serve.opening import Opening, open_library

HOURS, EDITS_AN_HOUR, QUESTIONS_AN_HOUR = 8, 6000, 2400
"""What the soak calls two busy hours, four times (12,000 edits and 4,800 questions each)."""

TIMES_AS_FAST = 8

SAMPLE_SECONDS = 5.0

SPREAD = 10
"""Notes by which the vault grows or shrinks, at most: else the index would grow with it, and
rightly.
"""

MEASURES = ("resident", "anonymous", "threads", "handles")


class LevelVault(Vault):
    """A vault that is edited all the time and stays as large as it is."""

    def __init__(self, root: Path, notes: int, seed: int) -> None:
        super().__init__(root, notes, seed)
        self._notes = notes

    def _add(self, at: int) -> None:
        (super()._add if len(self.notes) < self._notes + SPREAD else self._delete)(at)

    def _delete(self, at: int) -> None:
        (super()._delete if len(self.notes) > self._notes - SPREAD else self._add)(at)


@dataclass(frozen=True, slots=True)
class Moment:
    """What processes take and what lies on disk, by what it is for."""

    sample: Sample
    files: Mapping[str, int]  # bytes
    said: int  # bytes that the servers wrote to standard error


def weigh(index: Path) -> dict[str, int]:
    """Return the bytes of an index by what they are for."""
    sizes: dict[str, int] = defaultdict(int)
    for path in index.rglob("*"):
        log = ", log" if path.suffix in (".sqlite3-wal", ".sqlite3-shm") else ""
        kind = (
            "vectors"
            if VECTORS in path.parts
            else "words"
            if "keyword" in path.parts
            else "documents"
            if ".sqlite3" in path.name
            else "the rest"
        )
        if path.is_file():
            sizes[kind + log] += size_of_file(path)
    return dict(sizes)


def run(made: Path, minutes: float, notes: int, seed: int, settings: Sequence[str]) -> int:
    """Run it and print what was seen; return the exit code."""
    vault, opening = (
        LevelVault(made / "vault", notes, seed),
        Opening((str(made / "vault"),), made / "index", None, tuple(settings)),
    )
    with open_library(opening) as library:
        library.index()
    scores = {"server 1": Scores(), "server 2": Scores()}
    with ExitStack() as stack:
        said = [stack.enter_context((made / f"said {n}").open("wb")) for n in (1, 2)]
        servers = [
            stack.enter_context(ServerProcess(opening.arguments(), said=each)) for each in said
        ]
        for server in servers:
            await_start(server.call, vault.root)
        moments, paces = work(vault, servers, scores, minutes * 60)
        settled, is_settled = settle(servers[0], SETTLE_SECONDS)
    compared = compare_with_fresh(opening, made / "fresh", LARGEST) if is_settled else []
    print(
        f"\n{vault.edits:,} edits in {minutes:g} minutes, {minutes * TIMES_AS_FAST / 60:g} "
        f"hours' worth; seed {seed}, {notes:,} notes"
    )
    for name, each in scores.items():
        print(f"{distribution(name, each.seconds)} {dict(each.asked)}")
    load = [
        judge_pace(name, a_second(each), paces[name])
        for name, each in (("edits", EDITS_AN_HOUR), ("questions", QUESTIONS_AN_HOUR))
    ]
    return conclude([*load, *judge_answers(scores), *judge_moments(moments), settled, *compared])


def a_second(an_hour: int) -> float:
    """Return how often a thing happens in one second of the run."""
    return an_hour * TIMES_AS_FAST / 3600


def work(
    vault: Vault, servers: Sequence[ServerProcess], scores: dict[str, Scores], seconds: float
) -> tuple[list[Moment], dict[str, Pace]]:
    """Edit and ask for so long; return what was taken and written, and how the pace was kept."""
    began, moments = time.monotonic(), list[Moment]()
    made = vault.root.parent

    def look() -> None:
        sample = take_sample(time.monotonic() - began, servers, made / "index")
        moments.append(
            Moment(
                sample,
                weigh(made / "index"),
                sum(size_of_file(path) for path in made.glob("said *")),
            )
        )
        if len(moments) % 12 == 0:
            wrong = sum(len(each.wrong) for each in scores.values())
            print(
                f"{sample.second:g} s: {sample.resident:,} bytes resident, {sample.index:,} "
                f"on disk, edits {vault.edits}, wrong {wrong}",
                flush=True,
            )

    with Crew() as crew:
        crew.start("edits", lambda due: vault.edit(), a_second(EDITS_AN_HOUR))
        for server, each in zip(servers, scores.values(), strict=True):
            crew.start(
                "questions",
                partial(ask, vault, server, each),
                a_second(QUESTIONS_AN_HOUR) / len(servers),
                ASKERS,
            )
        crew.watch(seconds, look, SAMPLE_SECONDS)
        return moments, crew.stop()


def judge_moments(moments: Sequence[Moment]) -> list[Verdict]:
    """Judge each process and each part of the index by itself: a small one that grows does not hide
    behind a large one.
    """
    samples, seconds = [each.sample for each in moments], [each.sample.second for each in moments]
    hour = 3600 / TIMES_AS_FAST
    series = {
        (name, measure): [float(getattr(each.taken[name], measure)) for each in samples]
        for name in samples[0].taken
        if all(name in each.taken for each in samples)
        for measure in MEASURES
    }
    for kind in sorted({kind for each in moments for kind in each.files}):
        series["index", kind] = [float(each.files.get(kind, 0)) for each in moments]
    series["servers", "what they say"] = [float(each.said) for each in moments]
    return [
        judge_same_processes(samples),
        *(judge_trend(*name, seconds, values, hour) for name, values in series.items()),
    ]


if __name__ == "__main__":
    sys.exit(main(run, __doc__, 60.0 * HOURS / TIMES_AS_FAST))
