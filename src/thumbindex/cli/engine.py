"""The commands `engine`: publish folders to a PostgreSQL database that many servers can share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex import postgres
from thumbindex.background.supervisor import IndexerSupervisor, indexer_command
from thumbindex.cli.options import open_for, opening_or_engine_options
from thumbindex.cli.program import Program
from thumbindex.cli.terminal import ProgressDisplay, print_line
from thumbindex.errors import StorageError, UnknownFolderError, UsageError
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, exits_with_code, print_error
from thumbindex.text import plural

if TYPE_CHECKING:
    from thumbindex.library import Folder, Library
    from thumbindex.model import Progress

PUBLISH_POLL_SECONDS = 0.1
"""Interval between checks for a new generation. Each check is one `stat` call."""

RETRY_SECONDS = 5.0
"""Pause after a failure: a database takes seconds to restart."""

VECTOR_INDEX_SECONDS = 60.0
"""Interval between attempts to create vector indexes for folders that have grown."""

engine = Program(help="Publish folders to a PostgreSQL database.")


def database_url(opening: OpenOptions) -> str:
    """Return the database's URL. Raises UsageError if none is given."""
    if not (url := opening.database):
        raise UsageError(
            "No database is configured: use --engine postgresql://host/name, or set `url` under "
            "[engine] in your configuration."
        )
    return url


@engine.command(examples=("engine migrate --engine postgresql://db.example.org/notes",))
@exits_with_code
@opening_or_engine_options
def migrate(
    ctx: typer.Context,
    opening: OpenOptions,
) -> int:
    """Create the tables in a database.

    Replaces tables of an earlier version. Builders then publish their folders again.
    """
    url = database_url(opening)
    with closing(postgres.Engine(url, writes=True)) as database:
        before, after = database.migrate(), database.version()
    if before == after:
        print_line(f"The tables already have schema {after}: nothing was changed.")
    else:
        replaced = (
            f", replacing schema {before}: builders publish their folders again" if before else ""
        )
        print_line(f"Created the tables of schema {after}{replaced}.")
    return FOUND


@engine.command(
    examples=(
        "engine publish --folder notes --engine postgresql://db.example.org/notes",
        "engine publish --watch --engine postgresql://db.example.org/notes",
    )
)
@exits_with_code
@opening_or_engine_options
def publish(
    ctx: typer.Context,
    opening: OpenOptions,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running and publish each change of the notes.")
    ] = False,
) -> int:
    """Index folders on this machine and publish the changes.

    Servers switch to each new generation as a whole.
    """
    url, local = database_url(opening), replace(opening, engine=None)
    if not (opening.folder or opening.load().folders):
        raise UsageError("No folder is configured: use --folder, or run `thumbindex add DIR`.")

    with open_for(ctx, local) as library:
        if watch:
            _follow(library, local, url)
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
            publications = postgres.publish_folders(library.opened, url, show)
        names = [name for name, _ in library.folders]
    for publication in publications:
        print_line(_publication_line(publication))
    for name in sorted({*names} - {publication.name for publication in publications}):
        print_line(f"{name}: unchanged, already published")
    return FOUND


def _publication_line(published: Any) -> str:
    size = f"{plural(published.documents, 'note')}, {plural(published.chunks, 'passage')}"
    return (
        f"{published.name}: generation {published.generation:,} published, {size}; "
        f"{published.added:,} added, {published.removed:,} removed"
    )


def _follow(library: Library, opening: OpenOptions, url: str) -> None:
    """Publish each generation until interrupted."""
    folders, show = library.opened, ProgressDisplay()
    is_watched = library.config.serve.watch.enabled
    # index before publishing, since a note may have become private since the last run
    if is_watched:
        with show:
            library.index(progress=show, after_others=True, complete=False)
    # a child process keeps the indexes up to date if no other process does
    indexer = IndexerSupervisor(partial(indexer_command, opening), folders if is_watched else ())
    indexer.start()
    builder = Builder(folders, url, tell=show)
    last_notes: tuple[str, ...] = ()
    try:
        with show:  # only the first load is slow
            builder.publish_changes()
        while True:
            pause = builder.publish_changes()
            notes = indexer.notes()
            for note in notes if notes != last_notes else ():
                print_error(note)
            last_notes = notes
            time.sleep(pause)
    finally:
        builder.close()
        indexer.stop()


class Builder:
    """Publishes changes. After a failure, it reports the failure once and keeps retrying."""

    def __init__(
        self,
        folders: Sequence[Folder],
        url: str,
        tell: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._open = partial(postgres.PublishJob, folders, url, tell)
        # an error at the start ends the command
        self._publishing: postgres.PublishJob | None = self._open()
        self._next_index_check = 0.0
        self._failure = ""

    def publish_changes(self) -> float:
        """Publish the changes; return the seconds until the next call."""
        try:
            self._publishing = self._publishing or self._open()
            publications = self._publishing.publish_changes()
            for publication in publications:
                print_line(_publication_line(publication))
            if time.monotonic() >= self._next_index_check:
                self._publishing.create_vector_indexes()
                self._next_index_check = time.monotonic() + VECTOR_INDEX_SECONDS
            if self._publishing.failure:
                raise self._publishing.failure
        except StorageError as error:
            if str(error) != self._failure:
                print_error(f"{error} Retrying.")
            self._failure = str(error)
            return RETRY_SECONDS
        if self._failure:
            print_line("Publishing again.")
        self._failure = ""
        return PUBLISH_POLL_SECONDS

    def close(self) -> None:
        """Close files and connections."""
        if self._publishing is not None:
            self._publishing.close()


@engine.command(
    "forget", examples=("engine forget notes --engine postgresql://db.example.org/notes",)
)
@exits_with_code
@opening_or_engine_options
def engine_forget(
    ctx: typer.Context,
    opening: OpenOptions,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The folder's name in `thumbindex status`."),
    ],
) -> int:
    """Remove a folder from the database.

    The folder's notes and its index on the builder's machine stay.
    """
    url = database_url(opening)
    if not postgres.forget_folder(url, name):
        raise UnknownFolderError(
            f"No published folder is named {name!r}: `thumbindex status --engine URL` lists them."
        )
    print_line(
        f"{name} is no longer published. A builder that is still running will publish it again."
    )
    return FOUND
