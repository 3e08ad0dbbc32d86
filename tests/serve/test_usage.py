"""What the command line says of itself: help with examples, and wrong use in one line."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from thumbindex.serve.cli import app
from thumbindex.serve.server import server_app
from thumbindex.serve.usage import examples_of

ROOT: Any = get_command(app)


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the names that lead to each command, none for the program itself."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), ROOT)]
    while waiting:
        path, command = waiting.pop(0)
        yield path
        waiting += [
            ((*path, name), each) for name, each in getattr(command, "commands", {}).items()
        ]


def at(path: tuple[str, ...]) -> Any:
    found = ROOT
    for name in path:
        found = found.commands[name]
    return found


def read(arguments: list[str]) -> None:
    """Read a command line as the program does, without running it."""
    command, ctx = ROOT, ROOT.make_context("thumbindex", list(arguments))
    while rest := [*ctx._protected_args, *ctx.args] if hasattr(command, "commands") else []:
        command = command.commands[rest[0]]
        ctx = command.make_context(rest[0], rest[1:], parent=ctx)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_help_shows_examples_that_can_be_typed(path: tuple[str, ...]) -> None:
    examples = examples_of(at(path))
    assert examples
    for each in examples:
        words = shlex.split(each)
        assert tuple(words[1 : 1 + len(path)]) == path
        if "--help" not in words:
            read(words[1:])


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_no_help_names_a_type(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], prog_name="thumbindex").stdout
    assert shown.startswith(" ".join(["Usage: thumbindex", *path]))
    assert (
        re.findall(
            r"<\w[\w\[\], ]*>|\b(?:TEXT|INTEGER|BOOLEAN|FLOAT|PATH\.\.\.)(?: |$)|<=x|[│╭{]\w",
            shown.replace("--note TEXT", ""),
        )
        == []
    )


def test_the_server_that_a_client_starts_has_the_help_of_the_command() -> None:
    server, whole = (
        CliRunner().invoke(each, ["serve", "--help"], prog_name="thumbindex").stdout
        for each in (server_app, app)
    )
    assert server == whole


def test_the_program_is_called_by_its_name_however_it_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "thumbindex", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: thumbindex [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "index notes",
            (
                "`thumbindex index` does not take 'notes': if that is a folder, name it by "
                "`thumbindex index --folder notes`."
            ),
        ),
        (
            "qurey tea",
            (
                "There is no command 'qurey': did you mean `thumbindex query`? `thumbindex "
                "--help` lists all."
            ),
        ),
        (
            "how do I sync",
            (
                "There is no command 'how': a question is asked with `thumbindex query how do I "
                "sync`. `thumbindex --help` lists all."
            ),
        ),
        (
            "duplicates decied",
            (
                "There is no command 'decied': did you mean `thumbindex duplicates decide`? "
                "`thumbindex duplicates --help` lists all."
            ),
        ),
        (
            "index --foldr x",
            "No such option: --foldr. Did you mean --folder? `thumbindex index --help` lists them.",
        ),
        (
            "index --folder",
            "--folder lacks its value: `thumbindex index --help` says what it takes.",
        ),
        (
            "serve --port x",
            "--port has to be a valid integer: `thumbindex serve --help` says more.",
        ),
        (
            "open --with nano",
            (
                "--with has to be one of 'editor', 'obsidian', 'vscode': `thumbindex open --help` "
                "says more."
            ),
        ),
        (
            "query",
            (
                'QUERY is missing: write it as in `thumbindex query "how do I sync two devices?" '
                "--folder notes`."
            ),
        ),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_write_and_exit_code_2(
    given: str, says: str
) -> None:
    result = CliRunner().invoke(app, given.split(), prog_name="thumbindex")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{says}\n")
