"""The commands `engine`: publish folders to a PostgreSQL database, from which any number of servers
answer, and look after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex import postgres
from thumbindex.background.supervisor import IndexerSupervisor, indexer_command
from thumbindex.cli.options import JsonOption, open_for, opening_or_engine_options
from thumbindex.cli.program import Program
from thumbindex.cli.terminal import ProgressDisplay, print_json, print_line
from thumbindex.errors import StorageError, UnknownFolderError, UsageError
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.text import plural

if TYPE_CHECKING:
    from thumbindex.library import Folder, Library
    from thumbindex.model import Progress

PUBLISH_POLL_SECONDS = 0.1
"""How often a builder looks for a new generation: a file's facts are compared, nothing is read."""

RETRY_SECONDS = 5.0
"""After a failure: a database that is started again takes seconds."""

CLEANUP_SECONDS = 60.0
"""Between two looks for what nobody reads any more, and for folders that have grown."""

engine = Program(help="Publish folders to a PostgreSQL database.")


def database_url(opening: OpenOptions) -> str:
    """Return the address of the database that is meant. Raises UsageError where none is named."""
    if not (url := opening.database):
        raise UsageError(
            "Which database is meant? Name it by --engine postgresql://host/name, or as `url` "
            "of [engine] in your configuration."
        )
    return url


@engine.command(examples=("engine migrate --engine postgresql://db.example.org/notes",))
@exits_with_code
@opening_or_engine_options
def migrate(
    ctx: typer.Context,
    opening: OpenOptions,
    as_json: JsonOption = False,
) -> int:
    """Make the tables in a database.

    Those of an earlier version are made anew: builders publish again what was there.
    """
    url = database_url(opening)
    with closing(postgres.Engine(url, writes=True)) as database:
        before, after = database.migrate(), database.version()
    if as_json:
        print_json({"before": before, "schema": after})
    elif before == after:
        print_line(f"The tables are of schema {after} already: nothing was changed.")
    else:
        anew = (
            f" anew, in place of schema {before}: builders publish their folders again"
            if before
            else ""
        )
        print_line(f"The tables were made{anew or f', of schema {after}'}.")
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
        bool, typer.Option("--watch", help="Stay, follow the notes, and publish each change.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Index folders here and publish what has changed.

    Servers see all of a generation, or the one before.
    """
    url, here = database_url(opening), replace(opening, engine=None)
    if not (opening.folder or opening.load().folders):
        raise UsageError(
            "Which folders are meant? Name them by --folder, or as [[folders]] in your "
            "configuration."
        )

    with open_for(ctx, here) as library:
        if watch:
            _follow(library, here, url, as_json)
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
            done = postgres.publish_folders(library.opened, url, show)
        names = [name for name, _ in library.folders]
    if as_json:
        print_json(
            {
                "published": [asdict(each) for each in done],
                "unchanged": sorted({*names} - {each.name for each in done}),
            }
        )
    else:
        for each in done:
            print_line(_publication_line(each))
        for name in sorted({*names} - {each.name for each in done}):
            print_line(f"{name}: published already, nothing has changed")
    return FOUND


def _publication_line(published: Any) -> str:
    size = f"{plural(published.documents, 'document')}, {plural(published.chunks, 'chunk')}"
    return (
        f"{published.name}: generation {published.generation:,} published, {size}; "
        f"{published.added:,} came, {published.removed:,} went"
    )


def _follow(library: Library, opening: OpenOptions, url: str, as_json: bool) -> None:
    """Have the indexes kept up to the disk, by a child or whoever does it already, and publish each
    generation until this is interrupted.
    """
    folders, show = library.opened, ProgressDisplay()
    is_watched = library.config.serve.watch.enabled
    # before anything is published: a note may have become private since this disk was written last
    if is_watched:
        with show:
            library.index(progress=show, after_others=True, words_only=True)
    indexer = IndexerSupervisor(partial(indexer_command, opening), folders if is_watched else ())
    indexer.start()
    builder = Builder(folders, url, as_json, tell=show)
    said: tuple[str, ...] = ()
    try:
        with show:  # a first load takes its time; later ones do not
            builder.publish_changes()
        while True:
            pause = builder.publish_changes()
            notes = indexer.notes()
            for note in notes if notes != said else ():
                print_error(note)
            said = notes
            time.sleep(pause)
    finally:
        builder.close()
        indexer.stop()


class Builder:
    """Publishes what is new; what fails is said once and tried again."""

    def __init__(
        self,
        folders: Sequence[Folder],
        url: str,
        as_json: bool,
        tell: Callable[[Progress], None] = lambda progress: None,
    ) -> None:

        self._as_json = as_json
        self._open = partial(postgres.PublishJob, folders, url, tell)
        # what is wrong at the beginning ends the command
        self._publishing: postgres.PublishJob | None = self._open()
        self._tidy_at = 0.0
        self._failure = ""

    def publish_changes(self) -> float:
        """Publish what has changed; return for how many seconds nothing needs to be done."""
        try:
            self._publishing = self._publishing or self._open()
            done = self._publishing.publish_changes()
            for each in done:
                if self._as_json:
                    print_json(asdict(each))
                else:
                    print_line(_publication_line(each))
            if time.monotonic() >= self._tidy_at:
                self._publishing.create_vector_indexes()
                self._tidy_at = time.monotonic() + CLEANUP_SECONDS
            if self._publishing.failure:
                raise self._publishing.failure
        except StorageError as error:
            if str(error) != self._failure:
                print_error(f"{error} It is tried again.")
            self._failure = str(error)
            return RETRY_SECONDS
        if self._failure:
            print_line("Publishing goes on.")
        self._failure = ""
        return PUBLISH_POLL_SECONDS

    def close(self) -> None:
        """Close the files and connections."""
        if self._publishing is not None:
            self._publishing.close()


@engine.command("folders", examples=("engine folders --engine postgresql://db.example.org/notes",))
@exits_with_code
@opening_or_engine_options
def engine_folders(ctx: typer.Context, opening: OpenOptions, as_json: JsonOption = False) -> int:
    """List what is published.

    Shows each folder's generation, size, and when a builder last confirmed it.
    """
    url = database_url(opening)
    with closing(postgres.Engine(url)) as database:
        there = postgres.list_published(database)
    found = [each for each in there if not opening.folder or each.name in opening.folder]
    if as_json:
        kept = ("name", "generation", "documents", "chunks", "vectors", "published")
        facts = [
            {key: value for key, value in asdict(each).items() if key in kept} for each in found
        ]
        print_json({"folders": facts})
    for each in found if not as_json else ():
        size = (
            f"{plural(each.documents, 'document')}, {plural(each.chunks, 'chunk')}, "
            f"{plural(each.vectors, 'vector')}"
        )
        print_line(f"{each.name}: generation {each.generation:,}, {size}, {each.published}")
    if not found and not as_json:
        print_line("Nothing is published: `thumbindex engine publish --folder DIR` does it.")
    return FOUND if found else NOT_FOUND


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
        typer.Argument(
            metavar="NAME", help="The folder's name, as `thumbindex engine folders` lists it."
        ),
    ],
    as_json: JsonOption = False,
) -> int:
    """Delete what is published of a folder.

    Its notes and its index on the builder's machine stay.
    """
    url = database_url(opening)
    if not postgres.forget_folder(url, name):
        raise UnknownFolderError(
            f"Nothing is published under the name {name!r}: `thumbindex engine folders` lists "
            "what is."
        )
    if as_json:
        print_json({"forgotten": name})
    else:
        print_line(f"{name} is no longer published. A builder that still runs publishes it again.")
    return FOUND
