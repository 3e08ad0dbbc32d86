"""How the command line is used: help without type names and with examples, and wrong use told in
one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from thumbindex.serve.opening import WRONG_USE, say_error

PROGRAM = "thumbindex"

_USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]
"""The error of wrong use, which typer gives no public name."""

_EXTRA = re.compile(r"unexpected extra argument\S* \((.+)\)")

_CHOICES = re.compile(r"is not one of (.+?)\.?$")

_RANGES = (
    (re.compile(r"\b(\d+)<=x<=(\d+)"), r"\1 to \2"),
    (re.compile(r"\bx>=(\d+)"), r"\1 or more"),
)
"""How typer writes bounds, and what a reader is told."""


_Command = TypeVar("_Command", bound=Callable[..., Any])

_LONGEST_LINE = 300
"""Characters of what a list of commands says of one: all of its sentence."""


class Program(typer.Typer):
    """A program, or a group of its commands, whose commands state examples."""

    def __init__(self, **given: Any) -> None:
        # Plain help and errors: in boxes stand the names of types.
        super().__init__(
            cls=Group,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **given,
        )

    def command(
        self,
        name: str | None = None,
        *,
        examples: Sequence[str] = (),
        cls: type[TyperCommand] | None = None,
        **given: Any,
    ) -> Callable[[_Command], _Command]:
        """Add a command. Each example is what is typed behind `thumbindex`."""
        return super().command(name, cls=cls or Command, epilog=shown_examples(examples), **given)

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        """Run the program under its own name, however it was started."""
        return super().__call__(*arguments, **{"prog_name": PROGRAM, **given})


def shown_examples(examples: Sequence[str]) -> str | None:
    """Return what help says last: examples, a line each."""
    if not examples:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {PROGRAM} {each}" for each in examples)


def examples_of(command: Any) -> list[str]:
    """Return the examples of a command, as they are typed."""
    return [
        line.strip()
        for line in (command.epilog or "").splitlines()
        if line.strip().startswith(f"{PROGRAM} ")
    ]


class Command(TyperCommand):
    """A command whose help names no types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [re.sub(r"[{}]", "", each) for each in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments and options."""
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            error.ctx = error.ctx or ctx  # an option without its value does not say whose it is
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        write_options(self, ctx, formatter)


class Group(TyperGroup):
    """The program, or a group of commands: wrong use of any of them is one line on stderr and exit
    code 2.
    """

    def make_context(self, *arguments: Any, **given: Any) -> Any:
        """Read the options of the group itself."""
        with told_in_one_line():
            return super().make_context(*arguments, **given)

    def invoke(self, ctx: Any) -> Any:
        """Read the options of a command and run it."""
        with told_in_one_line():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; where there is none, the nearest is."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            program, near = ctx.command_path, get_close_matches(args[0], self.commands, 1)
            hint = (
                f"did you mean `{program} {near[0]}`?"
                if near
                else f"a question is asked with `{PROGRAM} query {' '.join(args)}`."
            )
            ctx.fail(f"There is no command {args[0]!r}: {hint} `{program} --help` lists all.")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        write_options(self, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, each.get_short_help_str(_LONGEST_LINE))
                    for name, each in self.commands.items()
                    if not each.hidden
                ]
            )


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of a command into its help: each by its name and what to
    write for it, never by its type.
    """
    rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(ctx):
        if record := each.get_help_record(ctx):
            name, about = record
            for pattern, words in _RANGES:
                about = pattern.sub(words, about)
            if each.param_type_name == "argument":
                rows["Arguments"].append((each.metavar or each.name.upper(), about))
            else:
                rows["Options"].append((name, about))
    for title, found in rows.items():
        if found:
            with formatter.section(title):
                formatter.write_dl(found)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Say in one line what is wrong with a command line and what to write instead, and end the
    program.
    """
    try:
        yield
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        say_error(wrong_use(error))
        sys.exit(WRONG_USE)


def wrong_use(error: Any) -> str:
    """Return in words what is wrong with a command line, and what to do next."""
    said, ctx = str(error.format_message()), error.ctx
    if ctx is None:
        return said
    path, params = (
        ctx.command_path,
        {name: each for each in ctx.command.params for name in each.opts},
    )
    ask = f"`{path} --help` lists them."
    match type(error).__name__:
        case "NoSuchOption":
            near = get_close_matches(error.option_name, params, 1)
            return (
                f"No such option: {error.option_name}. "
                f"{f'Did you mean {near[0]}?' if near else f'`{path}` does not have it:'} {ask}"
            )
        case "MissingParameter" if error.param is not None:
            shown = next(iter(examples_of(ctx.command)), f"{path} --help")
            return (
                f"{error.param.metavar or error.param.opts[0]} is missing: write it as in "
                f"`{shown}`."
            )
        case "BadParameter" if error.param is not None:
            name = (
                error.param.opts[0]
                if error.param.param_type_name == "option"
                else error.param.metavar
            )
            if choices := _CHOICES.search(error.message):
                return f"{name} has to be one of {choices[1]}: `{path} --help` says more."
            said = error.message.removeprefix("Input should be ").partition(",")[0].rstrip(".")
            if said != error.message:
                return f"{name} has to be {said}: `{path} --help` says more."
            return f"{name}: {said}"
        case "BadOptionUsage":
            return f"{error.option_name} lacks its value: `{path} --help` says what it takes."
    extra = _EXTRA.search(said)
    if extra and "--folder" in params:
        return (
            f"`{path}` does not take {extra[1]!r}: if that is a folder, name it by `{path} "
            f"--folder {extra[1]}`."
        )
    if extra:
        return f"`{path}` does not take {extra[1]!r}: `{path} --help` says what it takes."
    return said if "`" in said else f"{said.rstrip('.')}. `{path} --help` says what it takes."
