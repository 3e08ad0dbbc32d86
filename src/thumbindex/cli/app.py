"""The command line: every command opens the library, asks it one thing and prints the result."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.cli.duplicates import duplicates
from thumbindex.cli.engine import engine
from thumbindex.cli.evaluate import evaluate_queries
from thumbindex.cli.folders import add, folders, remove
from thumbindex.cli.last_answer import erase_answer, open_result, remember_answer
from thumbindex.cli.notes import (
    broken,
    index_words,
    named_here,
    orphans,
    outline,
    read,
    related,
    unlinked,
    verify,
)
from thumbindex.cli.options import (
    AlsoOption,
    GlobOption,
    JsonOption,
    PassageOption,
    SinceOption,
    TagOption,
    UntilOption,
    open_for,
    open_named,
    takes_opening,
    takes_opening_or_engine,
)
from thumbindex.cli.print_answers import first_of_notes, print_answer, print_files
from thumbindex.cli.program import PROGRAM, Program, shown_examples
from thumbindex.cli.serve import page, serve
from thumbindex.cli.terminal import (
    ProgressDisplay,
    print_forgotten,
    print_json,
    print_list,
    print_report,
    print_status,
    print_why,
)
from thumbindex.errors import (
    IndexBusyError,
    IndexDamagedError,
    ModelError,
    UnknownFolderError,
    UsageError,
)
from thumbindex.install.doctor import doctor
from thumbindex.install.install import install
from thumbindex.model import Answer, Filters, Query
from thumbindex.opening import Opening, open_everywhere
from thumbindex.present.as_json import (
    answer_payload,
    list_payload,
    report_payload,
    status_payload,
)
from thumbindex.present.as_json import as_json as to_json
from thumbindex.present.failures import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.present.sentences import CHECK_GLOB, unmatched_glob_warning
from thumbindex.process import caller
from thumbindex.web.token_file import add_token, default_token_file

if TYPE_CHECKING:
    from thumbindex.library import Library


@exits_with_code
@takes_opening
def token(
    ctx: typer.Context,
    opening: Opening,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose token it is, as in `tokens` of a folder.")
    ],
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Where its hash is written; without it, into your configuration.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for a client of `serve --http`.

    It is printed this once: the file keeps its hash alone.
    """
    configured = opening.load().serve.http.token_file
    path = (token_file or (Path(configured) if configured else default_token_file())).expanduser()
    made = add_token(path, name)
    if as_json:
        print_json({"name": name, "token": made, "token_file": str(path)})
    else:
        typer.echo(made)
        print_error(
            f"Its hash is in {path}; the token itself is kept nowhere. A client sends it as "
            "`Authorization: Bearer`."
        )
        if path == default_token_file():
            print_error(
                "From its next start on, `thumbindex serve --http` asks for a token of this file."
            )
    return FOUND


@exits_with_code
@takes_opening_or_engine
def why_note(
    ctx: typer.Context,
    opening: Opening,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A note, as for `read`, or path#heading.")
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY", help="The question that it should answer, in quotes or not."
        ),
    ],
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Passages that were asked for, 1 to 100."),
    ] = None,
    also: AlsoOption = None,
    passage: PassageOption = "",
    tag: TagOption = None,
    glob: GlobOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tell why a note does or does not answer a question.

    Indexes nothing.
    """
    asked = Query.of(
        " ".join(words),
        also=also,
        passage=passage,
        limit=limit,
        tag=tag,
        path=glob,
        since=since,
        until=until,
    )
    with open_for(ctx, opening) as library:
        _load_models(library)
        found = library.why(named_here(path, library), asked)
        several = len(library.folders) > 1
    if as_json:
        print_json(to_json(found))
    else:
        print_why(found, several)
    return FOUND


def _load_models(library: Library) -> None:
    """Load the models where there are vectors to search."""
    try:
        if any(state.vectors for state in library.states().values()):
            library.load_models()
    except ModelError as error:
        print_error(f"{error} {library.without_model}")


FIRST_STEPS = (
    'query "how do I sync two devices?" --folder notes',
    "install cursor --folder notes",
    "query --help",
)

app = Program(
    name=PROGRAM,
    help="Answer questions from folders of Markdown with the right passages, cited to the line.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=shown_examples(FIRST_STEPS),
)

_WAIT_FRESH = (
    "Say whether the answer knows all that is on disk. What changed before is always indexed "
    "first; "
    "what changes after that is waited for up to so many seconds (60 at most), where a server is "
    "there to index it."
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"thumbindex {version('thumbindex')}")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Answer questions from folders of Markdown with the right passages, cited to the line."""


