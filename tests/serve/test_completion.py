"""`thumbindex completion`: what a shell offers for what was typed so far, without starting
Python.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from notes import write
from thumbindex.serve.cli import app
from thumbindex.serve.completion import completed

BASH = shutil.which("bash")

ASK = """source script
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_thumbindex
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(shell: str, tmp_path: Path) -> str:
    write(
        tmp_path / "own.toml",
        f'[folders]\nhandbook = {json.dumps(str(tmp_path))}\n"$(rm -rf)" = "/x"\n',
    )
    result = CliRunner().invoke(
        app, ["completion", shell, "--config", str(tmp_path / "own.toml")], prog_name="thumbindex"
    )
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("du", ["duplicates"]),
        ("duplicates re", ["review"]),
        ("install curs", ["cursor"]),
        ("index --folder hand", ["handbook", "hand made"]),
        ("index --config ", [""]),
        ("query tea", [""]),
    ],
)
def test_bash_offers_commands_options_values_and_folders(
    tmp_path: Path, typed: str, offered: list[str]
) -> None:
    write(tmp_path / "script", printed("bash", tmp_path))
    (tmp_path / "hand made").mkdir()
    words = ["thumbindex", *typed.split(" ")]
    done = subprocess.run(
        [str(BASH), "--norc", "-c", ASK, "bash", *words],
        cwd=tmp_path,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.rstrip("\n").split("\n"), done.stderr) == (offered, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_each_script_knows_every_command_and_option_and_no_name_that_a_shell_would_run(
    tmp_path: Path, shell: str
) -> None:
    script = printed(shell, tmp_path)
    for each in completed(get_command(app)):
        for option in each.options:
            assert (
                f"-l {option[2:]}"
                if shell == "fish" and option.startswith("--")
                else option.replace("-h", "h")
            ) in script.replace("-h", "h")
        assert all(word in script for word in each.words)
    assert ("handbook" in script, "rm -rf" in script) == (True, False)
    assert f"`thumbindex completion {shell} >" in script.splitlines()[0]


def test_an_unknown_shell_is_refused_with_those_that_are_known() -> None:
    result = CliRunner().invoke(app, ["completion", "tcsh"])
    assert (result.exit_code, result.stderr) == (
        2,
        "There is no completion for 'tcsh': name one of bash, zsh, fish, powershell.\n",
    )
