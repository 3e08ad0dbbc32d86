"""The layout holds: who may import whom, each engine behind its adapter, one word in four
places.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from thumbindex.config import settings_by_key
from thumbindex.query.pipeline import STAGES
from thumbindex.settings import STAGE_NAMES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "thumbindex"
PACKAGES = {
    "corpus": set(),
    "compare": set(),
    "encode": set(),
    "index": set(),
    "query": {"compare"},
    "library": {"corpus", "compare", "encode", "index", "query", "postgres"},
    "postgres": {"corpus", "index", "library"},
    "evaluation": {"library"},
    "present": set(),
    "background": {"library", "present"},
    "install": {"library", "present", "postgres"},
    "mcp": {"library", "background", "present"},
    "page": {"library", "background", "present"},
    "web": {"library", "background", "present", "mcp", "page"},
    "cli": {
        "library",
        "background",
        "present",
        "install",
        "mcp",
        "web",
        "evaluation",
        "postgres",
    },
}
"""Each package, and those that it may import."""

PARTS = {"page": {"web.access", "web.limits"}}
"""Modules of another package that one may import: the page signs in as the web does."""

FOR_ALL = {
    "model",
    "errors",
    "ports",
    "settings",
    "config",
    "process",
    "text",
    "globs",
    "language",
    "dates",
}
"""Modules that all packages may import."""

FOR_CALLERS = {"opening", "arguments", "owner_file"}
"""Modules that the packages above `library` may import, too."""

CALLERS = {"background", "install", "mcp", "page", "web", "cli", "present"}
ADAPTERS = {
    "faiss": {"index/vectors.py"},
    "whoosh": {
        "index/analysis.py",
        "index/segments.py",
    },
    "networkx": {"index/graph.py"},
    "sqlite3": {"index/sqlite.py"},
    "jinja2": {"page/site.py"},
    "markdown_it": {"corpus/markdown.py", "library/rendering.py"},
    "markupsafe": {"library/rendering.py"},
    "yaml": {"corpus/front_matter.py"},
    "pathspec": {"globs.py"},
    "watchdog": {"background/watch.py"},
    "uvicorn": {"web/app.py"},
    "sse_starlette": {"web/app.py"},
    "jwt": {"web/access.py"},
    "prometheus_client": {"web/metrics.py"},
    "psycopg": {"postgres/database.py"},
    "rapidfuzz": {
        "index/filters.py",
        "query/understand.py",
        "compare/quotations.py",
    },
}
PACKAGE_ADAPTERS = {
    "torch": "encode",
    "transformers": "encode",
    "sentence_transformers": "encode",
    "onnxruntime": "encode",
    "starlette": "page web",
    "typer": "cli present",
    "mcp": "install mcp page web",
}
"""The packages that may import each, in a row."""

IMPURE = {
    "os",
    "io",
    "pathlib",
    "time",
    "random",
    "sqlite3",
    "subprocess",
    "socket",
    "threading",
    "logging",
    "shutil",
    "tempfile",
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> tuple[tuple[str, set[str]], ...]:
    """Return each module's path and the names that it imports."""
    return tuple(_imports())


