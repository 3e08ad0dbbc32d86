"""How a program ends: exit codes, and an error as one line on stderr."""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.process import remote_command
from thumbindex.text import one_line, redact_passwords

FOUND, NOT_FOUND, WRONG_USE, FAILURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


def exits_with_code(command: Callable[..., int]) -> Callable[..., None]:
    """Turn what a command returns or raises into an exit code, an error into one line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        raise SystemExit(run_command(functools.partial(command, *args, **kwargs)))

    return run


def run_command(command: Callable[[], int]) -> int:
    """Return a command's exit code, with an error reported in one line on stderr."""
    if logging.lastResort:  # what prints the log where nothing else does
        logging.lastResort.setFormatter(_OneLineFormatter())
    for stream in (sys.stdout, sys.stderr) if remote_command() is None else ():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold bytes that are no UTF-8
    try:
        return command()
    except UsageError as error:
        print_error(str(error))
        return WRONG_USE
    except ThumbindexError as error:
        print_error(str(error))
        return FAILURE
    except KeyboardInterrupt:
        print_error("Interrupted: what is committed stays; the next run goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`): at exit the interpreter must not flush into
        # the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except ImportError as error:
        print_error(
            f"A package cannot be loaded ({error}): install thumbindex again, `pip install "
            "--force-reinstall thumbindex`."
        )
        return FAILURE
    except Exception as error:  # the program's one report of what nobody foresaw
        print_error(describe_unexpected(error))
        return FAILURE


class _OneLineFormatter(logging.Formatter):
    """Writes a message of the log as one line, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the message."""
        return one_line(record.message)


def print_error(message: str, color: str | None = "red") -> None:
    """Print one line on stderr."""
    # Imported here: the child of a server does without
    # (`test_a_child_that_waits_has_loaded_little…`).
    import typer

    asked = remote_command()
    typer.secho(
        redact_passwords(one_line(message)), asked.stderr if asked else None, fg=color, err=True
    )


_FULL = "There is no space left to write to: free some, and run it again."


_MANY_FILES = (
    "This process may open no more files: allow it more (`ulimit -n 1024`), and run it again."
)


_REFUSED = "give this user the right to it, or choose another place (an index: --index)."


_REFUSALS = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
    errno.EMFILE: _MANY_FILES,
    errno.ENFILE: _MANY_FILES,
}


_REFUSALS |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _REFUSED)
"""What to do where the system refuses something: no bug of ours."""


_NO_MEMORY = ("can't start new thread", "failed to map segment")
"""What Python and the loader of libraries say where there is too little memory."""


def describe_unexpected(error: Exception) -> str:
    """Say in one sentence what the system refused, and what to do; of anything else that it is a
    bug, and where.
    """
    advice = _REFUSALS.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and advice == _REFUSED:
        return f"{error.filename or 'A file'} cannot be used ({error.strerror}): {advice}"
    if advice:
        return advice
    if isinstance(error, MemoryError) or any(each in str(error) for each in _NO_MEMORY):
        return (
            f"There is not enough memory ({error}): free some, or allow it more (`ulimit -v`), "
            "and run it again."
        )
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"Unexpected {type(error).__name__}: {error} "
        f"({Path(where.filename).name}:{where.lineno}). Please report this as a bug."
    )
