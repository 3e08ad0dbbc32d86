"""Commands over single notes and their links, in the words of the MCP tools: read, outline,
related, verify, broken, orphans; and unlinked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.arguments import read_lines
from thumbindex.cli.options import (
    GlobOption,
    JsonOption,
    TagOption,
    open_for,
    opening_or_engine_options,
)
from thumbindex.cli.terminal import (
    WARNING,
    ProgressDisplay,
    location_text,
    print_json,
    print_line,
    print_list,
    print_text,
    printable_line,
    stdout_console,
)
from thumbindex.config import absolute_path
from thumbindex.errors import IndexDamagedError, StorageError, UnknownFolderError, UsageError
from thumbindex.model import Excerpt, read_limit
from thumbindex.opening import OpenOptions
from thumbindex.present.as_json import as_json as to_json
from thumbindex.present.as_json import (
    excerpt_payload,
    list_payload,
    related_payload,
    unlinked_payload,
)
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, WRONG_USE, exits_with_code, print_error
from thumbindex.present.sentences import (
    SIMILAR_TITLE,
    citation_check_line,
    filter_lines,
    flag_lines,
    outline_lines,
    related_groups,
    verification_sentence,
)
from thumbindex.process import remote_command
from thumbindex.text import line_range, parse_citation, plural, replace_surrogates

if TYPE_CHECKING:
    from thumbindex.library import Library

_RELATED = 10
"""Documents of each kind that `related` names, as the tool does."""

_PATH_HELP = (
    "A note: its path in the folder or from here, its name, or a citation such as `x.md (lines "
    "11-14)`."
)

PathArgument = Annotated[str, typer.Argument(metavar="PATH", help=_PATH_HELP)]


@exits_with_code
@opening_or_engine_options
def read(
    ctx: typer.Context,
    opening: OpenOptions,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help=_PATH_HELP)],
    heading: Annotated[
        str | None,
        typer.Option(
            "--heading", metavar="H", help="Of one note only the part under this heading."
        ),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option("--lines", metavar="A-B", help="Of one note only these lines, as 12-40."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print notes, or parts of them.

    Changed notes are indexed first, words only.
    """
    asked = read_lines(lines) if lines is not None else None
    if len(paths) > 1 and (heading is not None or lines is not None):
        raise UsageError(
            "--heading and --lines go with one note: of several, write each as path#heading "
            "or path:12-40."
        )
    with open_for(ctx, opening) as library:
        update_index(library)
        if len(paths) > 1:
            found, errors = library.read_each([resolve_from_cwd(path, library) for path in paths])
            return _print_several(found, errors, len(library.folders) > 1, as_json)
        excerpt = library.read(resolve_from_cwd(paths[0], library), heading=heading, lines=asked)
    if as_json:
        print_json(excerpt_payload(excerpt))
    else:
        _print_excerpt(excerpt)
    return FOUND


def _print_several(
    found: Sequence[Excerpt], errors: Mapping[str, UsageError], several: bool, as_json: bool
) -> int:
    """Print what was read at several paths, and why the others could not be read."""
    if as_json:
        print_json(
            {
                "notes": [excerpt_payload(each) for each in found],
                "errors": {path: str(error) for path, error in errors.items()},
            }
        )
        return WRONG_USE if errors else FOUND
    for number, excerpt in enumerate(found):
        if number:
            print_line("")
        _print_excerpt(excerpt, several)
    for path, error in errors.items():
        print_error(f"{path}: {error}")
    return WRONG_USE if errors else FOUND


def _print_excerpt(excerpt: Excerpt, several: bool = False) -> None:
    """Print some lines under their place, with its folder where there are several."""
    place = line_range(excerpt.start_line, excerpt.end_line)
    print_line(
        f"{f'{excerpt.folder}: ' if several else ''}{excerpt.path} ({place} of "
        f"{excerpt.total_lines})",
        "bold",
    )
    for warning in flag_lines(excerpt.flags, (excerpt.start_line, excerpt.end_line)):
        print_line(warning, "yellow")
    print_line("")
    print_text(excerpt.text)


