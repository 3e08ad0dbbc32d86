"""Help, its examples, and wrong usage."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from typer.main import get_command

from program import app, typer_app

ROOT: Any = app


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the path of names to each command, empty for the program itself."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), ROOT)]
    while waiting:
        path, command = waiting.pop(0)
        yield path
        waiting += [
            ((*path, name), subcommand)
            for name, subcommand in getattr(command, "commands", {}).items()
        ]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, prog_name="thumbindex")


def read(arguments: list[str]) -> None:
    """Parse a command line without running it."""
    command, ctx = ROOT, ROOT.make_context("thumbindex", list(arguments))
    while remaining := [*ctx._protected_args, *ctx.args] if hasattr(command, "commands") else []:
        command = command.commands[remaining[0]]
        ctx = command.make_context(remaining[0], remaining[1:], parent=ctx)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_help_ends_with_valid_examples(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    _, _, examples = result.stdout.partition("\n  Examples:\n")
    assert examples
    for line in examples.splitlines():
        words = shlex.split(line)
        assert tuple(words[: 1 + len(path)]) == ("thumbindex", *path)
        if "--help" not in words:
            read(words[1:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("qurey tea", "No such command 'qurey'. Did you mean 'query'?"),
        ("index --foldr x", "No such option: --foldr (Possible options: --folder)"),
        ("serve --port x", "Invalid value for '--port'"),
        ("query", "Missing argument 'QUERY'."),
        ("query tea -sugar", "Try 'thumbindex query --help' for help."),
    ],
)
def test_wrong_usage_is_explained_and_exits_with_code_2(arguments: str, message: str) -> None:
    result = run(*arguments.split())
    assert (result.exit_code, result.stdout, message in result.stderr) == (2, "", True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_script_is_printed(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    options = ["--show-completion", shell]
    # typer reads the variable when it builds the program
    result = CliRunner().invoke(get_command(typer_app), options, prog_name="thumbindex")
    assert (result.exit_code, "_THUMBINDEX_COMPLETE" in result.stdout) == (0, True)
