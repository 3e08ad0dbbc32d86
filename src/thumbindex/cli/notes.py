"""Commands about notes and links: read, outline, related, verify, broken, retired and others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.cli.last_answer import result_location
from thumbindex.cli.options import (
    GlobOption,
    JsonOption,
    TagOption,
    WhereOption,
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
    print_row,
    print_text,
    shown_path,
    stdout_console,
)
from thumbindex.config import absolute_path
from thumbindex.errors import (
    IndexDamagedError,
    StorageError,
    UnknownFolderError,
    UnknownPathError,
    UsageError,
)
from thumbindex.model import MAX_PASSAGES, CitationCheck, Excerpt, OutlineEntry, RelatedNotes
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
    excerpt_place,
    filter_lines,
    flag_lines,
    outline_lines,
    related_groups,
    rest_sentence,
    retired_note_sentence,
    verification_sentence,
)
from thumbindex.process import remote_command
from thumbindex.text import Lines, parse_citation, plural, printable_line, replace_surrogates

if TYPE_CHECKING:
    from thumbindex.library import Library

_DEFAULT_RELATED = 10
"""Default maximum number of notes of each kind in `related`, as in the MCP tool."""

_LAST_LINE = 1_000_000_000
"""A line after the end of every note."""

_PATH_HELP = (
    "A note's name, its path in the folder or from the current directory, or a citation such as "
    "`x.md (lines 11-14)`."
)

PathArgument = Annotated[str, typer.Argument(metavar="PATH", help=_PATH_HELP)]


@exits_with_code
@opening_or_engine_options
def read(
    ctx: typer.Context,
    opening: OpenOptions,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help=_PATH_HELP)],
    as_json: JsonOption = False,
) -> int:
    """Print notes, or parts of them: `path#heading` or `path:12-40`.

    `read 2` prints the section of result 2 of your last `query`. Changed notes are indexed
    first, without vectors.
    """
    result, lines = result_location(ctx, paths[0]) if len(paths) == 1 else None, None
    if result:
        opening, paths = result[0], [str(result[1])]
    with open_for(ctx, opening) as library:
        update_index(library)
        if len(paths) > 1:
            excerpts, errors = library.read_each(
                [resolve_from_cwd(path, library) for path in paths]
            )
            return _print_several(excerpts, errors, dict(library.folders), as_json)
        with telling_private(library, path := resolve_from_cwd(paths[0], library)):
            if result:
                lines = _section_around(result[2], library.outline(path))
            excerpt = library.read(path, lines=lines)
        roots = dict(library.folders)
    if as_json:
        print_json(excerpt_payload(excerpt))
    else:
        _print_excerpt(excerpt, roots)
    return FOUND


def _section_around(line: int, headings: Sequence[OutlineEntry]) -> Lines:
    """Return the lines between two headings, around a line."""
    starts = [entry.line for entry in headings if entry.line]
    following = min((start for start in starts if start > line), default=_LAST_LINE + 1)
    return Lines(max((start for start in starts if start <= line), default=1), following - 1)


def _print_several(
    excerpts: Sequence[Excerpt],
    errors: Mapping[str, UsageError],
    roots: Mapping[str, Path],
    as_json: bool,
) -> int:
    """Print the excerpts, and errors for the paths that could not be read."""
    if as_json:
        print_json(
            {
                "notes": [excerpt_payload(note) for note in excerpts],
                "errors": {path: str(error) for path, error in errors.items()},
            }
        )
        return WRONG_USE if errors else FOUND
    for number, excerpt in enumerate(excerpts):
        if number:
            print_line("")
        _print_excerpt(excerpt, roots)
    for path, error in errors.items():
        print_error(f"{path}: {error}")
    return WRONG_USE if errors else FOUND


def _print_excerpt(excerpt: Excerpt, roots: Mapping[str, Path]) -> None:
    """Print an excerpt below its location."""
    path = shown_path(roots, excerpt.folder, excerpt.path)
    print_row(f"{path} ({excerpt_place(excerpt)})", "bold")
    for warning in flag_lines(excerpt.flags, (excerpt.start_line, excerpt.end_line)):
        print_line(warning, "yellow")
    print_line("")
    print_text(excerpt.text)
    if sentence := rest_sentence(excerpt):
        print_line(sentence, "dim")


@exits_with_code
@opening_or_engine_options
def outline(
    ctx: typer.Context,
    opening: OpenOptions,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="A note, as for `read`, or a directory (default: all notes)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the headings of a note, or the notes of a directory.

    Changed notes are indexed first, without vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        path = path and resolve_from_cwd(path, library)
        with telling_private(library, path or ""):
            entries = library.outline(path)
        roots = dict(library.folders)
    if as_json:
        print_json({"entries": to_json(entries)})
    else:
        shown = [
            replace(entry, path=shown_path(roots, entry.folder, entry.path)) for entry in entries
        ]
        for line in outline_lines(shown):
            print_row(line)
    return FOUND if entries else NOT_FOUND


@exits_with_code
@opening_or_engine_options
def related(
    ctx: typer.Context,
    opening: OpenOptions,
    path: PathArgument,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            max=MAX_PASSAGES,
            help="Maximum notes of each kind.",
        ),
    ] = _DEFAULT_RELATED,
    as_json: JsonOption = False,
) -> int:
    """List a note's links, backlinks and similar notes.

    Changed notes are indexed first, without vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        with telling_private(library, path := resolve_from_cwd(path, library)):
            neighbors = library.related(path, limit=limit)
        is_exact = not library.index_states()[neighbors.folder].pending
        roots = dict(library.folders)
    if as_json:
        print_json(related_payload(neighbors, limit))
        return FOUND
    neighbors = _as_shown(neighbors, roots)
    print_row(neighbors.path, "bold")
    for title, names in related_groups(neighbors, limit):
        unknown = title == SIMILAR_TITLE and not is_exact
        print_line(title)
        advice = "" if remote_command() else f": run `{opening.command('index')} --complete`"
        for name in names or [f"none yet{advice}" if unknown else "none"]:
            print_row(f"  {name}")
    return FOUND


