"""The program `thumbindex`: its commands, in the order of its help."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from thumbindex.cli.ask import list_command, query, why_note
from thumbindex.cli.duplicates import duplicates
from thumbindex.cli.engine import engine
from thumbindex.cli.evaluate import evaluate_queries
from thumbindex.cli.folders import add, folders, forget, index, remove, status
from thumbindex.cli.last_answer import open_result
from thumbindex.cli.notes import broken, orphans, outline, read, related, unlinked, verify
from thumbindex.cli.program import PROGRAM, Program, examples_epilog
from thumbindex.cli.serve import page, serve, token
from thumbindex.cli.setup import doctor, install

FIRST_STEPS = (
    'query "how do I sync two devices?" --folder notes',
    "install cursor --folder notes",
    "query --help",
)

_COMMANDS: tuple[tuple[str, Callable[..., None] | typer.Typer, tuple[str, ...]], ...] = (
    ("index", index, ("index --folder notes", "index --folder notes --complete")),
    (
        "query",
        query,
        (
            'query "how do I sync two devices?" --folder notes',
            'query "pancakes tag:recipe -sugar" --limit 3',
            'query "what changed in the plan" --since 2026-01-01 --json',
        ),
    ),
    (
        "list",
        list_command,
        (
            "list --folder notes --tag recipe",
            "list --since 2026-01-01 --limit 20",
            "list --private",
        ),
    ),
    (
        "read",
        read,
        (
            'read "Ideas/tea.md (lines 11-14)"',
            "read Ideas/tea.md --heading Brewing",
            "read tea.md#Brewing milk.md:1-20",
        ),
    ),
    ("open", open_result, ("open 2", "open --with obsidian")),
    ("outline", outline, ("outline Ideas", "outline Ideas/tea.md")),
    ("related", related, ("related Ideas/tea.md", "related Ideas/tea.md --limit 3")),
    (
        "verify",
        verify,
        (
            "verify --file answer.md",
            """verify 'plans.md#Budget (lines 3-9) says "4,000 euros"'""",
        ),
    ),
    ("broken", broken, ("broken", "broken --path 'Ideas/**'")),
    ("orphans", orphans, ("orphans", "orphans --tag project")),
    ("unlinked", unlinked, ("unlinked --folder notes", "unlinked --limit 50")),
    (
        "serve",
        serve,
        (
            "serve --folder notes",
            "serve --http --port 8080 --folder notes",
            "serve --http --engine postgresql://db.example.org/notes",
        ),
    ),
    ("page", page, ("page --folder notes", "page --no-browser --port 9000")),
    (
        "install",
        install,
        (
            "install",
            "install cursor --folder notes",
            "install claude-code --dry-run",
            "install --project --folder docs",
        ),
    ),
    ("add", add, ("add notes", 'add notes --name journal --about "What I did, day by day."')),
    ("folders", folders, ("folders", "folders --json")),
    ("remove", remove, ("remove notes",)),
    ("status", status, ("status", "status --folder notes --json")),
    ("forget", forget, ("forget --folder notes", "forget --folder old-notes --index elsewhere")),
    (
        "why",
        why_note,
        (
            "why plans.md who decides about the budget",
            'why "plans.md#Budget" "who decides?" --limit 10',
        ),
    ),
    ("doctor", doctor, ("doctor", "doctor --folder notes --json")),
    (
        "duplicates",
        duplicates,
        ("duplicates --folder notes", "duplicates --grey", "duplicates review"),
    ),
    (
        "engine",
        engine,
        ("engine migrate --engine URL", "engine publish --watch --folder notes --engine URL"),
    ),
    (
        "eval",
        evaluate_queries,
        ("eval --from-links --folder notes", "eval queries.jsonl --folder notes --json"),
    ),
    ("token", token, ("token alice", "token alice --token-file team.tokens")),
)
"""Each command's name, function (or group), and examples without the leading `thumbindex`."""

app = Program(
    name=PROGRAM,
    help="Answer questions from folders of Markdown with the right passages, cited to the line.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=examples_epilog(FIRST_STEPS),
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"thumbindex {version('thumbindex')}")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Answer questions from folders of Markdown with the right passages, cited to the line."""


for _name, _command, _examples in _COMMANDS:
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name, epilog=examples_epilog(_examples))
    else:
        app.command(_name, examples=_examples)(_command)