@app.command(examples=("index --folder notes", "index --folder notes --words-only"))
@exits_with_code
@takes_opening
def index(
    ctx: typer.Context,
    opening: Opening,
    words_only: Annotated[
        bool,
        typer.Option(
            "--words-only", help="Leave the vectors for later: keywords and links answer at once."
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Read every file again; texts that have a vector keep it."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare every file's digest, not its facts alone, and read the whole index.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the index up to date, vectors too."""
    with open_for(ctx, opening) as library, ProgressDisplay() as show:
        report = library.index(
            words_only=words_only, rebuild=rebuild, verify=verify, progress=show, after_others=True
        )
        unmatched = library.unmatched_private_globs()
    if as_json:
        print_json(report_payload(report))
    else:
        print_report(report, opening.command("broken"))
    _warn_of_globs(unmatched)
    return FOUND


def _warn_of_globs(unmatched: tuple[str, ...]) -> None:
    for glob in unmatched:
        print_error(f"{unmatched_glob_warning(glob)}. {CHECK_GLOB}", color="yellow")


@app.command(
    examples=(
        'query "how do I sync two devices?" --folder notes',
        'query "pancakes tag:recipe -sugar" --limit 3',
        'query "what changed in the plan" --since 2026-01-01 --json',
    ),
)
@exits_with_code
@takes_opening_or_engine
def query(
    ctx: typer.Context,
    opening: Opening,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="The question, in quotes or not. One that begins with a dash follows `--`.",
        ),
    ],
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Passages returned, 1 to 100.")
    ] = None,
    also: AlsoOption = None,
    passage: PassageOption = "",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show what each stage did, and how each passage came to its place."
        ),
    ] = False,
    tag: TagOption = None,
    path: GlobOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all vectors are there.")] = False,
    wait_fresh: Annotated[
        float, typer.Option("--wait-fresh", metavar="SECONDS", help=_WAIT_FRESH)
    ] = 0.0,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole sections, not the matching lines alone.")
    ] = False,
    files: Annotated[
        bool,
        typer.Option(
            "--files", help="Print the paths of the notes alone, one a line, the best first."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Find the passages that answer a question.

    Shows where each stands, as path:line, and the lines that match.
    """
    asked = Query.of(
        " ".join(words),
        also=also,
        passage=passage,
        limit=limit,
        tag=tag,
        path=path,
        since=since,
        until=until,
    )
    if sum((full, files, as_json)) > 1:
        raise UsageError("--full, --files and --json exclude each other: give one of them.")
    with open_for(ctx, opening) as library:
        ask = partial(library.query, asked, wait_fresh=wait_fresh, explain=explain)
        answer = _answer(library, ask, wait)
        roots = dict(library.folders)
        if as_json:
            print_json(answer_payload(answer, explain))
        elif files:
            answer = first_of_notes(library.marked(answer))  # the Nth path is what `open N` opens
            remember_answer(answer, library.folders, opening)
            print_files(answer, roots)
        else:
            narrowed = [f"--{name}" for name in dict(asked.filters.given())]
            answer = library.marked(answer)
            remember_answer(answer, library.folders, opening)
            print_answer(
                answer,
                roots,
                full,
                explain,
                narrowed,
                library.models_ready,
                opening.command("index"),
            )
    return FOUND if answer.answerable else NOT_FOUND


@app.command(
    "list", examples=("list --folder notes --tag recipe", "list --since 2026-01-01 --limit 20")
)
@exits_with_code
@takes_opening_or_engine
def list_command(
    ctx: typer.Context,
    opening: Opening,
    tag: TagOption = None,
    path: GlobOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Notes listed; all without it."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List notes by tag, path and date, the newest first."""
    filters = Filters.of(tag=tag, path=path, since=since, until=until)
    with open_for(ctx, opening) as library:
        index_words(library)
        found = library.listing(filters)
        several = len(library.folders) > 1
    if as_json:
        print_json(list_payload(found, limit))
    else:
        print_list(found, limit, several)
    return FOUND if found.notes else NOT_FOUND


app.command(
    examples=(
        'read "Ideas/tea.md (lines 11-14)"',
        "read Ideas/tea.md --heading Brewing",
        "read tea.md#Brewing milk.md:1-20",
    )
)(read)
app.command("open", examples=("open 2", "open --with obsidian"))(open_result)
app.command(examples=("outline Ideas", "outline Ideas/tea.md"))(outline)
app.command(examples=("related Ideas/tea.md", "related Ideas/tea.md --limit 3"))(related)
app.command(
    examples=(
        "verify --file answer.md",
        """verify 'plans.md#Budget (lines 3-9) says "4,000 euros"'""",
    )
)(verify)
app.command(examples=("broken", "broken --path 'Ideas/**'"))(broken)
app.command(examples=("orphans", "orphans --tag project"))(orphans)
app.command(examples=("unlinked --folder notes", "unlinked --limit 50"))(unlinked)
# help lists the commands in this order: what a newcomer needs stands first
app.command(
    examples=(
        "serve --folder notes",
        "serve --http --port 8080 --folder notes",
        "serve --http --engine postgresql://db.example.org/notes",
    )
)(serve)
app.command(examples=("page --folder notes", "page --no-browser --port 9000"))(page)
app.command(
    "install",
    examples=(
        "install",
        "install cursor --folder notes",
        "install claude-code --dry-run",
        "install --project --folder docs",
    ),
)(install)
app.command(examples=("add notes", 'add notes --name journal --about "What I did, day by day."'))(
    add
)
app.command(examples=("folders", "folders --json"))(folders)
app.command(examples=("remove notes",))(remove)


@app.command(examples=("status", "status --folder notes --json"))
@exits_with_code
@takes_opening_or_engine
def status(
    ctx: typer.Context,
    opening: Opening,
    as_json: JsonOption = False,
) -> int:
    """List the indexes, their size, model and state.

    Those of --folder, else all of them.
    """
    if opening.index and not opening.database and not opening.index.expanduser().is_dir():
        raise UsageError(
            f"There is no index directory {opening.index}: check the path, or make one with "
            f"`thumbindex index --index {opening.index}`."
        )
    is_chosen = opening.folder or opening.database
    with open_for(ctx, opening) if is_chosen else open_everywhere(opening) as library:
        folders, unmatched = library.status(), library.unmatched_private_globs()
    if as_json:
        print_json(status_payload(folders))
    else:
        print_status(folders)
    _warn_of_globs(unmatched)
    return FOUND


@app.command(examples=("forget --folder notes", "forget --folder old-notes --index elsewhere"))
@exits_with_code
@takes_opening
def forget(
    ctx: typer.Context,
    opening: Opening,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Without --folder, too: those of the configured folders, else of the current one.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Delete the index of a folder, never the folder.

    The folder itself may be gone.
    """
    with _to_forget(ctx, opening) as library:
        if not opening.folder and not yes:
            roots = " ".join(f"--folder {shlex.quote(str(root))}" for _, root in library.folders)
            raise UsageError(
                f"Nothing was deleted: which index is meant? Run it with `{roots}`, or with --yes."
            )
        if watched := library.watched():
            raise IndexBusyError(
                f"Nothing was deleted: a server watches {', '.join(watched)} and would build "
                "the index again. End it first."
            )
        if running := [each.progress for each in library.status() if each.progress]:
            who = ", ".join(f"process {each.pid} is indexing {each.folder}" for each in running)
            raise IndexBusyError(
                f"Nothing was deleted: {who} and would make the index again. End it first, or "
                "wait until it is done."
            )
        folders = library.forget()
        erase_answer(root for _, root in library.folders)
    if as_json:
        print_json(status_payload(folders))
    else:
        print_forgotten(folders)
    return FOUND


app.command(
    "why",
    examples=(
        "why plans.md who decides about the budget",
        'why "plans.md#Budget" "who decides?" --limit 10',
    ),
)(why_note)
app.command("doctor", examples=("doctor", "doctor --folder notes --json"))(doctor)
app.add_typer(
    duplicates,
    name="duplicates",
    epilog=shown_examples(("duplicates --folder notes", "duplicates --grey", "duplicates review")),
)
app.add_typer(
    engine,
    name="engine",
    epilog=shown_examples(
        ("engine migrate --engine URL", "engine publish --watch --folder notes --engine URL")
    ),
)
app.command(
    "eval",
    examples=(
        "eval --from-links --folder notes",
        "eval queries.jsonl --folder notes --json",
    ),
)(evaluate_queries)
app.command("token", examples=("token alice", "token alice --token-file team.tokens"))(token)


def _to_forget(ctx: typer.Context, opening: Opening) -> AbstractContextManager[Library]:
    """Open what is to be forgotten; the index of a folder that is gone is found by the folder's old
    path or name.
    """
    try:
        return open_named(ctx, opening)
    except UnknownFolderError:
        library = open_everywhere(opening)
        if not library.folders:
            raise
        return library


def _answer(library: Library, ask: Callable[[], Answer], wait: bool) -> Answer:
    """Ask what is up to date; repair an index that shows damage, and ask again."""
    try:
        _make_ready(library, wait)
        return ask()
    except IndexDamagedError:
        if caller():  # the command repairs it itself
            raise
        library.repair()
        _make_ready(library, wait)
        return ask()


def _make_ready(library: Library, wait: bool) -> None:
    """Bring the words up to date, the vectors too with `wait`, and load the models where there are
    vectors to search.
    """
    try:
        index_words(library, wait)
    except ModelError as error:
        print_error(f"{error} {library.without_model}")
        return
    _load_models(library)
