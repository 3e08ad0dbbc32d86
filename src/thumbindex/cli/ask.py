"""The commands that answer a question: `query`, `list`, `properties` and `why`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.cli.last_answer import remember_answer
from thumbindex.cli.notes import resolve_from_cwd, telling_private, update_index
from thumbindex.cli.options import (
    AlsoOption,
    GlobOption,
    JsonOption,
    PassageOption,
    RetiredOption,
    SinceOption,
    TagOption,
    UntilOption,
    VerbatimOption,
    WhereOption,
    open_for,
    opening_or_engine_options,
)
from thumbindex.cli.print_answers import best_of_each_note, print_answer, print_files
from thumbindex.cli.terminal import (
    location_text,
    print_json,
    print_line,
    print_list,
    print_properties,
    print_why,
    shown_path,
    stdout_console,
)
from thumbindex.errors import IndexDamagedError, ModelError, UsageError
from thumbindex.model import MAX_PASSAGES, Answer, Filters, Query
from thumbindex.opening import OpenOptions
from thumbindex.present.as_json import answer_payload, list_payload
from thumbindex.present.as_json import as_json as to_json
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.process import remote_command
from thumbindex.text import plural, printable_line

if TYPE_CHECKING:
    from thumbindex.library import Library


@exits_with_code
@opening_or_engine_options
def why_note(
    ctx: typer.Context,
    opening: OpenOptions,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A note, as for `read`, or path#heading.")
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="The question to be answered, with or without quotes.",
        ),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            max=MAX_PASSAGES,
            help="Maximum passages in the answer.",
        ),
    ] = None,
    also: AlsoOption = None,
    passage: PassageOption = "",
    verbatim: VerbatimOption = False,
    retired: RetiredOption = False,
    tag: TagOption = None,
    glob: GlobOption = None,
    where: WhereOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain why a note does or does not answer a question.

    Changed notes are indexed first, without vectors.
    """
    request = Query.of(
        " ".join(words),
        also=also,
        passage=passage,
        verbatim=verbatim,
        retired=retired,
        limit=limit,
        tag=tag,
        path=glob,
        since=since,
        until=until,
        where=where,
    )
    with open_for(ctx, opening) as library:
        _make_ready(library)
        with telling_private(library, path := resolve_from_cwd(path, library)):
            report = library.why(path, request)
        roots = dict(library.folders)
    if as_json:
        print_json(to_json(report))
    else:
        if report.folder:
            report = replace(report, path=shown_path(roots, report.folder, report.path))
        print_why(report)
    return FOUND


def _load_models(library: Library) -> None:
    """Load the models if the index has vectors."""
    try:
        if library.has_vectors:
            library.load_models()
    except ModelError as error:
        print_error(f"{error} {library.words_only_sentence}")


