"""The name of the program, and commands that state examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer

PROGRAM = "thumbindex"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Program(typer.Typer):
    """A program, or a group of its commands, with plain help and errors."""

    def __init__(self, **given: Any) -> None:
        super().__init__(rich_markup_mode=None, pretty_exceptions_enable=False, **given)

    def command(
        self, name: str | None = None, *, examples: Sequence[str] = (), **given: Any
    ) -> Callable[[_Command], _Command]:
        """Add a command. An example is what follows `thumbindex` on the command line."""
        return super().command(name, epilog=examples_epilog(examples), **given)


def examples_epilog(examples: Sequence[str]) -> str:
    """Return the end of a command's help: its examples, a line each."""
    return "\b\nExamples:\n" + "\n".join(f"  {PROGRAM} {example}" for example in examples)
