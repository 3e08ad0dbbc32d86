"""The workflow for a public host does what `.ci/run` does, on what pyproject.toml names, and may do
nothing else.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
JOB = yaml.safe_load(TEXT)["jobs"]["ci"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_runs_what_ci_runs():
    steps = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    assert [step["run"] for step in JOB["steps"] if "run" in step] == steps


def test_it_tries_the_first_and_the_last_python_that_are_named_on_three_systems():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert JOB["strategy"]["matrix"] == {
        "system": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": [named[0], named[-1]],
    }


def test_it_may_only_read_and_runs_no_program_that_can_change_under_its_name():
    assert (yaml.safe_load(TEXT)["permissions"], JOB["permissions"]) == ({}, {"contents": "read"})
    used = [step["uses"] for step in JOB["steps"] if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each)] == []
    assert JOB["steps"][0]["with"] == {"persist-credentials": False}
    assert re.findall(r"secrets|id-token|upload|publish(?!ed)|pull_request_target", TEXT) == []


@pytest.mark.parametrize(
    ("subject", "is_refused"),
    [
        ("Add a test", False),
        ("A" * 72, False),
        ("A" * 73, True),
        ("add a test", True),
        ("Add a test.", True),
    ],
)
def test_lint_refuses_a_commit_subject(subject: str, is_refused: bool, tmp_path: Path) -> None:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(
        ["git", *author, "commit", "--quiet", "--allow-empty", "--message", subject],
        cwd=tmp_path,
        check=True,
    )
    run = subprocess.run(
        ["make", "--file", ROOT / "Makefile", "subjects"], cwd=tmp_path, capture_output=True
    )
    assert bool(run.returncode) is is_refused
