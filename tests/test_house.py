"""The floor plan holds: who may look where, each engine behind its door, one word in five places."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from thumbindex.query.pipeline import STAGES
from thumbindex.settings import QuerySettings

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "thumbindex"
ROOMS = ("corpus", "encode", "index", "query", "serve", "study")
FOR_ALL = {"model", "errors", "ports", "settings", "config", "process", "text", "language"}
DOORS = {
    "faiss": {"index/vector.py"},
    "whoosh": {
        "index/analysis.py",
        "index/segments.py",
        "index/words.py",
        "study/bench/whoosh_alone.py",  # what ours is measured against
    },
    "networkx": {"index/graph.py"},
    "sqlite3": {"index/database.py", "index/salvage.py"},
    "markdown_it": {"corpus/blocks.py", "corpus/inline.py"},
    "yaml": {"corpus/yaml_tree.py"},
    "watchdog": {"serve/watch.py"},
    "matplotlib": {"study/plots.py"},
    "uvicorn": {"serve/listen.py"},
    "sse_starlette": {"serve/listen.py"},
    "jwt": {"serve/oauth.py"},
    "httpx2": {"study/http_client.py"},  # asks a server on this machine, for a measurement
    "rapidfuzz": {"query/correct.py", "query/guards.py"},
}
ROOM_DOORS = {
    "torch": "encode",
    "transformers": "encode",
    "sentence_transformers": "encode",
    "onnxruntime": "encode",
    "mcp": "serve",
    "starlette": "serve",
    "typer": "serve",
}
IMPURE = {"os", "io", "pathlib", "time", "random", "sqlite3", "subprocess", "socket", "threading", "logging", "shutil", "tempfile"}


def modules() -> Iterator[tuple[str, set[str]]]:
    """Yield each module's path and the names that it imports."""
    for path in sorted(SOURCE.rglob("*.py")):
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
        yield path.relative_to(SOURCE).as_posix(), names


def own(names: set[str]) -> set[str]:
    """Return the first parts of our own modules among imported names."""
    return {name.split(".")[1] for name in names if name.startswith("thumbindex.")}


def test_rooms_never_import_each_other():
    allowed = {"serve": {"library", "reference", "study"}, "study": {"library"}}
    wrong = [
        (path, other)
        for path, names in modules()
        if (room := path.split("/")[0]) in ROOMS
        for other in own(names) - FOR_ALL - {room} - allowed.get(room, set())
    ]
    assert wrong == []


def test_only_the_command_line_sees_the_study():
    seeing = {path for path, names in modules() if "study" in own(names) and not path.startswith("study/")}
    assert seeing <= {"serve/bench.py", "serve/checks.py", "serve/evaluation.py", "serve/payload.py", "serve/render.py", "serve/tune.py"}


@pytest.mark.parametrize("engine", sorted(DOORS))
def test_each_engine_has_one_door(engine):
    assert {path for path, names in modules() if engine in {name.split(".")[0] for name in names}} == DOORS[engine]


@pytest.mark.parametrize("engine", sorted(ROOM_DOORS))
def test_models_and_protocols_stay_in_their_rooms(engine):
    users = {path.split("/")[0] for path, names in modules() if engine in {name.split(".")[0] for name in names}}
    assert users <= {ROOM_DOORS[engine]}


def test_the_pipeline_is_pure():
    impure = [(path, name) for path, names in modules() if path.startswith("query/") for name in names if name.split(".")[0] in IMPURE]
    assert impure == []


@pytest.mark.parametrize("name", [name for name, _ in STAGES])
def test_a_stage_is_one_word_in_five_places(name):
    module = importlib.import_module(f"thumbindex.query.{name}")
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8"), re.M)
    tables = re.findall(r"^\[query\.(\w+)\]$", (ROOT / "config.toml").read_text(encoding="utf-8"), re.M)
    assert dict(STAGES)[name] is getattr(module, name)
    assert name in {field.name for field in fields(QuerySettings)}
    assert name in headings
    assert name in tables


def test_the_documentation_names_the_stages_in_the_order_of_the_run():
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.M) == [name for name, _ in STAGES]


def test_the_environment_is_read_in_one_place():
    reads = re.compile(r"os\.getenv|os\.environ(?!\[[^\]]+\] = )")
    assert {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if reads.search(path.read_text(encoding="utf-8"))} == {"process.py"}


def test_names_say_what_a_thing_is():
    vague = re.compile(r"manager|util|helper|common|orchestrator|coordinator|handler|service|processor", re.I)
    names = [
        (path.name, node.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and vague.search(node.name)
    ]
    assert names == []
