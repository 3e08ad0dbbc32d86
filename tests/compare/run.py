"""A program: asks other tools and thumbindex the same questions over MCP, and writes what came of
it: docs/comparison.md where they are labeled.

python tests/compare/run.py [--eval DIR] [--corpora DIR] [--folder DIR] [--only TOOL ...] [--again];
--help lists all options.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

# The folder of a program is looked through first for what it imports: that must be the tests.
sys.path.insert(0, str(Path(__file__).parents[1]))

import thumbindex
from compare import hostile
from compare.driver import Place, Tool
from compare.measure import Questions, drawn, drop_index, measure, measure_hostile
from compare.page import page
from compare.tools import TOOLS
from study.name_queries import name_queries
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.study.from_links import queries_from_links
from thumbindex.study.queries import load_queries
from weights import published_weights

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "compare"

CORPORA = ("obsidian-help", "devdocs")
"""Those with questions that a person wrote."""

MOST = 400
"""Questions of a kind drawn from the notes; a set that was written by hand is asked whole."""

NAMES = 60

HOSTILE = Path(hostile.__file__).read_text(encoding="utf-8")
"""The hostile notes and what is asked about them."""


def main() -> None:
    """Set up, ask, write."""
    options = _options()
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    tools = [each for each in TOOLS if not options.only or each.name in options.only]
    record = _read(options.json)
    record["installed"] = {
        **record.get("installed", {}),
        **{each.name: install(each) for each in tools},
    }
    asked = [each for each in tools if "failed" not in record["installed"][each.name]]
    folders = (
        [(options.folder.name, options.folder)]
        if options.folder
        else [(name, corpus(name, options)) for name in options.sets]
    )
    for name, folder in folders:
        _ask_folder(name, folder, asked, record, options)
    if not options.without_hostile:
        _ask_hostile(asked, record, options)
    record["run"] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "began": began,
        "machine": f"{_processor()}, Python {platform.python_version()}",
        "thumbindex": f"{version('thumbindex')}, {_commit()}",
        "labeled": bool(options.eval),
        "load": os.getloadavg()[0],
    }
    _write(options.json, record)
    options.page.write_text(page(record, TOOLS), encoding="utf-8")


def _ask_folder(
    name: str,
    folder: Path,
    tools: Sequence[Tool],
    record: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    questions, notes = ask_of(name, folder, options.eval), BUILD / "notes" / name
    state = copy_notes(folder, notes)
    shown = record.setdefault("folders", {}).setdefault(name, {"tools": {}})
    shown["files"] = sum(1 for each in folder.rglob("*") if each.suffix in (".md", ".markdown"))
    shown["questions"] = {
        "source": questions.source,
        "typed": len(questions.typed),
        "reworded": len(questions.reworded),
        "names": len(questions.names),
    }

    def of(tool: Tool) -> str:
        return digest_of(state, state_of_tool(tool), repr(questions))

    for tool in tools:
        if options.again or shown["tools"].get(tool.name, {}).get("of") != of(tool):
            sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {name}: {tool.name}\n")
            place = Place(BUILD / "tools" / tool.name, notes, BUILD / "homes" / name / tool.name)
            if options.again:
                drop_index(tool, place)
            shown["tools"][tool.name] = {
                "of": of(tool),
                **measure(tool, place, questions, digest_of(state, state_of_tool(tool))),
            }
            _write(options.json, record)
    shown["old"] = [
        each.name
        for each in TOOLS
        if each.name in shown["tools"] and shown["tools"][each.name].get("of") != of(each)
    ]


def _ask_hostile(
    tools: Sequence[Tool], record: dict[str, Any], options: argparse.Namespace
) -> None:
    shown = record.setdefault("hostile", {})

    def of(tool: Tool) -> str:
        return digest_of(HOSTILE, state_of_tool(tool))

    for tool in tools:
        if options.again or shown.get(tool.name, {}).get("of") != of(tool):
            sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} hostile: {tool.name}\n")
            place = Place(
                BUILD / "tools" / tool.name,
                BUILD / "hostile" / tool.name / "vault",
                BUILD / "homes" / "hostile" / tool.name,
            )
            shown[tool.name] = {"of": of(tool), **measure_hostile(tool, place)}
            _write(options.json, record)
    record["old hostile"] = [
        each.name for each in TOOLS if each.name in shown and shown[each.name].get("of") != of(each)
    ]


def digest_of(*texts: str) -> str:
    """Return a digest of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def state_of(folder: Path) -> str:
    """Return a digest of a folder's files: their names, sizes and contents."""
    digest = hashlib.sha256()
    for path in sorted(
        each for each in folder.rglob("*") if each.is_file() and each.suffix != ".pyc"
    ):
        content = path.read_bytes()
        digest.update(
            os.fsencode(path.relative_to(folder)) + f"\0{len(content)}\0".encode() + content
        )
    return digest.hexdigest()[:16]