def _as_shown(neighbors: RelatedNotes, roots: Mapping[str, Path]) -> RelatedNotes:
    """Return a note's neighbors with the paths that commands print."""
    name = partial(shown_path, roots, neighbors.folder)
    return replace(
        neighbors,
        path=name(neighbors.path),
        links=tuple(map(name, neighbors.links)),
        backlinks=tuple(map(name, neighbors.backlinks)),
        similar=tuple(replace(note, path=name(note.path)) for note in neighbors.similar),
    )


@exits_with_code
@opening_or_engine_options
def verify(
    ctx: typer.Context,
    opening: OpenOptions,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="DRAFT",
            help="An answer with citations, or one citation with its quotation (default: standard "
            "input).",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read the text from a file.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check the citations in a text.

    Reports whether each citation is there (as quoted), moved, changed, gone, or was never there. If
    nothing is quoted beside it, nothing is compared.

    The exit code is 0 only if each citation has a quotation that is there or moved.
    """
    draft = _draft(text, file)
    with open_for(ctx, opening) as library:
        update_index(library)
        report, roots = library.verify(replace_surrogates(draft)), dict(library.folders)
    if as_json:
        print_json(to_json(report))
    else:
        print_line(verification_sentence(report), "bold")
        for check in report.citations:
            now = ""
            if check.path:
                now = f"{shown_path(roots, check.folder, check.path)}:{check.start_line}"
            print_line(citation_check_line(check, now), "" if _is_supported(check) else WARNING)
        if report.left_out:
            print_line(
                f"{plural(report.left_out, 'citation')} left out: verify the text in smaller parts",
                "dim",
            )
    return FOUND if report.citations and all(map(_is_supported, report.citations)) else NOT_FOUND


def _is_supported(check: CitationCheck) -> bool:
    """Return whether a note says what is quoted."""
    return bool(check.quotation) and check.state in {"there", "moved"}


def _draft(text: str | None, file: Path | None) -> str:
    """Return the text from the argument, the file, or standard input."""
    if text is not None and file is not None:
        raise UsageError("DRAFT and --file cannot be combined: use only one.")
    if text is not None and text != "-":
        return text
    if file is None and sys.stdin.isatty():
        raise UsageError("There is no text: pass it as DRAFT, with --file, or on standard input.")
    try:
        data = absolute_path(file).read_bytes() if file is not None else sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror or error}.") from error
    return data.decode("utf-8", "replace")


@exits_with_code
@opening_or_engine_options
def broken(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the links that lead to no note, or to a missing heading or block.

    Each has a reason. Images and other attachments are not checked. Changed notes are indexed
    first, without vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        report = library.broken(for_owner=True, path=path, tag=tag, where=where)
        roots = dict(library.folders)
    if as_json:
        print_json(to_json(report))
        return FOUND
    for link in report.links:
        place = location_text(roots, link.folder, link.path, link.line)
        place.append(f"  {printable_line(link.written)}").append(f"  {link.reason}", "dim")
        stdout_console().print(place, soft_wrap=True)
    for line in filter_lines((), report.unmet, 0):
        print_line(line, "bold")
    notes = len({(link.folder, link.path) for link in report.links})
    if not report.links:
        print_line("No broken links.", "dim")
        return FOUND
    print_line(f"{plural(len(report.links), 'broken link')} in {plural(notes, 'note')}", "dim")
    return FOUND


@exits_with_code
@opening_or_engine_options
def retired(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the notes that are no longer in force.

    They are superseded, deprecated or expired, or marked as such. The newest come first. Changed
    notes are indexed first, without vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        report = library.retired(path=path, tag=tag, where=where)
        roots = dict(library.folders)
    if as_json:
        print_json(to_json(report))
        return FOUND
    for note in report.notes:
        place = location_text(roots, note.folder, note.path, 0)
        place.append(f"  {printable_line(retired_note_sentence(note))}", "dim")
        stdout_console().print(place, soft_wrap=True)
    for line in filter_lines((), report.unmet, 0):
        print_line(line, "bold")
    count = plural(len(report.notes), "retired note")
    print_line(count if report.notes else "No retired notes.", "dim")
    return FOUND


@exits_with_code
@opening_or_engine_options
def orphans(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the notes that no other note links to.

    The newest come first. Changed notes are indexed first, without vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        orphaned = library.orphans(path=path, tag=tag, where=where)
    if as_json:
        print_json(list_payload(orphaned, None))
        return FOUND
    if orphaned.notes or orphaned.unmet:
        print_list(orphaned, None, dict(library.folders))
    count = plural(len(orphaned.notes), "note")
    print_line(f"{count} that no other note links to" if orphaned.notes else "No orphans.", "dim")
    return FOUND


@exits_with_code
@opening_or_engine_options
def unlinked(
    ctx: typer.Context,
    opening: OpenOptions,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum pairs to list.")
    ] = 20,
    as_json: JsonOption = False,
) -> int:
    """List pairs of similar notes that are not linked.

    The most similar come first. Changed notes are indexed first, with their vectors.
    """
    with open_for(ctx, opening) as library:
        update_index(library, complete=True)
        pairs = library.unlinked()
        roots = dict(library.folders)
    if as_json:
        print_json(unlinked_payload(pairs, limit))
        return FOUND
    for pair in pairs[:limit]:
        names = (shown_path(roots, pair.folder, path) for path in (pair.path, pair.other))
        print_row(f"{pair.score:.2f}  {' - '.join(names)}")
    if hidden := len(pairs[limit:]):
        print_line(f"and {plural(hidden, 'more pair')} (--limit)", "dim")
    if not pairs:
        print_line("No similar notes are unlinked.", "dim")
    return FOUND


# ------------------------------------------------------------------ shared by the commands


def resolve_from_cwd(argument: str, library: Library) -> str:
    """Make a note's path absolute if it is relative to the current directory.

    A `#heading` or lines after the path stay. Any other argument is returned unchanged.
    """
    citation, _ = parse_citation(argument)
    file = citation.partition("#")[0]
    if "…" in file:
        file, argument = _complete(file, argument, library)
    path = Path(os.path.abspath(absolute_path(file)))  # noqa: PTH100 - removes `..`
    roots = [root for _, root in library.folders]
    spellings = (path, path.parent.resolve() / path.name)
    # never touch files outside the folders
    if not any(spelling.is_relative_to(root) for root in roots for spelling in spellings):
        return argument
    is_from_here = file.replace(os.sep, "/").split("/")[0] in {".", ".."}
    # pathlib raises for names that are too long
    if is_from_here or os.path.exists(path):  # noqa: PTH110
        return f"{path}{argument[len(file) :]}"
    return argument


@contextmanager
def telling_private(library: Library, path: str) -> Iterator[None]:
    """If a note is unknown because it is private, say so: commands run for the notes' owner."""
    try:
        yield
    except UnknownPathError as error:
        if remote_command():  # no server tells of private notes: the client runs the command
            raise StorageError(str(error)) from error
        file = parse_citation(path)[0].partition("#")[0]
        notes = library.private_notes(file) if file and not library.database else ()
        if notes:
            raise UnknownPathError(
                f"{notes[0].path} is private: `thumbindex list --private` says why."
            ) from None
        raise


def _complete(file: str, argument: str, library: Library) -> tuple[str, str]:
    """Return a path that an answer shortened in the middle as a whole, alone and in `argument`."""
    start, _, end = file.partition("…")
    roots = dict(library.folders)
    shown = (shown_path(roots, note.folder, note.path) for note in library.listing().notes)
    whole = [path for path in shown if path.startswith(start) and path.endswith(end)]
    return (whole[0], whole[0] + argument[len(file) :]) if len(whole) == 1 else (file, argument)


def update_index(library: Library, complete: bool = False) -> None:
    """Update the index, or report the error and go on with the existing index."""
    if remote_command():  # the server's index is up to date
        return
    try:
        with ProgressDisplay() as show:
            library.index(complete=complete, progress=show, after_others=complete)
    except (UnknownFolderError, StorageError) as error:
        if not library.indexed or isinstance(error, IndexDamagedError):
            raise
        print_error(f"{str(error).removesuffix('.')}. Answering from the existing index.")
