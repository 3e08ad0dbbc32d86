"""How a command ends: exit codes, and each error as one line on stderr."""

from __future__ import annotations

import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thumbindex.errors import ThumbindexError, UsageError

FOUND, NOT_FOUND, WRONG_USE, FAILURE, INTERRUPTED = 0, 1, 2, 3, 130


def reported(command: Callable[..., int]) -> Callable[..., None]:
    """Turn what a command returns or raises into an exit code, an error into one line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        # Imported here: the child of a server does without.
        import typer

        raise typer.Exit(outcome(functools.partial(command, *args, **kwargs)))

    return run


def say_error(message: str) -> None:
    """Print one line on stderr."""
    import typer

    typer.secho(" ".join(message.split("\n")), fg=typer.colors.RED, err=True)


def _escape_unwritable(stream: object) -> None:
    """Have characters that a stream's encoding lacks written as escapes: a path may hold bytes that are no UTF-8."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def outcome(command: Callable[[], int]) -> int:
    """Return a command's exit code, with an error reported in one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        _escape_unwritable(stream)
    try:
        return command()
    except UsageError as error:
        say_error(str(error))
        return WRONG_USE
    except ThumbindexError as error:
        say_error(str(error))
        return FAILURE
    except KeyboardInterrupt:
        say_error("Interrupted: what is committed stays; the next run goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`): at exit the interpreter must not flush into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except Exception as error:  # the program's one report of what nobody foresaw
        say_error(unforeseen(error))
        return FAILURE


def unforeseen(error: Exception) -> str:
    """Say what nobody foresaw, and where, in one sentence."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"Unexpected {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}). Please report this as a bug."