def state_of_tool(tool: Tool) -> str:
    """Return what tells a tool from its other versions: its packages, or, for us, a digest of the
    source.
    """
    return " ".join(tool.packages) or _state_of_source()


@cache
def _state_of_source() -> str:
    return state_of(Path(thumbindex.__file__).parent)


def _commit() -> str:
    """Return which commit is measured; the code may differ from it."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return asked.stdout.strip() or "no commit"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--eval",
        type=Path,
        help="labeled sets: DIR/queries/dev/CORPUS.manual.jsonl, .client.jsonl and .names.jsonl",
    )
    parser.add_argument(
        "--corpora",
        type=Path,
        help="the folders that they belong to; else DIR/unpack.sh makes them",
    )
    parser.add_argument(
        "--sets",
        nargs="*",
        default=list(CORPORA),
        help="which of them; none asks about hostile notes only",
    )
    parser.add_argument("--without-hostile", action="store_true", help="ask about no hostile notes")
    parser.add_argument(
        "--folder", type=Path, help="ask this folder instead, by what its notes hold"
    )
    parser.add_argument("--only", nargs="+", default=[], help="these tools")
    parser.add_argument(
        "--again",
        action="store_true",
        help="index and measure again what the file of figures already holds",
    )
    parser.add_argument(
        "--json", type=Path, default=BUILD / "compare.json", help="where the figures are kept"
    )
    parser.add_argument(
        "--page",
        type=Path,
        help="where the table is written: docs/comparison.md with --eval, else build/compare",
    )
    options = parser.parse_args()
    options.page = options.page or (ROOT / "docs" if options.eval else BUILD) / "comparison.md"
    if not options.eval and not options.folder:
        options.folder = ROOT / "docs"
    return options


def install(tool: Tool) -> dict[str, Any]:
    """Install a tool from its public packages into an environment of its own, unless they are
    there; say what is installed, or what failed.
    """
    folder = BUILD / "tools" / tool.name
    try:
        if "stand-in" in tool.how:
            make_stand_in(folder.parent / "stand-in")
        return install_packages(tool.packages, folder)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        return {"failed": said[-1][:200] if said else f"exit code {error.returncode}"}


def install_packages(packages: Sequence[str], folder: Path) -> dict[str, Any]:
    """Install packages into a folder, unless it was made for just these.

    Raises CalledProcessError where one cannot be had.
    """
    mark = folder / "installed.json"
    if (found := _read(mark)).get("packages") == list(packages):
        return found
    sys.stderr.write(f"installing {folder.name}\n")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    npm = [each.removeprefix("npm:") for each in packages if each.startswith("npm:")]
    pypi = [each for each in packages if not each.startswith("npm:")]
    if npm:
        (folder / "package.json").write_text("{}", encoding="utf-8")
        _run(["npm", "install", "--no-fund", "--no-audit", "--ignore-scripts", *npm], folder)
    if pypi:
        _run([python_with_extensions(), "-m", "venv", "--without-pip", str(folder)], folder)
        _run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(folder / "bin" / "python"),
                "install",
                "--quiet",
                *pypi,
            ],
            folder,
        )
    size = sum(
        each.lstat().st_size
        for each in folder.rglob("*")
        if each.is_file() and each.suffix != ".pyc"
    )
    _write(
        mark, {"packages": list(packages), "versions": versions(packages, folder), "bytes": size}
    )
    return _read(mark)


def versions(packages: Sequence[str], folder: Path) -> dict[str, str]:
    """Return which version of each package a tool's environment has, whatever was asked for."""
    modules, found = [str(each) for each in folder.glob("lib/python*/site-packages")], {}
    for each in packages:
        if each.startswith("npm:"):
            name = each.rpartition("@")[0]
            found[name] = _read(
                folder / "node_modules" / name.removeprefix("npm:") / "package.json"
            )["version"]
        else:
            name = re.split(r"[\[=]", each)[0]
            found[name] = next(iter(distributions(name=name, path=modules))).version
    return found


