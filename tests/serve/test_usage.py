"""What the command line says of itself: help with examples, and wrong use in one line."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from thumbindex.serve.cli import app
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


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "qurey tea",
            (
                "There is no command 'qurey': did you mean `thumbindex query`? `thumbindex "
                "--help` lists all."
            ),
        ),
        (
            "index --foldr x",
            "No such option: --foldr. Did you mean --folder? `thumbindex index --help` lists them.",
        ),
        (
            "serve --port x",
            "--port has to be a valid integer: `thumbindex serve --help` says more.",
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
