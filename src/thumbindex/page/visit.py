"""Records of the page: a visit (one request), a screen (its answer) and the result of a form;
addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from thumbindex.arguments import LONGEST_ARGUMENT, MOST_VALUES, read_lines
from thumbindex.config import absolute_path
from thumbindex.errors import UsageError
from thumbindex.model import read_whole_number
from thumbindex.opening import is_local_path
from thumbindex.text import replace_surrogates

if TYPE_CHECKING:
    from thumbindex.background.host import LibraryHost
    from thumbindex.library import Library


SEE_SERVER_LOG = (
    "Something is wrong with the index: whoever runs this server finds the reason in its log."
)
"""Replaces a sentence that names paths of the disk."""


class NotFoundError(UsageError):
    """The address names nothing that the visitor may see."""


class ForbiddenError(UsageError):
    """The visitor may read, but not decide."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: its visitor's library, and the values of its address or form."""

    library_host: LibraryHost
    library: Library  # open, over the folders that the visitor sees and no others
    # the address's, or a form's, values by name
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    subpath: str = ""  # of the path, behind the screen's name: `notes/Ideas/tea.md`
    may_write: bool = False  # decide of copies and judge answers
    # on this machine, without tokens: paths of the disk and programs may be named
    is_local: bool = False
    part: str = ""  # the only element of the page that a script will take; empty for all of it
    revision: str = ""  # `IndexFollower.revision` before the library was asked

    def text(self, name: str, longest: int = LONGEST_ARGUMENT) -> str:
        """Return a value, stripped; empty if there is none. Raises UsageError if it is too long."""
        return next(iter(self.texts(name, longest)), "")

    def texts(self, name: str, longest: int = LONGEST_ARGUMENT) -> tuple[str, ...]:
        """Return all values of a name that are not empty."""
        given = self.query.get(name, ())
        if len(given) > MOST_VALUES:
            raise UsageError(
                f"`{name}` is given {len(given):,} times, more than {MOST_VALUES}: give less."
            )
        if any(len(each) > longest for each in given):
            raise UsageError(f"`{name}` has more than {longest:,} characters: give less.")
        return tuple(said for each in given if (said := replace_surrogates(each).strip()))

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number. Raises UsageError if it is none, or out of range."""
        written = self.text(name)
        return read_whole_number(name, written, least, most) if written else default

    def lines(self) -> tuple[int, int] | None:
        """Return the first and last line of `12-40`. Raises UsageError."""
        written = self.text("lines")
        return read_lines(written) if written else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of some words, by default the first. Raises UsageError for others."""
        written = self.text(name) or choices[0]
        if written not in choices:
            raise UsageError(f"`{name}` is one of {', '.join(choices)}, not {written!r}.")
        return written

    def warnings(self) -> list[str]:
        """Return the library host's warnings, without paths of the disk for remote visitors."""
        said = self.library_host.notes()
        if self.is_local:
            return list(said)
        places = [
            str(place)
            for each in self.library.opened
            for place in (each.root, each.index_paths.folder)
        ]
        return [SEE_SERVER_LOG if any(place in note for place in places) else note for note in said]

    def options(self, folder: Sequence[str] = ()) -> list[str]:
        """Return the command line's options that open these folders, else all of the server's.

        Paths of the disk are for visitors on this machine.
        """
        if not self.is_local:
            return [f"--folder={each}" for each in folder]
        own, roots = (
            self.library_host.opening,
            {name: root for name, root in self.library.folders if is_local_path(root)},
        )
        chosen = folder or (tuple(roots) if own.folder else ())
        index, config = (path and absolute_path(path) for path in (own.index, own.config))
        return replace(
            own,
            folder=tuple(str(roots.get(each, each)) for each in chosen),
            index=index,
            config=config,
        ).arguments()

    def is_on(self, name: str) -> bool:
        """Return whether a switch is on: given, and not as `0`."""
        return self.text(name) not in {"", "0"}


@dataclass(frozen=True, slots=True)
class Screen:
    """The answer to a visit: a title, the values of its template, and a function that makes its
    JSON.
    """

    title: str
    values: Mapping[str, Any]
    # made only where it is asked for: an answer's takes as long as the page
    payload: Callable[[], Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class FormResult:
    """The result of a form: the next address, and the JSON for scripts."""

    address: str
    payload: Any = None


def screen_address(screen: str, **query: Any) -> str:
    """Return a screen's address; `ask` is `/`. Empty values are left out."""
    given = []
    for name, value in query.items():
        for each in value if isinstance(value, tuple | list) else (value,):
            if each is not None and each is not False and each != "":
                given.append((name, "1" if each is True else str(each)))
    path = "/" if screen == "ask" else f"/{screen}"
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


def note_address(folder: str, path: str, lines: tuple[int, int] | None = None) -> str:
    """Return a note's address, scrolled to these lines."""
    place = "/".join(
        quote(each.encode("utf-8", "surrogateescape"), safe="")
        for each in (folder, *path.split("/"))
    )
    return f"/note/{place}{f'?lines={lines[0]}-{lines[1]}#L{lines[0]}' if lines else ''}"


def same_site_address(target: str) -> str:
    """Return an address of this page unchanged; `/` for any other."""
    is_own = target.startswith("/") and not target.startswith("//")
    return target if is_own and target.isprintable() and "\\" not in target else "/"
