"""The package as a stranger gets it: built, looked into, installed into an empty environment, and
asked, offline, with an empty home.

`make test-package` installs the tools for one way to install; the other ways are `make long`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servers import ServerProcess

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from bundle import write_bundle

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINTS = ROOT / "constraints.txt"
LOCK = ROOT / "requirements.txt"
BIN = "Scripts" if os.name == "nt" else "bin"

QUESTION = "what happens to my index when the disk is full?"
ANSWER = "reliability.md"
"""The page of `docs/` that answers the question."""

REFUSAL = """
import os, sys

def refuse(event, arguments):
    if event == "socket.connect":
        host = arguments[1][0] if isinstance(arguments[1], tuple) else "localhost"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    else:
        return
    if host not in (None, "", "localhost", "127.0.0.1", "::1", b"localhost", b"127.0.0.1"):
        with open(os.path.join(sys.prefix, "asked-for.txt"), "a") as file:
            print(event, arguments[0 if event != "socket.connect" else 1], sys.argv, file=file)
        raise PermissionError("the network is denied")

sys.addaudithook(refuse)
"""
"""What an environment imports at its start: whatever asks for another machine is refused and noted,
in children and after a caught error, too.
"""

pytestmark = pytest.mark.package


def run(
    *command: object, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a program; return what it printed. A failure shows all that it said."""
    words = [*map(str, command)]
    done = subprocess.run(
        words,
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=600,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def tool(name: str) -> str:
    """Return a program of the extra `package`; skip what needs it where it is not installed."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed: `pip install '.[package]'` brings it")
    return found


# ------------------------------------------------------------------ what is built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist of this tree, and beside it a wheel of that sdist."""
    place = tmp_path_factory.mktemp("built")
    run(tool("pyproject-build"), "--no-isolation", "--outdir", place, ROOT)
    return place / f"thumbindex-{PROJECT['version']}.tar.gz"


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    return sdist.with_name(f"thumbindex-{PROJECT['version']}-py3-none-any.whl")


def test_the_wheel_holds_each_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    facts = f"thumbindex-{PROJECT['version']}.dist-info/"
    assert {name for name in names if not name.startswith(facts)} == {
        name.removeprefix("src/") for name in tracked("src/thumbindex")
    }
    assert {name.removeprefix(facts) for name in names if name.startswith(facts)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "licenses/src/thumbindex/encode/minilm/LICENSE",
    }


def test_the_sdist_holds_what_a_build_needs_the_documentation_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    at_the_top = {
        "PKG-INFO",
        ".gitignore",
        "LICENSE",
        "README.md",
        "config.toml",
        "constraints.txt",
        "pyproject.toml",
        "requirements.txt",
    }
    folders = ("src/thumbindex", "scripts", "docs", "examples")
    assert names == at_the_top.union(*map(tracked, folders))


def tracked(folder: str) -> set[str]:
    return set(run("git", "ls-files", "-z", folder, folder=ROOT).split("\0")) - {""}


def test_twine_accepts_wheel_and_sdist(sdist: Path, wheel: Path) -> None:
    run(tool("twine"), "check", "--strict", sdist, wheel)


# ------------------------------------------------------------------ what is installed


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and the home of who uses it."""

    program: Path
    python: Path
    environment: dict[str, str]
    prefix: Path

    def ask(self, *arguments: object, folder: Path | None = None) -> str:
        return run(self.program, *arguments, environment=self.environment, folder=folder)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a user with an empty home, who is offline."""
    home = tmp_path_factory.mktemp("home")
    ours = re.compile(r"PYTHON|PYTEST|VIRTUAL_ENV|XDG_|HF_|THUMBINDEX_|UV_|PIPX_")
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    homes = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return {**kept, **homes, "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy `docs/`, beside what would be imported in place of the real ones if the working folder
    were looked through.
    """
    place = tmp_path_factory.mktemp("work") / "docs"
    shutil.copytree(ROOT / "docs", place)
    for name in ("token.py", "thumbindex/__init__.py", "json/__init__.py"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(
            "raise SystemExit('a file of the folder was run')\n", encoding="utf-8"
        )
    return place


def with_uv(wheel: Path, place: Path) -> tuple[Path, Path]:
    folders = {
        "UV_TOOL_DIR": str(place / "tools"),
        "UV_TOOL_BIN_DIR": str(place / "programs"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    options = ("--quiet", "--python", sys.executable, "--constraints", CONSTRAINTS)
    run(tool("uv"), "tool", "install", *options, wheel, environment={**os.environ, **folders})
    return place / "tools" / "thumbindex", place / "programs"


def with_pipx(wheel: Path, place: Path) -> tuple[Path, Path]:
    folders = {
        "PIPX_HOME": str(place / "pipx"),
        "PIPX_BIN_DIR": str(place / "programs"),
        "PIPX_MAN_DIR": str(place / "man"),
        # where uv is, pipx installs with it
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    options = ("--python", sys.executable, f"--pip-args=--constraint={CONSTRAINTS}")
    run(tool("pipx"), "install", *options, wheel, environment={**os.environ, **folders})
    return place / "pipx" / "venvs" / "thumbindex", place / "programs"


def with_pip(wheel: Path, place: Path) -> tuple[Path, Path]:
    pip_install(place, "--constraint", CONSTRAINTS, wheel)
    return place, place / BIN


def with_lock(wheel: Path, place: Path) -> tuple[Path, Path]:
    pip_install(place, "--no-deps", "--require-hashes", "--requirement", LOCK)
    pip_install(place, "--no-deps", wheel)
    return place, place / BIN


def pip_install(place: Path, *options: object) -> None:
    if not place.exists():
        run(sys.executable, "-m", "venv", "--without-pip", place)
    run(tool("pip"), "--python", place, "install", "--quiet", "--no-compile", *options)


WAYS: dict[str, Callable[[Path, Path], tuple[Path, Path]]] = {
    "uv": with_uv,
    "pip": with_pip,
    "pipx": with_pipx,
    "lock": with_lock,
}


@pytest.fixture(
    scope="module",
    params=["uv", *(pytest.param(way, marks=pytest.mark.long) for way in ("pip", "pipx", "lock"))],
)
def installed(
    request: pytest.FixtureRequest,
    wheel: Path,
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """Install the wheel in one of the ways, and deny the environment every other machine."""
    place = tmp_path_factory.mktemp(request.param)
    prefix, programs = WAYS[request.param](wheel, place / "in")
    python = prefix / BIN / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "refusal.py").write_text(REFUSAL, encoding="utf-8")
    (packages / "refusal.pth").write_text("import refusal\n", encoding="utf-8")
    return Installed(programs / "thumbindex", python, environment, prefix)


def test_an_install_indexes_and_answers_offline_from_an_empty_home_whatever_lies_in_the_folder(
    installed: Installed, notes: Path
) -> None:
    assert installed.ask("--version") == f"thumbindex {PROJECT['version']}\n"
    report = json.loads(installed.ask("index", "--folder", ".", "--json", folder=notes))
    assert report["skipped"] == []
    answer = json.loads(installed.ask("query", "--folder", ".", "--json", QUESTION, folder=notes))
    assert answer["results"][0]["path"] == ANSWER
    index = answer["index"]
    assert (index["vectors"], index["pending"]) == (index["chunks"], 0)
    program = (str(installed.program), "serve")
    with ServerProcess(["--folder=."], program, installed.environment, notes) as server:
        assert ANSWER in json.dumps(server.call("query", query=QUESTION))
    checks = json.loads(installed.ask("doctor", "--folder", ".", "--json", folder=notes))["checks"]
    assert [check for check in checks if check["state"] == "fail"] == []
    noted = installed.prefix / "asked-for.txt"
    assert not noted.exists(), noted.read_text(encoding="utf-8")
    # and it would have been noted
    attempt = "import socket; socket.create_connection(('192.0.2.1', 9), 1)"
    subprocess.run(
        [installed.python, "-c", attempt], env=installed.environment, capture_output=True
    )
    assert noted.exists()


STATE_A_TEXT = {"protobuf", "tiktoken"}
"""Packages whose license is known by none of its short names: `make audit` judges the text."""


@pytest.mark.long
def test_a_bill_of_materials_names_each_package_locked_for_here_and_its_license(
    wheel: Path, tmp_path: Path
) -> None:
    prefix, _ = with_lock(wheel, tmp_path / "in")
    project = ROOT / "pyproject.toml"
    python = prefix / BIN / "python"
    bill = json.loads(run(tool("cyclonedx-py"), "environment", "--pyproject", project, python))
    locked = [
        Requirement(line)
        for line in re.findall(r"^(\w[^\\\n]+) \\$", LOCK.read_text(encoding="utf-8"), re.M)
    ]
    here = [each for each in locked if each.marker is None or each.marker.evaluate()]
    assert {canonicalize_name(each["name"]) for each in bill["components"]} == {
        canonicalize_name(each.name) for each in here
    }
    assert bill["metadata"]["component"]["version"] == PROJECT["version"]
    assert {each["name"] for each in bill["components"] if not each.get("licenses")} <= STATE_A_TEXT


# ------------------------------------------------------------------ the bundle, the workflows


@pytest.mark.long
def test_the_bundle_serves_folders_as_claude_desktop_starts_it(
    environment: dict[str, str], notes: Path, tmp_path: Path
) -> None:
    unpacked, uv, folders = tmp_path / "bundle", tool("uv"), (notes, tmp_path / "my notes")
    folders[1].mkdir()
    with zipfile.ZipFile(write_bundle(ROOT, tmp_path / "x.mcpb")) as bundle:
        bundle.extractall(unpacked)
    start = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))["server"][
        "mcp_config"
    ]
    words = [
        each.replace("${__dirname}", str(unpacked))
        for each in start["args"]
        if "user_config" not in each
    ]
    # what the first start would install comes from the caches, whose place an empty home does not
    # tell
    run(
        uv,
        "sync",
        "--quiet",
        "--python",
        sys.executable,
        "--directory",
        unpacked,
        environment={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
    )
    asked = {**environment, "UV_OFFLINE": "1", "UV_CACHE_DIR": run(uv, "cache", "dir").strip()}
    with ServerProcess([*map(str, folders)], (uv, *words), asked) as server:
        served = {each["folder"] for each in server.call("status")["folders"]}
    assert served == {"docs", "my notes"}
    assert start["command"] == "uv"


@pytest.mark.long
def test_github_would_run_the_workflows_and_an_auditor_finds_nothing_in_them() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").iterdir())
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *workflows)
    run(tool("zizmor"), "--offline", "--no-progress", "--persona", "auditor", ROOT / ".github")
