"""The program `thumbindex`: its commands, in the sections of its help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Annotated

import typer

from thumbindex.cli.ask import list_command, properties, query, why_note
from thumbindex.cli.duplicates import duplicates
from thumbindex.cli.engine import engine
from thumbindex.cli.evaluate import evaluate_queries
from thumbindex.cli.folders import add, folders, forget, index, remove, status
from thumbindex.cli.last_answer import open_result
from thumbindex.cli.notes import broken, orphans, outline, read, related, retired, unlinked, verify
from thumbindex.cli.program import PROGRAM, GroupedCommands, Program, examples_epilog
from thumbindex.cli.serve import page, serve, token
from thumbindex.cli.setup import doctor, install

FIRST_STEPS = (
    'query "how do I sync two devices?" --folder notes',
    "install cursor --folder notes",
    "query --help",
)

_Entry = tuple[str, Callable[..., None] | typer.Typer, tuple[str, ...]]

_COMMANDS: Mapping[str, tuple[_Entry, ...]] = {
    "Ask": (
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
            "read",
            read,
            (
                'read "Ideas/tea.md (lines 11-14)"',
                "read tea.md#Brewing milk.md:1-20",
            ),
        ),
        ("open", open_result, ("open 2", "open --with obsidian")),
        ("related", related, ("related Ideas/tea.md", "related Ideas/tea.md --limit 3")),
        ("outline", outline, ("outline Ideas", "outline Ideas/tea.md")),
        (
            "list",
            list_command,
            (
                "list --folder notes --tag recipe",
                "list --where status:doing --sort due --columns status,due",
                "list --private",
            ),
        ),
        ("properties", properties, ("properties --folder notes", "properties status")),
    ),
    "Set up": (
        ("add", add, ("add notes", 'add notes --name journal --about "What I did, day by day."')),
        ("folders", folders, ("folders", "folders --json")),
        ("remove", remove, ("remove notes",)),
        ("index", index, ("index --folder notes", "index --folder notes --complete")),
        ("status", status, ("status", "status --folder notes --json")),
        (
            "forget",
            forget,
            ("forget --folder notes", "forget --folder old-notes --index elsewhere"),
        ),
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
        ("doctor", doctor, ("doctor", "doctor --folder notes --json")),
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
    ),
    "Look after": (
        ("broken", broken, ("broken", "broken --path 'Ideas/**'")),
        ("retired", retired, ("retired", "retired --path 'adr/**'")),
        ("orphans", orphans, ("orphans", "orphans --tag project")),
        ("unlinked", unlinked, ("unlinked --folder notes", "unlinked --limit 50")),
        (
            "duplicates",
            duplicates,
            ("duplicates --folder notes", "duplicates --grey", "duplicates review"),
        ),
        (
            "verify",
            verify,
            (
                "verify --file answer.md",
                """verify 'plans.md#Budget (lines 3-9) says "4,000 euros"'""",
            ),
        ),
        (
            "why",
            why_note,
            (
                "why plans.md who decides about the budget",
                'why "plans.md#Budget" "who decides?" --limit 10',
            ),
        ),
    ),
    "Share": (
        ("token", token, ("token alice", "token alice --token-file team.tokens")),
        (
            "engine",
            engine,
            ("engine migrate --engine URL", "engine publish --watch --folder notes --engine URL"),
        ),
    ),
    "Measure": (
        (
            "eval",
            evaluate_queries,
            ("eval --from-links --folder notes", "eval queries.jsonl --folder notes --json"),
        ),
    ),
}
"""The sections of the help, with each command's name, function (or group), and examples.

Examples omit the leading `thumbindex`.
"""

app = Program(
    name=PROGRAM,
    cls=GroupedCommands,
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


for _section, _entries in _COMMANDS.items():
    for _name, _command, _examples in _entries:
        if isinstance(_command, typer.Typer):
            _epilog = examples_epilog(_examples)
            app.add_typer(_command, name=_name, epilog=_epilog, rich_help_panel=_section)
        else:
            app.command(_name, examples=_examples, rich_help_panel=_section)(_command)
