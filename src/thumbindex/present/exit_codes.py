"""Exit codes, and errors printed as one line on stderr."""

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
from thumbindex.process import console_streams, names_are_utf8, needs_utf8, remote_command
from thumbindex.text import one_line, redact_passwords, wrap_words

FOUND, NOT_FOUND, WRONG_USE, FAILURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


def exits_with_code(command: Callable[..., int]) -> Callable[..., None]:
    """Decorate a command so that the process exits with the command's exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        raise SystemExit(run_command(functools.partial(command, *args, **kwargs)))

    return run


def run_command(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; print an error as one line on stderr."""
    if logging.lastResort:  # the handler of last resort
        logging.lastResort.setFormatter(_OneLineFormatter())
    for stream in (sys.stdout, sys.stderr) if remote_command() is None else ():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths may not be UTF-8
    try:
        return command()
    except UsageError as error:
        print_error(str(error))
        return WRONG_USE
    except ThumbindexError as error:
        print_error(str(error))
        return FAILURE
    except KeyboardInterrupt as error:
        print_error(" ".join(("Interrupted.", *getattr(error, "__notes__", ()))))
        return INTERRUPTED
    except BrokenPipeError:
        # the reader has gone (`| head`): the interpreter must not flush into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except ImportError as error:
        print_error(
            f"Cannot load a package ({error}): reinstall thumbindex with `pip install "
            "--force-reinstall thumbindex`."
        )
        return FAILURE
    except UnicodeEncodeError as error:
        print_error(describe_unexpected(error) if names_are_utf8() else needs_utf8("A path"))
        return FAILURE if names_are_utf8() else WRONG_USE
    except Exception as error:  # report any bug in one line
        print_error(describe_unexpected(error))
        return FAILURE


class _OneLineFormatter(logging.Formatter):
    """Writes each log message as one line, even if it contains line breaks."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the message on one line."""
        return one_line(record.message)


def print_error(message: str, color: str | None = "red") -> None:
    """Print one line on stderr."""
    # imported late: an idle indexer process does not load it
    import typer
    from rich.console import Console

    command, line = remote_command(), redact_passwords(one_line(message))
    terminal = Console(**console_streams(stderr=True))
    if terminal.is_terminal:
        line = wrap_words(line, terminal.width)
    typer.secho(line, command.stderr if command else None, fg=color, err=True)


_DISK_FULL = "The disk is full: free some space and run it again."

_NO_ACCESS = "give this user access, or choose another location (for an index: --index)."

_ADVICE = {
    errno.ENOSPC: _DISK_FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _DISK_FULL,
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _NO_ACCESS),
}
"""Advice by errno, for system errors that are not bugs."""


def describe_unexpected(error: Exception) -> str:
    """Return advice for a system error. Describe any other error as a bug, with its location."""
    advice = _ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and advice == _NO_ACCESS:
        return f"Cannot use {error.filename or 'a file'} ({error.strerror}): {advice}"
    if advice:
        return advice
    if isinstance(error, MemoryError):
        return "Not enough memory: free some, and run it again."
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"Unexpected {type(error).__name__}: {error} "
        f"({Path(frame.filename).name}:{frame.lineno}). Please report this as a bug."
    )