def _imports() -> Iterator[tuple[str, set[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        names = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= (
                    {f"thumbindex.{alias.name}" for alias in node.names}
                    if node.module == "thumbindex"
                    else {node.module or ""}
                )
                if node.module == "thumbindex":
                    names |= {f"thumbindex.{alias.name}" for alias in node.names}
        yield path.relative_to(SOURCE).as_posix(), names


def own(names: set[str]) -> set[str]:
    """Return the first parts of our own modules among imported names."""
    return {name.split(".")[1] for name in names if name.startswith("thumbindex.")}


def test_each_package_imports_only_those_below_it():
    wrong = [
        (path, name)
        for path, names in modules()
        if (package := path.split("/")[0]) in PACKAGES
        for name in names
        if name.startswith("thumbindex.")
        and name.split(".")[1] not in {package} | PACKAGES[package] | FOR_ALL
        and not (package in CALLERS and name.split(".")[1] in FOR_CALLERS)
        and name.removeprefix("thumbindex.") not in PARTS.get(package, set())
    ]
    assert wrong == []


def test_no_module_imports_one_that_imports_it():
    """Neither straight nor through others, inside a function or not."""
    paths = {
        ".".join(("thumbindex", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in SOURCE.rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {
        name: {
            found
            for node in ast.walk(parsed(path))
            if node not in types_only(parsed(path))
            for found in modules_of(node, paths)
        }
        - {name}
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def modules_of(node: ast.AST, paths: Mapping[str, Path]) -> set[str]:
    """Return which of our modules a statement imports: the module where a name is one."""
    if isinstance(node, ast.ImportFrom):
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        return inner & set(paths) or {node.module or ""} & set(paths)
    names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
    return names & set(paths)


@cache
def types_only(tree: ast.Module) -> frozenset[ast.AST]:
    """Return what stands below `if TYPE_CHECKING`."""
    return frozenset(
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    )


def test_faces_see_the_front_door_of_the_library_only():
    """The database alone looks inside."""
    assert {
        (path, name)
        for path, names in modules()
        for name in names
        if name.startswith("thumbindex.library.") and not path.startswith(("library/", "postgres/"))
    } == set()


def test_the_database_is_imported_through_its_package():
    """Its driver is an extra: the package imports a module on first use of a name."""
    assert {
        (path, name)
        for path, names in modules()
        for name in names
        if name.startswith("thumbindex.postgres.") and not path.startswith("postgres/")
    } == set()


@pytest.mark.parametrize("engine", sorted(ADAPTERS))
def test_each_engine_has_one_adapter(engine):
    assert {
        path for path, names in modules() if engine in {name.split(".")[0] for name in names}
    } == ADAPTERS[engine]


@pytest.mark.parametrize("engine", sorted(PACKAGE_ADAPTERS))
def test_models_and_protocols_stay_in_their_packages(engine):
    users = {
        path.split("/")[0]
        for path, names in modules()
        if engine in {name.split(".")[0] for name in names}
    }
    assert users <= set(PACKAGE_ADAPTERS[engine].split())


def test_the_pipeline_is_pure():
    pure = ("compare/", "query/")
    impure = [
        (path, name)
        for path, names in modules()
        if path.startswith(pure)
        for name in names
        if name.split(".")[0] in IMPURE
    ]
    assert impure == []


def test_a_question_multiplies_no_matrices():
    """BLAS shares such a product out among threads, which then spin: `inner_products` is for
    that.
    """
    asked = [path for package in ("compare", "query") for path in (SOURCE / package).glob("*.py")]
    nodes = [node for path in asked for node in ast.walk(parsed(path))]
    assert not any(isinstance(getattr(node, "op", None), ast.MatMult) for node in nodes)


def test_the_main_road_is_short():
    """From a file to its commit and from a question to its answer."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The main road")[2].partition("\n## ")[0]
    road = re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.M)
    lines = sum(len((SOURCE / path).read_text(encoding="utf-8").splitlines()) for path in set(road))
    assert (len(road) <= 16, len(set(road)) == len(road), lines <= 5_500) == (True, True, True)


@pytest.mark.parametrize("name", [name for name, _ in STAGES])
def test_a_stage_is_one_word_in_four_places(name):
    stage = dict(STAGES)[name]
    headings = re.findall(
        r"^## (\w+)$", (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8"), re.M
    )
    tables = re.findall(
        r"^\[query\.(\w+)\]$", (ROOT / "config.toml").read_text(encoding="utf-8"), re.M
    )
    assert (stage.__name__, stage.__module__.rpartition(".")[0]) == (name, "thumbindex.query")
    assert name in STAGE_NAMES
    assert name in headings
    assert (name in tables) == any(key.startswith(f"query.{name}.") for key in settings_by_key())


def test_the_documentation_names_the_stages_in_the_order_of_the_run():
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.M) == [name for name, _ in STAGES]


def test_the_environment_is_read_in_one_place():
    reads = re.compile(r"os\.getenv|os\.environ(?!\[[^\]]+\] = )")
    assert {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads.search(path.read_text(encoding="utf-8"))
    } == {"process.py"}


def test_a_command_prints_and_sees_paths_where_it_is_typed():
    """A server answers it in a process of its own: nothing on that road may take the process's
    directory or streams for the command's.
    """
    elsewhere = {
        r"\.cwd\(|getcwd\(": {"process.py", "cli/command_client.py"},
        r"\.absolute\(\)": {
            "encode/models.py",
            "index/sqlite.py",
            "install/plan.py",
        },
        r"\bConsole\((?!\*\*console_streams\()": set(),
    }
    for found, allowed in elsewhere.items():
        pattern = re.compile(found)
        assert {
            path.relative_to(SOURCE).as_posix()
            for path in SOURCE.rglob("*.py")
            if pattern.search(path.read_text(encoding="utf-8"))
        } == allowed


def test_names_say_what_a_thing_is():
    vague = re.compile(
        r"manager|util|helper|common|orchestrator|coordinator|handler|service|processor", re.I
    )
    names = [
        (path.name, node.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and vague.search(node.name)
    ]
    assert names == []
