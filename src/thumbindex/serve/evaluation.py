"""`thumbindex eval`: ask labeled queries and measure the answers, each setting alone and against an earlier run if that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex.config import changed
from thumbindex.errors import UsageError
from thumbindex.serve.opening import FOUND, WITH_VOCABULARY, Opening, reported, say_error
from thumbindex.serve.options import JsonOption, open_for, takes_opening
from thumbindex.serve.terminal import ProgressDisplay, print_json, print_tables
from thumbindex.study.evaluate import RANKED_PASSAGES, Source, check_labels, evaluate_all
from thumbindex.study.from_links import check_source, held_queries, write_queries
from thumbindex.study.measures import check_ids, write_run
from thumbindex.study.queries import QuerySet, load_set

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.study.compare import Baseline
    from thumbindex.study.report import Findings

_OF_INTEREST = ("corpus.", "encode.embed.model", "encode.rerank.", "query.")
"""Settings that change answers: a report names those, and not where things lie on the machine of whoever made it."""


@reported
@takes_opening
def evaluate_queries(
    ctx: typer.Context,
    opening: Opening,
    queries: Annotated[
        list[Path] | None, typer.Argument(metavar="QUERIES.jsonl", help="Labeled queries; NAME.KIND.jsonl is asked of the folder NAME.")
    ] = None,
    from_links: Annotated[bool, typer.Option("--from-links", help="Ask what the notes' own links, headings and descriptions say.")] = False,
    keep: Annotated[Path | None, typer.Option("--write-queries", metavar="FILE", help="With --from-links: keep the queries.")] = None,
    run: Annotated[Path | None, typer.Option("--run", metavar="OUT.jsonl", help="Write the ranked passages here.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, metavar="N", help="Passages a query.")] = RANKED_PASSAGES,
    ablate: Annotated[bool, typer.Option("--ablate", help="Ask again with each stage switched, each retriever alone, each alternative.")] = False,
    baseline: Annotated[Path | None, typer.Option("--baseline", metavar="RUN.json", help="Compare with what an earlier run wrote.")] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="DIR", help="Write report.md, report.json and plots here.")] = None,
    off_topic: Annotated[Path | None, typer.Option("--off-topic", metavar="FILE", help="Queries without an answer: can confidence tell?")] = None,
    as_json: JsonOption = False,
) -> int:
    """Ask labeled queries and measure the answers: quality, latency and tokens."""
    # Imported here: `--help` and the handshake must not pay for numpy.
    from thumbindex.study.compare import check_baseline, read_baseline
    from thumbindex.study.report import record, tables

    check_source(queries or (), from_links, keep)
    sets = _load_sets(queries or ())
    earlier = read_baseline(baseline) if baseline else None
    if report:
        _make_folder(report)

    def check(sets: Sequence[QuerySet]) -> None:
        if run or keep:
            check_ids(sets)
        if earlier:
            check_baseline(earlier, sets)

    check(sets)  # before anything is opened: an index may have to be made
    with _sources(sets, opening, lambda which: open_for(ctx, which), with_vocabulary=ablate) as sources:
        if from_links:
            check([QuerySet(each.name, each.queries) for each in sources])
        if keep:
            write_queries(keep, [query for each in sources for query in each.queries])
        findings = _find(sources, limit, earlier, ablate, off_topic)
    if run:
        write_run(run, {query: found for each in findings.evaluations for query, found in each.run.items()})
    if report:
        _write(report, findings)
    if as_json:
        print_json(record(findings))
    else:
        print_tables(tables(findings))
    return FOUND


def _find(sources: Sequence[Source], limit: int, earlier: Baseline | None, with_ablation: bool, off_topic: Path | None) -> Findings:
    """Ask the sources and compare: with an earlier run, and with each setting changed."""
    from thumbindex.study.compare import ablate, compare_with, variants
    from thumbindex.study.evaluate import ask_off_topic
    from thumbindex.study.report import Findings

    with ProgressDisplay() as show:
        evaluations = evaluate_all(sources, limit, show)
        effects = ablate(sources, evaluations, variants(sources[0].library.config.query), limit, show) if with_ablation else ()
    settings = {each.name: _of_interest(each.library) for each in sources}
    refusals = {each.name: ask_off_topic(each.library, each.queries, off_topic) for each in sources} if off_topic else {}
    return Findings(evaluations, settings, compare_with(earlier, evaluations) if earlier else (), effects, refusals)


def _of_interest(library: Library) -> dict[str, Any]:
    return {str(key): value for key, value in changed(library.config).items() if key.startswith(_OF_INTEREST)}


def _load_sets(paths: Sequence[Path]) -> list[QuerySet]:
    sets = [load_set(path) for path in paths]
    names = [each.name for each in sets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"Two query sets are called {twice}: rename the file of one, since results are told by set.")
    return sets


@contextmanager
def _sources(
    sets: Sequence[QuerySet], opening: Opening, open_it: Callable[[Opening], Library], with_vocabulary: bool = False
) -> Iterator[tuple[Source, ...]]:
    """Open what the sets are asked of, each library once, indexed and with its models: the folder of a set's name, else all folders together.

    Without a set each folder is asked what its own notes hold.
    """
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.library.folders import find_folders

    config = opening.load()
    folders = dict(find_folders(config, opening.folder, str(opening.index or config.index.directory)))
    with ExitStack() as opened:
        libraries: dict[str, Library] = {}
        sources = []
        for name, root in () if sets else folders.items():
            library = _open_ready(Opening((str(root),)).over(opening), open_it, opened, with_vocabulary)
            sources.append(Source(f"{name}.from-links", library, held_queries(library), own=True))
        for each in sets:
            own = each.folder if each.folder in folders else ""
            if own not in libraries:
                which = Opening((str(folders[own]),)).over(opening) if own else opening
                libraries[own] = _open_ready(which, open_it, opened, with_vocabulary)
            sources.append(Source(each.name, libraries[own], each.queries))
        for source in sources:
            if missing := check_labels(source):
                say_error(f"{source.name}: {missing:,} labeled paths are not in the index: queries that only they answer count as 0.")
        yield tuple(sources)


def _open_ready(opening: Opening, open_it: Callable[[Opening], Library], opened: ExitStack, with_vocabulary: bool) -> Library:
    """Open, bring up to date and load the models; the settings are the caller's, whatever the index needed to be opened with."""
    own = opened.enter_context(open_it(opening))
    library = opened.enter_context(open_it(WITH_VOCABULARY.over(opening))) if with_vocabulary else own
    with ProgressDisplay() as show:
        library.index(progress=show, after_others=True)
    library.load_models()
    return library.answering_with(own.config.query)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: the report's folder cannot be made ({error.strerror}): name another one with --report.") from error


def _write(folder: Path, findings: Findings) -> None:
    from thumbindex.study.plots import draw
    from thumbindex.study.report import write_report

    try:
        plots = draw(folder, findings)
    except UsageError as error:
        say_error(str(error))
        plots = ()
    write_report(folder, findings, plots)
