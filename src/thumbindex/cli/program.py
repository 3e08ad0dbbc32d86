"""The program's name, and a Typer app whose help texts end with examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer

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


def examples_epilog(examples: Sequence[str]) -> str:
    """Return the last part of a command's help: one example per line."""
    return "\b\nExamples:\n" + "\n".join(f"  {PROGRAM} {example}" for example in examples)