@exits_with_code
@opening_or_engine_options
def query(
    ctx: typer.Context,
    opening: OpenOptions,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="The question, with or without quotes. If it begins with a dash, type `--` first.",
        ),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            max=MAX_PASSAGES,
            help="Return N passages. By default up to 5, without weaker ones.",
        ),
    ] = None,
    also: AlsoOption = None,
    passage: PassageOption = "",
    verbatim: VerbatimOption = False,
    retired: RetiredOption = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show what each stage did, and why each passage has its rank."
        ),
    ] = False,
    tag: TagOption = None,
    path: GlobOption = None,
    where: WhereOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    full: Annotated[bool, typer.Option("--full", help="Print whole sections as written.")] = False,
    files: Annotated[
        bool,
        typer.Option(
            "--files", help="Print only the paths of the notes, one per line, best first."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Find the passages that answer a question.

    Shows each passage's path:line and the lines that answer.

    The question may contain filters:

    \b
      tag:recipe  #recipe          notes with a tag
      path:guides  file:tea.md     notes whose path or file name contains a text
      title:"green tea"            notes whose title or alias contains a phrase
      status:doing  due<2026-12    notes with such a property
      "exact phrase"               passages with these words, side by side
      -sugar  -tag:draft           not with this word or tag
    """
    request = Query.of(
        " ".join(words),
        also=also,
        passage=passage,
        verbatim=verbatim,
        retired=retired,
        limit=limit,
        tag=tag,
        path=path,
        since=since,
        until=until,
        where=where,
    )
    if sum((full, files, as_json)) > 1:
        raise UsageError("--full, --files and --json cannot be combined: use only one.")
    with open_for(ctx, opening) as library:
        ask = partial(library.query, request, explain=explain)
        answer = _answer(library, ask)
        roots = dict(library.folders)
        narrowed = [f"--{name}" for name in dict(request.filters.as_pairs())]
        if as_json:
            print_json(answer_payload(answer, explain))
        elif files:
            # `open N` opens the Nth path
            nearest = answer if answer.found else replace(answer, passages=())
            answer = best_of_each_note(nearest)
            remember_answer(answer, library.folders, opening)
            print_files(answer, roots, narrowed)
        else:
            remember_answer(answer, library.folders, opening)
            print_answer(
                answer,
                roots,
                full,
                explain,
                narrowed,
                library.has_model,
                "" if remote_command() else f"{opening.command('index')} --complete",
            )
    return FOUND if answer.found else NOT_FOUND


_PRIVATE = (
    "List only the private notes, and why they are private. `private: true` in the front matter "
    "or #private anywhere in a note makes it private."
)


@exits_with_code
@opening_or_engine_options
def list_command(
    ctx: typer.Context,
    opening: OpenOptions,
    tag: TagOption = None,
    path: GlobOption = None,
    where: WhereOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort", metavar="KEY", help="Sort by title, date or a property; -KEY for descending."
        ),
    ] = "",
    columns: Annotated[
        str,
        typer.Option("--columns", metavar="KEYS", help="Show these properties: status,due."),
    ] = "",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, help="Maximum notes to list (default: all)."
        ),
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help=_PRIVATE),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """List notes by tag, path, property and date, newest first."""
    if private:
        if tag or path or where or since or until:
            raise UsageError("--private lists all private notes: omit the filters.")
        with open_for(ctx, opening) as library:
            return _list_private(library, limit, as_json)
    filters = Filters.of(tag=tag, path=path, since=since, until=until, where=where)
    keys = [key.strip().lower() for key in columns.split(",") if key.strip()]
    with open_for(ctx, opening) as library:
        update_index(library)
        listing = library.listing(filters, columns=keys, sort=sort.strip().lower())
        roots = dict(library.folders)
    if as_json:
        print_json(list_payload(listing, limit))
    else:
        print_list(listing, limit, roots)
    return FOUND if listing.notes else NOT_FOUND


_FREQUENT_VALUES = 5
"""Maximum values shown of each property in a list of all properties."""


@exits_with_code
@opening_or_engine_options
def properties(
    ctx: typer.Context,
    opening: OpenOptions,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="List all values of this property."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the properties of the notes with their values.

    Each has the number of its notes, and its most frequent values.
    """
    with open_for(ctx, opening) as library:
        update_index(library)
        counts = library.properties(key, values=None if key else _FREQUENT_VALUES)
    if as_json:
        print_json({"properties": to_json(counts)})
    else:
        print_properties(counts, of_key=key is not None)
    return FOUND if counts else NOT_FOUND


def _list_private(library: Library, limit: int | None, as_json: bool) -> int:
    notes, roots = library.private_notes(), dict(library.folders)
    if as_json:
        left_out = len(notes) - len(notes[:limit])
        print_json({"notes": to_json(notes[:limit]), "left_out": left_out})
        return FOUND if notes else NOT_FOUND
    for note in notes[:limit]:
        place = location_text(roots, note.folder, note.path, note.line)
        stdout_console().print(place.append(f"  {printable_line(note.reason)}"), soft_wrap=True)
    print_line(plural(len(notes), "private note") if notes else "No private notes.", "dim")
    return FOUND if notes else NOT_FOUND


def _answer(library: Library, ask: Callable[[], Answer]) -> Answer:
    """Update the index and call `ask`. If the index is damaged, repair it and try again."""
    try:
        _make_ready(library)
        return ask()
    except IndexDamagedError:
        if remote_command():  # the command line repairs it
            raise
        library.repair()
        _make_ready(library)
        return ask()


def _make_ready(library: Library) -> None:
    """Index changed notes, and load the models."""
    try:
        update_index(library)
    except ModelError as error:
        print_error(f"{error} {library.words_only_sentence}")
        return
    _load_models(library)
