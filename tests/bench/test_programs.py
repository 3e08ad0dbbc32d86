"""Small runs of `make soak`, `make bench` and `make compare`, so that they do not rot; and the
model of the soak can say no.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from bench.compare import Place, Questions, Tool, measure, read_json, table, text_and_limit
from bench.expected import Expected, Note
from bench.run import Row
from bench.run import table as bench_table
from bench.soak import PATHS, RULES, Soak
from thumbindex.evaluation.queries import Label, LabeledQuery

HERE = Path(__file__).parent

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def run(program: str, *options: str) -> str:
    command = [sys.executable, str(HERE / program), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["ablate.py", "soak.py", "run.py", "compare.py", "../fuzz/run.py"]
)
def test_each_program_starts_and_lists_its_options(program: str):
    assert "--help" in run(program, "--help")


@linux
@pytest.mark.long
def test_a_small_soak_ends_with_an_index_equal_to_a_fresh_build():
    said = run("soak.py", "--steps", "15", "--burst", "20")
    assert ("HELD: equal to a fresh build" in said, "in the burst" in said) == (True, True)


@linux
@pytest.mark.long
def test_a_note_that_the_model_of_the_soak_does_not_know_is_told_of(tmp_path: Path):
    soak = Soak(tmp_path, 1, ())
    try:
        soak.start()
        soak.settle()
        (soak.root / "stray.md").write_text("# Stray\n", encoding="utf-8")
        with pytest.raises(AssertionError, match=r"stray\.md"):
            soak.settle()
    finally:
        soak.close()


@pytest.mark.parametrize(
    "rules",
    [("*.md", "!Two.md"), ("b/", "!b/"), ("/a/", "vier*"), ("one.md", "/c/D/"), RULES[4:]],
    ids=" ".join,
)
def test_the_model_leaves_out_what_git_leaves_out(rules: tuple[str, ...], tmp_path: Path):
    notes = {path: Note("") for path in PATHS}
    expected = Expected(notes, {".gitignore": rules[:1], "a/.gitignore": rules[1:]})
    for path, written in expected.rules.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("\n".join(written), encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ask = ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"]
    listed = "\0".join(PATHS).encode()
    told = subprocess.run(ask, input=listed, capture_output=True, check=False).stdout.decode()
    left_out = {path for path in PATHS if expected.is_left_out(path)}
    assert left_out == set(filter(None, told.split("\0")))


def test_a_glob_makes_private_whatever_the_case_and_a_mark_does():
    expected = Expected(
        {"c/D/Two.md": Note(""), "A/one.md": Note(""), "b/one.md": Note("", is_private=True)},
        globs=("two.md",),
    )
    assert list(expected.visible()) == ["A/one.md"]


@pytest.mark.long
def test_a_small_benchmark_is_written_and_compared_with_itself(tmp_path: Path):
    kept = tmp_path / "before.json"
    small = ("--made", "3", "--rounds", "1", "--words-only")
    run("run.py", "index", "disk", "start", *small, "--json", str(kept))
    run("run.py", "query", "freshness", *small)  # makes the index unmeasured
    said = run("run.py", "index", *small, "--compare", str(kept))
    assert "+0%" in next(line for line in said.splitlines() if "documents" in line)


def test_a_table_of_figures_shows_medians_ranges_and_the_change_since_an_earlier_run():
    rows = [Row("query", "p50", "ms", [10.0, 30.0, 20.0]), Row("disk", "index", "MB", [2.5])]
    lines = [line.split() for line in bench_table(rows, {("query", "p50"): [10.0]})]
    assert lines[1:] == [
        ["query", "p50", "20", "10", "30", "ms", "10", "+100%"],
        ["disk", "index", "2.5", "MB"],
    ]


FAKE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "fake", "version": "1"}
        answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        answer = {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}
    elif "fail" in sys.argv:
        answer = {"content": [{"type": "text", "text": "no such table"}], "isError": True}
    else:
        words = asked["params"]["arguments"]["query"].split()
        found = [{"path": f"{word}.md"} for word in words if word in ("apples", "boats")]
        text = json.dumps({"results": found})
        answer = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@linux
def test_another_tool_is_asked_and_one_that_fails_is_given_up_with_a_reason(tmp_path: Path):
    apples = LabeledQuery("q1", "apples", "keyword", (Label("apples.md", None, 2),))
    label = (Label("boats.md", None, 2),)
    boats = LabeledQuery("q2", "what is tarred", "question", label, also=("boats",))
    questions = Questions([apples, boats.as_typed], [apples, boats], [apples])
    place = Place(tmp_path / "programs", tmp_path / "notes", tmp_path / "home")

    def fake(*options: str) -> Tool:
        return Tool(
            "fake",
            (),
            lambda place: (sys.executable, "-c", FAKE, *options),
            "search",
            text_and_limit("query", "limit"),
            partial(read_json, "results", "path"),
        )

    report_json = measure(fake(), place, questions)
    kept = {name: report_json[name] for name in ("typed", "reworded", "names", "nothing")}
    assert kept == {
        "typed": [1.0, 0.0],
        "reworded": {"as one text": [1.0, 1.0], "one by one": [1.0, 1.0]},
        "names": [1.0],
        "nothing": 1,
    }
    failed = measure(fake("fail"), place, questions)
    assert failed["given up"] == "it answers with an error: no such table"
    assert len(list(table([report_json, failed]))) == 4
    json.dumps(report_json)
