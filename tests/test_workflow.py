"""The GitHub workflow runs the steps of `.ci/run` on the supported Pythons, with minimal rights."""

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


def test_workflow_runs_the_steps_of_ci():
    steps = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    assert [step["run"] for step in JOB["steps"] if "run" in step] == steps


def test_workflow_runs_the_oldest_and_newest_python_on_three_systems():
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert JOB["strategy"]["matrix"] == {
        "system": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": [versions[0], versions[-1]],
    }


def test_workflow_has_read_rights_only_and_pins_its_actions():
    assert (yaml.safe_load(TEXT)["permissions"], JOB["permissions"]) == ({}, {"contents": "read"})
    actions = [step["uses"] for step in JOB["steps"] if "uses" in step]
    assert [use for use in actions if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", use)] == []
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
