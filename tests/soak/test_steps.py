"""Two hundred steps on folders and their indexes, always the same ones (`make soak-model` takes ten
thousand others); and the model can say no.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from actors import Actors, open_library
from expected import Expected, Note
from steps import PATHS, RULES, VaultMachine, end_actors, steps_in, take_steps, write_script

forks = pytest.mark.skipif(
    sys.platform != "linux",
    reason="forks a process that has everything imported, and kills the forks",
)


@forks
def test_whatever_steps_are_taken_the_model_holds():
    VaultMachine.taken.clear()
    take_steps(200)
    assert VaultMachine.taken.total() >= 200


@forks
def test_a_process_dies_just_before_the_change_that_is_asked_for(tmp_path: Path):
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/one.md").write_text("# Apples\n", encoding="utf-8")
    actors = Actors(tmp_path)
    told = [
        actors.start("index", tmp_path / "vault", tmp_path / "index", (), dies_at).outcome()
        for dies_at in (1, 0)
    ]
    actors.close()
    with open_library(tmp_path / "vault", tmp_path / "index") as library:
        assert (told, [entry.path for entry in library.outline()]) == (
            ["killed", "done"],
            ["one.md"],
        )


@pytest.mark.parametrize(
    "rules", [(RULES[n], RULES[m]) for n in range(len(RULES)) for m in range(n)], ids=" ".join
)
def test_the_model_leaves_out_what_git_leaves_out(rules: tuple[str, str], tmp_path: Path):
    expected = Expected(
        {path: Note("") for path in PATHS}, {".gitignore": rules[:1], "a/.gitignore": rules[1:]}
    )
    for path, written in expected.rules.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("\n".join(written), encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    asked = ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"]
    told = subprocess.run(
        asked, input="\0".join(PATHS), capture_output=True, text=True, encoding="utf-8", check=False
    ).stdout
    assert {path for path in PATHS if expected.is_left_out(path)} == set(
        filter(None, told.split("\0"))
    )


def test_a_glob_makes_private_whatever_the_case_and_a_mark_does():
    expected = Expected(
        {"c/D/Two.md": Note(""), "A/one.md": Note(""), "b/one.md": Note("", is_private=True)},
        globs=("two.md",),
    )
    assert list(expected.visible()) == ["A/one.md"]


def test_steps_that_failed_are_a_plain_script(tmp_path: Path):
    error = AssertionError("listed though private")
    error.add_note(
        "Falsifying example:\nstate = VaultMachine()\n"
        "state.write(mark='', path='one.md', shape=0)\nstate.teardown()"
    )
    write_script(tmp_path / "failed.py", steps_in(error))
    script = (tmp_path / "failed.py").read_text(encoding="utf-8")
    compile(script, "failed.py", "exec")
    assert script.splitlines()[-3:] == [
        "state = VaultMachine()",
        "state.write(mark='', path='one.md', shape=0)",
        "state.teardown()",
    ]


@forks
def test_a_note_that_the_model_does_not_know_is_told_of():
    machine = VaultMachine()
    (machine.root / "stray.md").write_text("# Stray\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"stray\.md"):
        machine.teardown()
    end_actors()
