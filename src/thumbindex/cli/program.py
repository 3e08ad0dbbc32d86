"""The program's name, and a Typer app whose help texts end with examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

PROGRAM = "thumbindex"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Program(typer.Typer):
    """A program or group of commands, with plain-text help and errors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(rich_markup_mode=None, pretty_exceptions_enable=False, **options)

    def command(
        self, name: str | None = None, *, examples: Sequence[str] = (), **options: Any
    ) -> Callable[[_Command], _Command]:
        """Add a command; its examples omit the leading `thumbindex`."""
        return super().command(name, epilog=examples_epilog(examples), **options)


class GroupedCommands(TyperGroup):
    """Commands that the help lists in one section per `rich_help_panel`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of the help, in the order of their first commands."""
        width = max(map(len, self.commands))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            line = command.get_short_help_str(formatter.width - width - len("    "))
            rows = sections.setdefault(getattr(command, "rich_help_panel", "Commands"), [])
            rows.append((name.ljust(width), line))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


def examples_epilog(examples: Sequence[str]) -> str:
    """Return the last part of a command's help: one example per line."""
    return "\b\nExamples:\n" + "\n".join(f"  {PROGRAM} {example}" for example in examples)
