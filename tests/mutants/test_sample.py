"""Which faults are tried is said by the seed alone, and each part has its share."""

import json
from collections import Counter
from pathlib import Path

from mutants.run import (
    BATCH,
    PARTS,
    PROCESSES,
    ask_processes,
    clear,
    not_noticed,
    part_of,
    sample,
    verdict,
)

NAMES = dict.fromkeys(
    f"thumbindex.{part.replace('/', '.')}.x_{number}"
    for part in PARTS
    for number in range(BATCH * 2)
)


def test_one_seed_tries_the_same_faults_and_another_seed_others():
    first, again, other = (list(sample(NAMES, seed, ["query", "index"])) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]


def test_each_round_tries_equally_many_of_each_part_and_none_twice():
    rounds = list(sample(NAMES, 1, list(PARTS)))
    assert [Counter(map(part_of, names)) for names in rounds] == [dict.fromkeys(PARTS, BATCH)] * 2
    assert sorted(name for names in rounds for name in names) == sorted(NAMES)


def test_a_part_that_was_not_asked_for_is_left_alone():
    assert {part_of(name) for names in sample(NAMES, 1, ["index"]) for name in names} == {"index"}


def test_a_run_below_the_aim_or_without_a_fault_fails():
    ended = {f"{n}": n < 85 for n in range(100)}  # 1: noticed
    assert [verdict(ended, tried) for tried in (list(ended), list(ended)[1:], [])] == [0, 1, 3]


def test_what_an_earlier_run_noticed_is_not_tried_again():
    assert not_noticed(["a", "b", "c"], {"a": 1, "b": 0, "c": None}) == ["b", "c"]


def test_what_git_no_longer_has_is_taken_away_and_what_mutmut_keeps_stays(tmp_path: Path):
    kept = [
        "src/a.py",
        "mutants/src/a.py",
        "mutants/src/a.py.meta",
        "mutants/stats.json",
        "mutmut.log",
    ]
    for name in [*kept, "src/gone.py", "mutants/src/gone.py", "mutants/src/gone.py.meta"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    clear(tmp_path, {"src/a.py", "README.md"})
    assert sorted(
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    ) == sorted(kept)


def test_what_only_a_process_runs_is_asked_of_the_tests_that_start_one(tmp_path: Path):
    stats, started = tmp_path / "stats.json", f"{PROCESSES}::test_it_starts"
    went = {"thumbindex.serve.http.limits.x_gate": ["tests/serve/http/test_gate.py::test_gate"]}
    stats.write_text(
        json.dumps(
            {
                "tests_by_mangled_function_name": went,
                "duration_by_test": {started: 1.0, "tests/index/test_x.py::test_x": 1.0},
            }
        )
    )
    names = ["serve.http.app.x_serve", "serve.http.limits.x_gate", "index.store.x_open"]
    ask_processes(stats, [f"thumbindex.{name}__mutmut_1" for name in names])
    assert json.loads(stats.read_text())["tests_by_mangled_function_name"] == {
        **went,
        "thumbindex.serve.http.app.x_serve": [started],
    }
