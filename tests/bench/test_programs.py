"""Smoke tests of `make soak`, `make bench` and `make compare`, and of the soak's model."""

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
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["ablate.py", "soak.py", "run.py", "compare.py", "../fuzz/run.py"]
)
def test_program_prints_its_help(program: str):
    assert "--help" in run(program, "--help")


@linux
@pytest.mark.long
def test_small_soak_passes():
    output = run("soak.py", "--steps", "15", "--burst", "20")
    assert "PASSED: equal to a fresh build" in output
    assert "in the burst" in output


@linux
@pytest.mark.long
def test_soak_fails_on_a_note_missing_from_its_model(tmp_path: Path):
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
def test_model_ignores_the_same_paths_as_git(rules: tuple[str, ...], tmp_path: Path):
    notes = {path: Note("") for path in PATHS}
    expected = Expected(notes, {".gitignore": rules[:1], "a/.gitignore": rules[1:]})
    for path, lines in expected.rules.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    command = ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"]
    paths = "\0".join(PATHS).encode()
    output = subprocess.run(command, input=paths, capture_output=True, check=False).stdout.decode()
    ignored = {path for path in PATHS if expected.is_ignored(path)}
    assert ignored == set(filter(None, output.split("\0")))


def test_model_hides_notes_by_mark_and_by_glob_in_any_case():
    expected = Expected(
        {"c/D/Two.md": Note(""), "A/one.md": Note(""), "b/one.md": Note("", is_private=True)},
        globs=("two.md",),
    )
    assert list(expected.visible()) == ["A/one.md"]


@pytest.mark.long
def test_small_benchmark_is_saved_and_compared_with_itself(tmp_path: Path):
    record = tmp_path / "before.json"
    small = ("--made", "3", "--rounds", "1", "--words-only")
    run("run.py", "index", "disk", "start", *small, "--json", str(record))
    run("run.py", "query", "freshness", *small)  # builds the index without measuring it
    output = run("run.py", "index", *small, "--compare", str(record))
    assert "+0%" in next(line for line in output.splitlines() if "documents" in line)


def test_benchmark_table_shows_medians_ranges_and_changes():
    rows = [Row("query", "p50", "ms", [10.0, 30.0, 20.0]), Row("disk", "index", "MB", [2.5])]
    lines = [line.split() for line in bench_table(rows, {("query", "p50"): [10.0]})]
    assert lines[1:] == [
        ["query", "p50", "20", "10", "30", "ms", "10", "+100%"],
        ["disk", "index", "2.5", "MB"],
    ]


FAKE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "fake", "version": "1"}
        answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif request["method"] == "tools/list":
        answer = {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]}
    elif "fail" in sys.argv:
        answer = {"content": [{"type": "text", "text": "no such table"}], "isError": True}
    else:
        words = request["params"]["arguments"]["query"].split()
        results = [{"path": f"{word}.md"} for word in words if word in ("apples", "boats")]
        text = json.dumps({"results": results})
        answer = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)
"""


@linux
def test_tool_is_measured_and_a_failing_one_is_reported_with_a_reason(tmp_path: Path):
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

    record = measure(fake(), place, questions)
    assert {name: record[name] for name in ("typed", "reworded", "names", "no result")} == {
        "typed": [1.0, 0.0],
        "reworded": {"as one text": [1.0, 1.0], "one by one": [1.0, 1.0]},
        "names": [1.0],
        "no result": 1,
    }
    failed = measure(fake("fail"), place, questions)
    assert failed["failed"] == "it answers with an error: no such table"
    assert len(list(table([record, failed]))) == 4
    json.dumps(record)