@exits_with_code
@opening_or_engine_options
def outline(
    ctx: typer.Context,
    opening: OpenOptions,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="A note, as for `read`, or a directory; without it, all notes."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the headings of a note, or the notes of a directory.

    Changed notes are indexed first, words only.
    """
    if path is not None and "*" in path:
        raise UsageError(
            f"`outline` takes a note or a directory; for a glob: `thumbindex list --path '{path}'`."
        )
    with open_for(ctx, opening) as library:
        update_index(library)
        entries = library.outline(path and resolve_from_cwd(path, library))
    if as_json:
        print_json({"entries": to_json(entries)})
    else:
        for line in outline_lines(entries, len(library.folders) > 1):
            print_line(line)
    return FOUND if entries else NOT_FOUND


@exits_with_code
@opening_or_engine_options
def related(
    ctx: typer.Context,
    opening: OpenOptions,
    path: PathArgument,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Notes of each kind, 1 to 100.")
    ] = _RELATED,
    as_json: JsonOption = False,
) -> int:
    """List a note's links, backlinks and similar notes.

    Changed notes are indexed first, words only.
    """
    read_limit(limit)
    with open_for(ctx, opening) as library:
        update_index(library)
        found = library.related(resolve_from_cwd(path, library), limit=limit)
        has_vectors = library.index_states()[found.folder].vectors > 0
    if as_json:
        print_json(related_payload(found, limit))
        return FOUND
    print_line(found.path, "bold")
    for title, names in related_groups(found, limit):
        unknown = title == SIMILAR_TITLE and not has_vectors
        print_line(title)
        for name in names or [
            f"none yet: run `{opening.command('index')}` first" if unknown else "none"
        ]:
            print_line(f"  {name}")
    return FOUND


@exits_with_code
@opening_or_engine_options
def verify(
    ctx: typer.Context,
    opening: OpenOptions,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="DRAFT",
            help="An answer with citations, or a citation with what it quotes; without it, "
            "standard input.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read the text from a file.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check the citations in a text.

    Each is there as quoted, moved, changed, gone, or was never there.

    Exit code 1 where one of the last three is found.
    """
    draft = _draft(text, file)
    with open_for(ctx, opening) as library:
        update_index(library)
        found, several = library.verify(replace_surrogates(draft)), len(library.folders) > 1
    if as_json:
        print_json(to_json(found))
    else:
        print_line(verification_sentence(found), "bold")
        for check in found.citations:
            print_line(citation_check_line(check, several), WARNING if check.state in _LOST else "")
        if found.left_out:
            print_line(
                f"{plural(found.left_out, 'citation')} left out: verify a part of the text at "
                "a time",
                "dim",
            )
    if found.citations and not any(citation.state in _LOST for citation in found.citations):
        return FOUND
    return NOT_FOUND


_LOST = {"changed", "gone", "never_there"}
"""What a citation must not be in an answer that is sent."""


def _draft(text: str | None, file: Path | None) -> str:
    """Return the text that is given as an argument, in a file, or on standard input."""
    if text is not None and file is not None:
        raise UsageError("DRAFT and --file exclude each other: give one of them.")
    if text is not None and text != "-":
        return text
    if file is None and sys.stdin.isatty():
        raise UsageError(
            "There is no text: give it as an argument, with --file, or on standard input."
        )
    try:
        data = absolute_path(file).read_bytes() if file is not None else sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from error
    return data.decode("utf-8", "replace")


@exits_with_code
@opening_or_engine_options
def broken(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the links that lead to no note.

    The exit code is 1 if there is none.

    Changed notes are indexed first, words only.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        found = library.broken(path=path, tag=tag)
        roots = dict(library.folders)
    if as_json:
        print_json(to_json(found))
        return FOUND if found.links else NOT_FOUND
    for link in found.links:
        place = location_text(roots[link.folder] / link.path, link.line)
        stdout_console().print(place.append(f"  {printable_line(link.written)}"), soft_wrap=True)
    for line in filter_lines((), found.unmet, 0):
        print_line(line, "bold")
    notes = len({(each.folder, each.path) for each in found.links})
    if not found.links:
        print_line("No broken links.", "dim")
        return NOT_FOUND
    print_line(f"{plural(len(found.links), 'broken link')} in {plural(notes, 'note')}", "dim")
    return FOUND


@exits_with_code
@opening_or_engine_options
def orphans(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the notes that no other note links to.

    The newest come first. The exit code is 1 if there is none.

    Changed notes are indexed first, words only.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        found = library.orphans(path=path, tag=tag)
    if as_json:
        print_json(list_payload(found, None))
        return FOUND if found.notes else NOT_FOUND
    if found.notes or found.unmet:
        print_list(found, None, len(library.folders) > 1)
    count = plural(len(found.notes), "note")
    print_line(f"{count} that no other note links to" if found.notes else "No orphans.", "dim")
    return FOUND if found.notes else NOT_FOUND


@exits_with_code
@opening_or_engine_options
def unlinked(
    ctx: typer.Context,
    opening: OpenOptions,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Pairs that are listed.")
    ] = 20,
    as_json: JsonOption = False,
) -> int:
    """List pairs of notes near by meaning and not linked.

    The nearest come first. The exit code is 1 if there is none.

    Changed notes are indexed first, with their vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library, vectors=True)
        found = library.unlinked()
        several = len(library.folders) > 1
    if as_json:
        print_json(unlinked_payload(found, limit))
        return FOUND if found else NOT_FOUND
    for each in found[:limit]:
        where = f"{each.folder}: " if several else ""
        print_line(f"{each.score:.2f}  {where}{each.path} - {each.other}")
    if left := len(found[limit:]):
        print_line(f"and {plural(left, 'more pair')} (--limit)", "dim")
    if not found:
        print_line("No notes are near and not linked.", "dim")
    return FOUND if found else NOT_FOUND


# ------------------------------------------------------------------ what is named, and where


def resolve_from_cwd(given: str, library: Library) -> str:
    """Return the absolute path, with what stands behind it, of a note that is named from the
    current directory; else what was given.
    """
    written, _ = parse_citation(given)
    file = written.partition("#")[0]
    here = Path(os.path.abspath(absolute_path(file)))  # noqa: PTH100 - `..` is taken away
    roots = [root for _, root in library.folders]
    ways = (here, here.parent.resolve() / here.name)
    # what lies outside of the folders is not even looked at
    if not any(way.is_relative_to(root) for root in roots for way in ways):
        return given
    is_from_here = file.replace(os.sep, "/").split("/")[0] in {".", ".."}
    named = [root / each for root in roots for each in (written, file)]
    # a name may be too long for the system
    is_held, is_local_path = any(map(os.path.exists, named)), os.path.exists(here)  # noqa: PTH110
    if is_from_here or (is_local_path and not is_held):
        return f"{here}{given[len(file) :]}"
    return given


def update_index(library: Library, vectors: bool = False) -> None:
    """Bring the words up to date, or say why what was indexed before has to do."""
    if remote_command():  # a server lends what is up to date
        return
    try:
        with ProgressDisplay() as show:
            library.index(words_only=not vectors, progress=show, after_others=vectors)
    except (UnknownFolderError, StorageError) as error:
        if not library.indexed or isinstance(error, IndexDamagedError):
            raise
        print_error(f"{str(error).removesuffix('.')}. Answering from what was indexed before.")
