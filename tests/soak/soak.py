"""Two servers on one vault that is edited all the time: nothing wrong, nothing lost, nothing that
grows.

`make soak` runs it for ten minutes (Linux): 20 edits a second, 8 questions a second. Two hours of a
busy vault's edits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from edited import KINDS, Vault, put
from ending import compare_with_fresh, settle
from judge import Verdict, conclude, distribution, judge_pace, judge_wrong
from load import Crew, Pace
from processes import Sample, elected, judge_processes, take_sample

from servers import ServerProcess, await_start
from thumbindex.serve.opening import Opening, open_library

EDITS_A_SECOND, QUESTIONS_A_SECOND = 20, 8

ASKERS = 4
"""Threads that ask one server: a slow answer keeps a quarter of its questions waiting, not all."""

SAMPLES = 80

LEVEL_FROM_SECONDS = 300.0
"""In a shorter run servers are still warming up in its second quarter: it shows whether the soak
works, not whether anything grows.
"""

LARGEST = 2.5
"""So many times the size of an index built anew one that was edited may have: vectors of texts that
may come back are kept, as many again.
"""

SETTLE_SECONDS = 900.0
"""Twice what vectors for all of a thousand notes take at half of a core, on a machine that does
other things too.
"""


@dataclass(slots=True)
class Scores:
    """What the questions to one server came to; several threads add to it."""

    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def ask(vault: Vault, server: ServerProcess, scores: Scores, due: float) -> None:
    """Ask one question and judge the answer; what it took counts from when it was due."""
    question = vault.question()
    fault = put(question, server)
    with scores.lock:
        scores.asked[question.kind] += 1
        scores.seconds.append(time.monotonic() - due)
        scores.wrong += [fault] if fault else []
    if fault:
        print(f"WRONG {fault}", flush=True)


def run(made: Path, minutes: float, notes: int, seed: int, settings: Sequence[str]) -> int:
    """Run the soak and print what was seen."""
    vault, opening = (
        Vault(made / "vault", notes, seed),
        Opening((str(made / "vault"),), made / "index", None, tuple(settings)),
    )
    with open_library(opening) as library:
        library.index()
    scores = {"server 1": Scores(), "server 2": Scores()}
    with ServerProcess(opening.arguments()) as first, ServerProcess(opening.arguments()) as second:
        servers = (first, second)
        for server in servers:
            await_start(server.call, vault.root)
        samples, paces = soak(vault, servers, scores, minutes * 60)
        print(f"index watched by {', '.join(map(str, sorted(elected(made / 'index'))))}")
        settled, is_settled = settle(first, SETTLE_SECONDS)
    compared = compare_with_fresh(opening, made / "fresh", LARGEST) if is_settled else []
    print(
        f"\n{vault.edits:,} edits in {minutes:g} minutes; figures count from the moment that "
        "a question was due"
    )
    for name, each in scores.items():
        print(f"{distribution(name, each.seconds)} {dict(each.asked)}")
    return conclude(
        [
            *judge_load(paces),
            *judge_answers(scores),
            *judge_processes(samples, minutes * 60 >= LEVEL_FROM_SECONDS),
            settled,
            *compared,
        ]
    )


def soak(
    vault: Vault, servers: Sequence[ServerProcess], scores: dict[str, Scores], seconds: float
) -> tuple[list[Sample], dict[str, Pace]]:
    """Edit and ask for so long; return what the processes took, and how edits and questions kept
    their pace.
    """
    began, samples = time.monotonic(), list[Sample]()

    def look() -> None:
        samples.append(take_sample(time.monotonic() - began, servers, vault.root.parent / "index"))
        counted = [
            f"asked {sum(each.asked.values())}, wrong {len(each.wrong)}" for each in scores.values()
        ]
        print(
            f"{samples[-1].second:g} s: {samples[-1].resident:,} bytes resident, edits "
            f"{vault.edits}, {'; '.join(counted)}",
            flush=True,
        )

    with Crew() as crew:
        crew.start("edits", lambda due: vault.edit(), EDITS_A_SECOND)
        for server, each in zip(servers, scores.values(), strict=True):
            crew.start(
                "questions",
                partial(ask, vault, server, each),
                QUESTIONS_A_SECOND / len(servers),
                ASKERS,
            )
        crew.watch(seconds, look, max(1.0, seconds / SAMPLES))
        return samples, crew.stop()


def judge_load(paces: dict[str, Pace]) -> list[Verdict]:
    """Judge whether there was the load that the run claims."""
    return [
        judge_pace("edits", EDITS_A_SECOND, paces["edits"]),
        judge_pace("questions", QUESTIONS_A_SECOND, paces["questions"]),
    ]


def judge_answers(scores: dict[str, Scores]) -> list[Verdict]:
    """Judge the answers of each server, and whether every kind of question was asked."""
    asked = sum((each.asked for each in scores.values()), Counter[str]())
    missing = [kind for kind in KINDS if not asked[kind]]
    kinds = Verdict(
        "every kind of question",
        not missing,
        f"{dict(asked)}{f', none of {missing}' if missing else ''}",
    )
    return [
        kinds,
        *(
            judge_wrong(sum(each.asked.values()), [f"{name}: {fault}" for fault in each.wrong])
            for name, each in scores.items()
        ),
    ]


def main(
    run: Callable[[Path, float, int, int, Sequence[str]], int], about: str | None, minutes: float
) -> int:
    """Read the options of a program, run it in a folder of its own, and return its exit code."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--notes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="thumbindex-soak-", ignore_cleanup_errors=True
    ) as folder:
        return run(Path(folder).resolve(), asked.minutes, asked.notes, asked.seed, asked.settings)


if __name__ == "__main__":
    sys.exit(main(run, __doc__, 10))