def python_with_extensions() -> str:
    """Return a Python whose SQLite loads extensions, which some tools need: this one, or the
    system's.
    """
    look = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension"
    for each in (sys.executable, "/usr/bin/python3"):
        if (
            Path(each).exists()
            and not subprocess.run([each, "-c", look], check=False, capture_output=True).returncode
        ):
            return each
    return sys.executable


def make_stand_in(folder: Path) -> None:
    """Make a static model of all-MiniLM-L6-v2 with its makers' own `distill`, once: some minutes.

    Needs the extras `weights` and `models`.
    """
    mark = folder / "installed.json"
    if _read(mark).get("packages") == list(STAND_IN_PACKAGES):
        return
    packages, weights = folder.parent / "model2vec", published_weights()
    for each in (folder, packages):
        shutil.rmtree(each, ignore_errors=True)
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(packages),
            *STAND_IN_PACKAGES,
        ],
        folder.parent,
    )
    program = (
        "import sys; from model2vec.distill import distill; distill(model_name=sys.argv[1], "
        "pca_dims=256, device='cpu').save_pretrained(sys.argv[2])"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(weights), str(folder)],
        check=True,
        capture_output=True,
        env={"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1"},
    )
    _write(mark, {"packages": list(STAND_IN_PACKAGES)})


STAND_IN_PACKAGES = ("model2vec==0.10.0", "skeletoken==0.6.1", "joblib==1.6.0")


def corpus(name: str, options: argparse.Namespace) -> Path:
    """Return the folder of a labeled set."""
    place: Path = options.corpora or BUILD / "corpora"
    if not (place / name).is_dir():
        _run(["bash", str(options.eval / "unpack.sh"), str(place), name], ROOT)
    return place / name


def ask_of(name: str, folder: Path, labeled: Path | None) -> Questions:
    """Return what is asked of a folder: sets that a person wrote, or what the notes themselves
    hold.
    """
    sets = labeled / "queries" / "dev" if labeled else None
    if sets and (sets / f"{name}.manual.jsonl").exists():
        kinds = [
            load_queries(sets / f"{name}.{kind}.jsonl")
            if (sets / f"{name}.{kind}.jsonl").exists()
            else ()
            for kind in ("manual", "client", "names")
        ]
        return Questions(
            [each.as_typed for each in kinds[0]],
            kinds[1],
            drawn(kinds[2], NAMES),
            "written by hand, rewordings by a language model",
        )
    with Library.open(
        [folder], index=BUILD / "own" / name, config=load_config(user_file=BUILD / "none")
    ) as library:
        library.index(words_only=True)
        drawn_from_links = queries_from_links(library.notes(), MOST)
    names = BUILD / "own" / f"{name}.names.jsonl"
    names.write_text(
        "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in name_queries(folder, 10)),
        encoding="utf-8",
    )
    return Questions(
        drawn_from_links,
        (),
        drawn(load_queries(names), NAMES),
        "drawn from the notes' own links, descriptions and headings",
    )


def copy_notes(folder: Path, place: Path) -> str:
    """Copy the notes, unless they are there: some tools write into the folder that they index.

    Return a digest of their place and content.
    """
    mark = place.with_name(f"{place.name}.json")
    state = digest_of(str(folder.resolve()), state_of(folder))
    if _read(mark).get("state") != state:
        mark.unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        # with present times, as a fresh checkout has them: to some tools a note of last year is
        # worth nothing
        shutil.copytree(folder, place, symlinks=True, copy_function=shutil.copy)
        _write(mark, {"state": state})
    return state


def _run(words: Sequence[str], folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def _processor() -> str:
    lines = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.processor()


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
