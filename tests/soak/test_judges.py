"""The judges of the soak and of the storm can say no: each is shown a run that is as it should be,
and one that is not.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from edited import (
    SETTLED_SECONDS,
    Vault,
    is_among,
    is_first,
    is_listed,
    is_nowhere,
    is_plausible,
    is_read,
    put,
)
from ending import differences, judge_differences, judge_size
from heard import judge_queue
from judge import LEVEL, Verdict, conclude, judge_level, judge_pace, judge_wrong, quantile, slope
from load import NOTHING_DUE, Clock, Crew, Pace, paced
from marathon import LevelVault, weigh
from processes import Sample, Taken, judge_processes, judge_same_processes, take
from storm import Phase, find_fault, judge_arrival, judge_memory, judge_phases
from trend import judge_trend

from soak import Scores, judge_answers
from thumbindex.errors import ThumbindexError

MB = 2**20


def found(*texts: tuple[str, str]) -> dict:
    return {"results": [{"path": path, "text": text} for path, text in texts]}


def listed(*paths: str) -> dict:
    return {"entries": [{"path": path} for path in paths]}


def status(documents: int, *notes: str, vectors: int = 5, skipped: str = "") -> dict:
    index = {"documents": documents, "chunks": 5, "vectors": vectors, "pending": 0}
    return {
        "folders": [
            {"index": index, "indexed": True, "skipped": [{"path": skipped}] if skipped else []}
        ],
        "notes": list(notes),
    }


def samples(*resident: int, pid: int = 7) -> list[Sample]:
    return [
        Sample(n, {"server 1": Taken(1, 900 * MB, 9, 9), "child 1": Taken(pid, each, 9, 9)}, MB)
        for n, each in enumerate(resident)
    ]


# ------------------------------------------------------------------ pace


class Slept(Clock):
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def test_work_that_keeps_up_is_all_done():
    pace = paced(lambda due: None, 50, lambda: 0.3, 0.0, Slept())
    assert (pace.done, pace.undone) == (15, ())


def test_work_that_is_too_slow_shows_what_was_never_begun_and_how_long_it_had_waited():
    clock = Slept()
    pace = paced(lambda due: clock.sleep(0.25), 20, lambda: 0.5, 0.0, clock)
    assert (pace.done, len(pace.undone), pace.undone[-1]) == (2, 8, pytest.approx(0.05))
    assert judge_pace("work", 20, pace).held is False


def test_after_a_stall_all_that_was_due_meanwhile_is_done_and_counts_from_when_it_was_due():
    clock, late = Slept(), list[float]()

    def work(due: float) -> None:
        clock.sleep(0.25 if not late else 0)
        late.append(clock.now() - due)

    assert paced(work, 20, lambda: 0.5, 0.0, clock).undone == ()
    assert late == pytest.approx([0.25, 0.2, 0.15, 0.1, 0.05, 0, 0, 0, 0, 0], abs=1e-6)


@pytest.mark.parametrize(("done", "held"), [(95, True), (94, False)])
def test_less_than_95_in_100_of_the_load_fails(done, held):
    assert judge_pace("edits", 20, Pace(done, (0.0,) * (100 - done), 0.0)).held is held


def test_a_load_that_never_was_fails():
    assert judge_pace("edits", 20, NOTHING_DUE).held is False


def test_what_goes_wrong_in_a_thread_ends_the_run():
    with Crew() as crew:
        crew.start("edits", broken, 100)
        crew.start("questions", lambda due: None, 100, threads=2)
        with pytest.raises(OSError, match="disk"):
            crew.watch(10, lambda: None, 0.05)


def test_what_went_wrong_in_a_thread_at_the_last_moment_is_raised_too():
    with Crew() as crew:
        crew.start("edits", broken, 100)
        time.sleep(0.1)
        with pytest.raises(OSError, match="disk"):
            crew.stop()


def broken(due: float) -> None:
    raise OSError("the disk is full")


def test_a_crew_shares_a_pace_out_among_its_threads():
    done = threading.Semaphore(0)
    with Crew() as crew:
        crew.start("questions", lambda due: done.release(), 100, threads=4)
        time.sleep(0.3)
        pace = crew.stop()["questions"]
    assert 25 <= pace.done <= 35


# ------------------------------------------------------------------ growth


@pytest.mark.parametrize("measure", LEVEL)
def test_what_stays_level_holds_and_what_grows_fails(measure):
    level, growing = [500 * MB] * 80, [500 * MB + n * 5 * MB for n in range(80)]
    assert [judge_level("child 1", measure, each).held for each in (level, growing)] == [
        True,
        False,
    ]


def test_one_outlier_is_no_growth():
    assert judge_level("child 1", "resident", [500 * MB] * 79 + [5000 * MB]).held is True


def test_a_short_run_says_nothing_about_growth():
    assert judge_level("child 1", "handles", [1, 1000, 1, 1000], long_enough=False).held is None


def test_a_small_process_that_grows_does_not_hide_behind_a_large_one():
    verdicts = {
        each.what: each.held
        for each in judge_processes(samples(*(100 * MB + n * MB for n in range(40))), True)
    }
    assert verdicts.pop("child 1 levels off in resident") is False
    assert set(verdicts.values()) == {True}


def test_a_process_that_was_started_anew_fails():
    assert judge_same_processes(samples(MB, MB)).held is True
    assert judge_same_processes(samples(MB) + samples(MB, pid=8)).held is False


def test_the_slope_of_a_line_is_its_rise():
    assert slope([1, 3, 5, 700, 9]) == 2.0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_process_is_measured_while_it_lives():
    taken = take(os.getpid())
    assert taken is not None
    assert taken.resident > 10 * MB
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert take(process.pid) is None


# ------------------------------------------------------------------ trends


SECONDS = [5.0 * n for n in range(180)]


def noisy(slope: float, seed: int = 1, noise: float = 5 * MB) -> list[float]:
    """Return 500 MB and more, a slope a second and noise in which neighbors are alike, as of logs
    that fill.
    """
    chance, left, values = random.Random(seed), 0.0, []
    for second in SECONDS:
        left = 0.8 * left + chance.gauss(0, noise)
        values.append(500 * MB + slope * second + left)
    return values


def saw(slope: float) -> list[float]:
    return [500 * MB + 4 * MB * (n % 9) + slope * second for n, second in enumerate(SECONDS)]


def test_a_slope_that_noise_explains_holds_in_nearly_all_runs():
    assert (
        sum(
            judge_trend("child", "resident", SECONDS, noisy(0.0, seed)).held is False
            for seed in range(40)
        )
        <= 4
    )


@pytest.mark.parametrize(
    "values",
    [noisy(0.5 * MB), saw(0.5 * MB), [7.0 + n // 10 for n in range(180)]],
    ids=["noise", "saw", "steps"],
)
def test_what_grows_fails_however_it_jumps_about(values):
    assert judge_trend("child", "resident", SECONDS, values).held is False


@pytest.mark.parametrize(
    "values",
    [saw(0.0), [7.0] * 180, noisy(-0.1 * MB), [7.0] * 178 + [900.0] * 2],
    ids=["saw", "constant", "falls", "outlier"],
)
def test_what_stays_or_falls_holds(values):
    assert judge_trend("child", "resident", SECONDS, values).held is True


def test_growth_in_the_first_half_is_warming_up():
    assert (
        judge_trend("child", "resident", SECONDS, [MB * min(n, 90) for n in range(180)]).held
        is True
    )


def test_noise_that_could_hide_a_growth_and_a_run_too_short_say_nothing():
    assert judge_trend("child", "resident", SECONDS, noisy(0.0, 2, 100 * MB)).held is None
    assert judge_trend("child", "resident", SECONDS[:40], [7.0] * 40).held is None


def test_the_parts_of_an_index_are_weighed_apart(tmp_path):
    sizes = {
        "notes-1/1/index.sqlite3": 5,
        "notes-1/1/index.sqlite3-wal": 4,
        "notes-1/1/keyword/a.seg": 3,
        "vectors/m.sqlite3": 2,
        "notes-1/growth.jsonl": 1,
    }
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert weigh(tmp_path) == {
        "documents": 5,
        "documents, log": 4,
        "words": 3,
        "vectors": 2,
        "the rest": 1,
    }


def test_a_vault_of_a_marathon_stays_as_large_as_it_is(tmp_path):
    vault = LevelVault(tmp_path, 15, 1)
    counts = [vault.edit() or len(vault.notes) for _ in range(300)]
    assert (min(counts) >= 5, max(counts) <= 25, vault.edits) == (True, True, 300)


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        (is_first("a.md"), found(("a.md", ""), ("b.md", "")), found(("b.md", ""), ("a.md", ""))),
        (is_first("a.md"), found(("a.md", "")), found()),
        (is_among("a.md"), found(("b.md", ""), ("a.md", "")), found(("b.md", ""))),
        (
            is_nowhere("mark7"),
            found(("a.md", "Here stands mark71.")),
            found(("a.md", "Here stands mark7.")),
        ),
        (
            is_listed({"a.md", "b.md"}, lambda: {"b.md", "c.md"}),
            listed("a.md", "c.md"),
            listed("b.md", "c.md"),
        ),
        (is_listed({"a.md"}, lambda: ()), listed("a.md"), listed("a.md", "c.md")),
        (
            is_read("a.md", "mark7"),
            {"path": "a.md", "text": "Here stands mark7."},
            {"path": "a.md", "text": "Here stands mark6."},
        ),
        (
            is_plausible(5, 7, {"gone.md"}),
            status(5, skipped="gone.md"),
            status(5, skipped="here.md"),
        ),
        (is_plausible(5, 7), status(7), status(8)),
        (is_plausible(5, 7), status(5), status(4)),
        (is_plausible(5, 7), status(5), status(5, "Indexing stopped")),
        (is_plausible(5, 7), status(5), status(5, vectors=4)),
    ],
)
def test_a_judge_of_answers_knows_a_right_one_from_a_wrong_one(judge, right, wrong):
    assert judge(right) == ""
    assert judge(wrong) != ""


class Server:
    """Answers whatever it is told to."""

    def __init__(self, answer):
        self.answer = answer

    def call(self, tool, **arguments):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def vault(tmp_path):
    vault = Vault(tmp_path, 5, 1)
    for _ in range(30):
        vault.edit()
    for note in vault.notes:
        note.since = note.there = time.monotonic() - 60
    vault.departed.clear()
    return vault


def test_every_edit_leaves_the_vault_as_it_is_remembered(vault):
    assert all(f" {note.mark}." in note.path.read_text() for note in vault.notes if note.mark)
    # the note that shows the start is the server's
    assert len(list(vault.root.rglob("*.md"))) == len(vault.notes) + vault.untouched - 1


@pytest.mark.parametrize("kind", ["anchor", "current", "meaning"])
def test_an_empty_or_failing_answer_is_wrong(vault, kind):
    question = vault.question(kind)
    assert question.kind == kind
    assert put(question, Server(found())).startswith(f"{kind}: ")
    assert put(question, Server(ThumbindexError("no"))) == f"{kind} failed: no"


@pytest.mark.parametrize("kind", ["current", "read"])
def test_a_question_that_an_edit_overtook_is_not_judged(vault, kind):
    question = vault.question(kind)
    wrong = found() if kind == "current" else ThumbindexError("No document")
    assert put(question, Server(wrong)) != ""
    while vault.notes:
        vault._delete(0)
    assert put(question, Server(wrong)) == ""


@pytest.mark.parametrize(
    ("edit", "fewer", "more"), [("_add", 0, 1), ("_delete", 1, 1), ("_rename", 1, 1)]
)
def test_a_status_may_miss_what_came_just_now_and_show_what_has_just_gone(vault, edit, fewer, more):
    before = len(vault.notes) + vault.untouched
    getattr(vault, edit)(0)
    least, most = before - fewer, before - (edit == "_delete") + more
    question = vault.question("status")
    assert [put(question, Server(status(n))) for n in range(least, most + 1)] == [""] * (
        most + 1 - least
    )
    assert all("documents where" in put(question, Server(status(n))) for n in (least - 1, most + 1))


def test_a_status_may_not_be_more_than_ten_seconds_behind(vault):
    vault._add(0)
    vault._delete(0)
    vault.notes[-1].there -= SETTLED_SECONDS + 1
    vault.departed[-1] = (vault.departed[-1][0], vault.departed[-1][1] - SETTLED_SECONDS - 1)
    question, there = vault.question("status"), len(vault.notes) + vault.untouched
    assert put(question, Server(status(there))) == ""
    assert all(
        "documents where" in put(question, Server(status(n))) for n in (there - 1, there + 1)
    )


def test_a_list_that_is_twelve_seconds_behind_is_wrong_and_one_that_is_nine_behind_is_not(tmp_path):
    clock = Slept()
    vault, states = Vault(tmp_path, 100, 1, clock.now), list[tuple[float, list[str]]]()
    for _ in range(1000):  # the pace of the soak
        vault.edit()
        clock.sleep(0.05)
        states.append(
            (clock.now(), [note.path.relative_to(tmp_path).as_posix() for note in vault.notes])
        )

    def as_of(seconds: float) -> str:
        known = next(paths for at, paths in reversed(states) if at <= clock.now() - seconds)
        question = vault.question("listed")
        named = question.arguments["path"].removeprefix("**/")
        return put(
            question,
            Server(listed(*(path for path in known if fnmatchcase(Path(path).name, named)))),
        )

    assert as_of(9) == as_of(0) == ""
    assert all("are missing" in as_of(seconds) for seconds in (12, 15, 40))


def test_a_note_that_has_just_gone_may_be_said_to_be_unreadable_and_one_that_went_long_ago_may_not(
    vault,
):
    gone = vault.notes[0].path.relative_to(vault.root).as_posix()
    vault._delete(0)
    complaint = status(vault._counted(time.monotonic())[0], skipped=gone)
    question = vault.question("status")
    assert put(question, Server(complaint)) == ""
    vault.departed[-1] = (gone, time.monotonic() - 60)
    assert "complains" in put(vault.question("status"), Server(complaint))


def test_a_kind_of_question_that_was_never_asked_fails():
    verdicts = judge_answers({"server 1": Scores(), "server 2": Scores()})
    assert [each.held for each in verdicts] == [False, False, False]


def test_one_wrong_answer_fails():
    assert (judge_wrong(9, []).held, judge_wrong(9, ["a"]).held, judge_wrong(0, []).held) == (
        True,
        False,
        False,
    )


# ------------------------------------------------------------------ the storm


def phases(rest: float, storm: float, undone: tuple[float, ...] = ()) -> list[Phase]:
    made = [
        Phase(name, frozenset(), [seconds] * 100)
        for name, seconds in (("rest", rest), ("storm", storm), ("filling in", rest))
    ]
    for each in made:
        each.pace = Pace(100, undone if each.name == "storm" else (), 0.0)
    return made


@pytest.mark.parametrize(
    ("storm", "undone", "held"), [(0.29, (), True), (0.31, (), False), (0.1, (9.0,) * 6, False)]
)
def test_questions_may_take_three_times_as_long_in_a_storm_and_those_never_asked_count(
    storm, undone, held
):
    assert {each.what: each.held for each in judge_phases(phases(0.1, storm, undone))}[
        "p95 in the storm"
    ] is held


def test_nothing_asked_at_rest_is_no_measure():
    empty = phases(0.1, 0.1)
    empty[0].seconds.clear()
    assert {each.what: each.held for each in judge_phases(empty)}["p95 in the storm"] is False


def test_a_note_must_come_first_with_a_text_that_is_right_in_this_phase():
    answer = found(("a.md", "Here stands notemark7 before."))
    assert find_fault(answer, "a.md", {"notemark7 before.", "notemark7 after."}) == ""
    assert find_fault(answer, "a.md", {"notemark7 after."}) != ""
    assert find_fault(answer, "b.md", {"notemark7 before."}) != ""
    assert find_fault(found(), "a.md", {"notemark7 before."}) != ""


def test_memory_in_a_storm_is_held_against_memory_at_rest():
    rest = samples(100 * MB, 100 * MB)
    assert all(each.held for each in judge_memory({"rest": rest, "storm": samples(500 * MB)}))
    assert [each.held for each in judge_memory({"rest": rest, "storm": samples(5000 * MB)})] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("counted", "held"),
    [((40, 0, 1), True), ((50_000, 0, 1), False), ((40, 9, 1), False), ((0, 0, 0), False)],
)
def test_a_queue_that_fills_or_that_hears_nothing_fails(counted, held):
    assert judge_queue(counted).held is held


def test_a_storm_that_never_ends_fails():
    assert (judge_arrival(30.0).held, judge_arrival(math.inf).held) == (True, False)


# ------------------------------------------------------------------ the end


def test_two_dumps_that_differ_say_where():
    grown, built = {"links": ["a"], "chunks": ["b", "c"]}, {"links": ["a"], "chunks": ["b", "d"]}
    assert differences(grown, dict(grown)) == []
    assert differences(grown, built) == ["chunks: 2 rows for 2, first 'c' for 'd'"]
    assert judge_differences(differences(grown, built)).held is False


def test_an_index_may_be_twice_as_large_as_one_built_anew():
    assert (judge_size(200, 100, 2.0).held, judge_size(201, 100, 2.0).held) == (True, False)


def test_a_run_fails_by_one_failure_and_says_what_was_not_judged(capsys):
    held, open_, failed = Verdict("a", True, "1"), Verdict("b", None, "2"), Verdict("c", False, "3")
    assert [conclude(each) for each in ([held], [held, open_], [], [held, open_, failed])] == [
        0,
        3,
        3,
        1,
    ]
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: 1 of 3 failed, 1 not judged"


def test_a_quantile_is_a_value_that_was_measured():
    assert (quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0], 0.95), quantile([], 0.95)) == (
        2.0,
        1.0,
        math.inf,
    )
