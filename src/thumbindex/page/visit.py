"""Records of the page (a visit, a screen, a form's result) and its addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from thumbindex.arguments import LONGEST_ARGUMENT, MOST_VALUES, read_lines
from thumbindex.errors import UsageError
from thumbindex.model import read_whole_number
from thumbindex.text import replace_surrogates

if TYPE_CHECKING:
    from thumbindex.background.host import LibraryHost
    from thumbindex.library import Library


SEE_SERVER_LOG = "There is a problem with the index. The server's log has the details."
"""Shown to remote visitors instead of a message with file paths."""


class NotFoundError(UsageError):
    """The address does not exist, or the visitor may not see it."""


class ForbiddenError(UsageError):
    """The visitor may not do this."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: the visitor's library, and the values of the address or form."""

    library_host: LibraryHost
    library: Library  # contains only the folders that the visitor may see
    # values of the address or form by name
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    subpath: str = ""  # the path after the screen's name, e.g. `notes/Ideas/tea.md`
    may_write: bool = False  # may decide about duplicates and grade passages
    # the visitor is on this machine and may see file paths and links to programs
    is_local: bool = False
    is_owner: bool = False  # the visitor owns the notes and may see which of them are private
    part: str = ""  # the only element that the script needs, or "" for the whole page
    revision: str = ""  # `IndexFollower.revision` before the library is queried

    def text(self, name: str, max_chars: int = LONGEST_ARGUMENT) -> str:
        """Return the first value of `name`, or "". Raises UsageError if it is too long."""
        return next(iter(self.texts(name, max_chars)), "")

    def texts(self, name: str, max_chars: int = LONGEST_ARGUMENT) -> tuple[str, ...]:
        """Return all non-empty values of `name`. Raises UsageError if a limit is exceeded."""
        values = self.query.get(name, ())
        if len(values) > MOST_VALUES:
            raise UsageError(f"`{name}` has {len(values):,} values; the maximum is {MOST_VALUES}.")
        if any(len(value) > max_chars for value in values):
            raise UsageError(f"`{name}` is too long; the maximum is {max_chars:,} characters.")
        return tuple(text for value in values if (text := replace_surrogates(value).strip()))

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return the value of `name` as a whole number, or `default`. Raises UsageError."""
        text = self.text(name)
        return read_whole_number(name, text, least, most) if text else default

    def lines(self) -> tuple[int, int] | None:
        """Parse the value of `lines`, e.g. `12-40`. Raises UsageError."""
        text = self.text("lines")
        return read_lines(text)[:2] if text else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return the value of `name`, by default the first choice. Raises UsageError."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise UsageError(f"`{name}` must be one of {', '.join(choices)}, not {text!r}.")
        return text

    def warnings(self) -> list[str]:
        """Return the library host's warnings, without file paths for remote visitors."""
        notes = self.library_host.notes()
        if self.is_local:
            return list(notes)
        paths = [
            str(path)
            for index in self.library.opened
            for path in (index.root, index.index_paths.folder)
        ]
        return [SEE_SERVER_LOG if any(path in note for path in paths) else note for note in notes]

    def is_on(self, name: str) -> bool:
        """Return whether the value of `name` is set and not `0`."""
        return self.text(name) not in {"", "0"}


@dataclass(frozen=True, slots=True)
class Screen:
    """The answer to a visit: a title, template values, and perhaps a function for the JSON."""

    title: str
    values: Mapping[str, Any]
    # of a screen that has JSON; called only if it is requested
    payload: Callable[[], Any] | None = None
    status: int = 200


@dataclass(frozen=True, slots=True)
class FormResult:
    """The result of a form: the address to redirect to, and the JSON for scripts."""

    address: str
    payload: Any = None


def screen_address(screen: str, **query: Any) -> str:
    """Return a screen's address with the non-empty values of `query`. `ask` is at `/`."""
    parameters = []
    for name, value in query.items():
        for item in value if isinstance(value, tuple | list) else (value,):
            if item is not None and item is not False and item != "":
                parameters.append((name, "1" if item is True else str(item)))
    path = "/" if screen == "ask" else f"/{screen}"
    return f"{path}?{urlencode(parameters, errors='surrogateescape')}" if parameters else path


def note_address(folder: str, path: str, lines: tuple[int, int] | None = None) -> str:
    """Return a note's address. With `lines`, the address opens the note at these lines."""
    quoted = "/".join(
        quote(part.encode("utf-8", "surrogateescape"), safe="")
        for part in (folder, *path.split("/"))
    )
    return f"/note/{quoted}{f'?lines={lines[0]}-{lines[1]}#L{lines[0]}' if lines else ''}"


def heading_address(folder: str, path: str, heading: str) -> str:
    """Return the address of a note at a heading, or of the note if `heading` is empty."""
    return note_address(folder, path) + (screen_address("", heading=heading)[1:] if heading else "")


def same_site_address(target: str) -> str:
    """Return `target` if it is an address of this page, else `/`."""
    is_local = target.startswith("/") and not target.startswith("//")
    return target if is_local and target.isprintable() and "\\" not in target else "/"
