"""`thumbindex eval`: measure the answers to labeled queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.cli.options import JsonOption, open_for, opening_options
from thumbindex.cli.terminal import ProgressDisplay, print_json, print_tables
from thumbindex.errors import UsageError
from thumbindex.evaluation.from_links import check_source, read_own_queries
from thumbindex.evaluation.queries import QuerySet, load_set
from thumbindex.evaluation.report import report_json, tables
from thumbindex.evaluation.runner import QuerySource, check_labels, evaluate_all
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, exits_with_code, print_error

if TYPE_CHECKING:
    from thumbindex.library import Library


@exits_with_code
@opening_options
def evaluate_queries(
    ctx: typer.Context,
    opening: OpenOptions,
    queries: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="QUERIES.jsonl",
            help="Files of labeled queries. NAME.KIND.jsonl is for the folder NAME.",
        ),
    ] = None,
    from_links: Annotated[
        bool,
        typer.Option(
            "--from-links", help="Derive queries from the notes' own links and descriptions."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Measure the answers to labeled queries.

    Prints quality, latency and token counts.
    """
    check_source(queries or (), from_links)
    sets = _load_sets(queries or ())
    with open_for(ctx, opening) as library:
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
        library.load_models()
        sources = _sources(sets, library)
        with ProgressDisplay() as show:
            evaluations = evaluate_all(sources, show=show)
    if as_json:
        print_json(report_json(evaluations))
    else:
        print_tables(tables(evaluations))
    return FOUND


def _load_sets(paths: Sequence[Path]) -> list[QuerySet]:
    sets = [load_set(path) for path in paths]
    names = [query_set.name for query_set in sets]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"Two query sets are named {duplicate}: rename one of the files, since results are "
            "reported by set."
        )
    return sets


def _sources(sets: Sequence[QuerySet], library: Library) -> list[QuerySource]:
    """Return each query set with the folder of its name, or with all folders.

    Without sets, derive queries from the links of each folder.
    """
    folders = {name: library.only([name]) for name, _ in library.folders}
    sources = [
        QuerySource(one.name, folders.get(one.folder, library), one.queries) for one in sets
    ] or [
        QuerySource(f"{name}.from-links", folder, read_own_queries(folder), from_notes=True)
        for name, folder in folders.items()
    ]
    for source in sources:
        if missing := check_labels(source):
            print_error(
                f"{source.name}: {missing:,} labeled paths are not in the index. Queries "
                "with no other answer score 0."
            )
    return sources
