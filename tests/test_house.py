"""The rules of the source layout: imports between packages, adapters, names of stages."""

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
"""Each package, and the packages that it may import."""

PARTS = {"page": {"web.access", "web.limits"}}
"""Each package, and modules of other packages that it may import."""

FOR_ALL = {
    "model",
    "errors",
    "ports",
    "settings",
    "config",
    "process",
    "symbols",
    "text",
    "visible_text",
    "globs",
    "language",
    "dates",
    "conflict_copies",
}
"""Modules that all packages may import."""

FOR_CALLERS = {"opening", "arguments", "owner_file"}
"""Modules that the packages above `library` may also import."""

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
    "markdown_it": {
        "corpus/dialects.py",
        "corpus/html_blocks.py",
        "corpus/markdown.py",
        "library/note_html.py",
    },
    "markupsafe": {"library/note_html.py"},
    "yaml": {"corpus/front_matter.py"},
    "pathspec": {"globs.py"},
    "pygments": {"library/highlighting.py"},
    "watchdog": {"background/watch.py"},
    "uvicorn": {"web/app.py"},
    "sse_starlette": {"web/app.py"},
    "jwt": {"web/access.py"},
    "prometheus_client": {"web/metrics.py"},
    "psycopg": {"postgres/database.py"},
    "rapidfuzz": {
        "index/filters.py",
        "query/spellings.py",
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
"""Each engine, and the packages that may import it."""

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
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


@cache
def imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom))


@cache
def modules() -> tuple[tuple[str, set[str]], ...]:
    """Return each module's path and imported names."""
    return tuple(_imports())


def _imports() -> Iterator[tuple[str, set[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        names = set()
        for node in imports(path):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            else:
                names |= (
                    {f"thumbindex.{alias.name}" for alias in node.names}
                    if node.module == "thumbindex"
                    else {node.module or ""}
                )
                if node.module == "thumbindex":
                    names |= {f"thumbindex.{alias.name}" for alias in node.names}
        yield path.relative_to(SOURCE).as_posix(), names


def own(names: set[str]) -> set[str]:
    """Return the top-level names of imported modules of this package."""
    return {name.split(".")[1] for name in names if name.startswith("thumbindex.")}


def test_packages_import_only_lower_packages():
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


LATE_IMPORTS = {("thumbindex.model", "thumbindex.present.answer_layout")}
"""Modules, and what they import late: `print(answer)` prints the layout of the command `query`."""


def test_imports_have_no_cycles():
    """Imports inside functions count, too, except `LATE_IMPORTS`."""
    paths = {
        ".".join(("thumbindex", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in SOURCE.rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {
        name: {
            imported
            for node in imports(path)
            if node not in types_only(path)
            for imported in modules_of(node, paths)
            if (name, imported) not in LATE_IMPORTS
        }
        - {name}
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def modules_of(node: ast.Import | ast.ImportFrom, paths: Mapping[str, Path]) -> set[str]:
    """Return the modules of this package that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        return inner & paths.keys() or {node.module or ""} & paths.keys()
    return {alias.name for alias in node.names} & paths.keys()


@cache
def types_only(path: Path) -> frozenset[ast.AST]:
    """Return the nodes below `if TYPE_CHECKING`."""
    return frozenset(
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    )


def test_only_postgres_imports_library_modules():
    assert {
        (path, name)
        for path, names in modules()
        for name in names
        if name.startswith("thumbindex.library.") and not path.startswith(("library/", "postgres/"))
    } == set()


def test_postgres_is_imported_as_a_package():
    """Its driver is an extra: the package imports a module on first use of a name."""
    assert {
        (path, name)
        for path, names in modules()
        for name in names
        if name.startswith("thumbindex.postgres.") and not path.startswith("postgres/")
    } == set()


@pytest.mark.parametrize("engine", sorted(ADAPTERS))
def test_each_engine_has_its_adapters(engine):
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


def test_pipeline_is_pure():
    pure = ("compare/", "query/")
    impure = [
        (path, name)
        for path, names in modules()
        if path.startswith(pure)
        for name in names
        if name.split(".")[0] in IMPURE
    ]
    assert impure == []


def test_queries_use_no_matrix_products():
    """The threads of BLAS spin after a product: use `inner_products`."""
    paths = [path for package in ("compare", "query") for path in (SOURCE / package).glob("*.py")]
    nodes = [node for path in paths for node in ast.walk(parsed(path))]
    assert not any(isinstance(getattr(node, "op", None), ast.MatMult) for node in nodes)


def test_main_road_is_short():
    """It leads from a file to its commit, and from a query to its answer."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The main road")[2].partition("\n## ")[0]
    road = re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.M)
    lines = sum(len((SOURCE / path).read_text(encoding="utf-8").splitlines()) for path in set(road))
    assert (len(road) <= 16, len(set(road)) == len(road), lines <= 5_500) == (True, True, True)


@pytest.mark.parametrize("name", [name for name, _ in STAGES])
def test_stage_has_one_name_everywhere(name):
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


def test_documentation_lists_stages_in_order():
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.M) == [name for name, _ in STAGES]


def test_environment_is_read_in_one_module():
    reads = re.compile(r"os\.getenv|os\.environ(?!\[[^\]]+\] = )")
    assert {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads.search(path.read_text(encoding="utf-8"))
    } == {"process.py"}


def test_commands_use_caller_directory_and_streams():
    """A server may answer a command, so code must not use the process's directory or streams."""
    allowed_paths = {
        r"\.cwd\(|getcwd\(": {"process.py", "cli/command_client.py"},
        r"\.absolute\(\)": {
            "encode/models.py",
            "index/sqlite.py",
            "install/plan.py",
        },
        r"\bConsole\((?!\*\*console_streams\(|file=StringIO)": set(),
    }
    for regex, allowed in allowed_paths.items():
        pattern = re.compile(regex)
        assert {
            path.relative_to(SOURCE).as_posix()
            for path in SOURCE.rglob("*.py")
            if pattern.search(path.read_text(encoding="utf-8"))
        } == allowed


def test_names_are_not_vague():
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
