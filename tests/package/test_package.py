"""The built package: its contents, and its use offline after an install into an empty environment.

`make test-package` tries one installer; `make long` tries the others.
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
"""Startup code of an environment, which refuses and logs network access, also in children."""

pytestmark = pytest.mark.package


def run(
    *command: object, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Run a program; return its output. Fails with its output if it returns an error."""
    arguments = [*map(str, command)]
    result = subprocess.run(
        arguments,
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=600,
    )
    assert result.returncode == 0, f"{arguments}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


def tool(name: str) -> str:
    """Return a program of the extra `package`; skip the test if it is missing."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        pytest.skip(f"{name} is not installed: run `pip install '.[package]'`")
    return path


# ------------------------------------------------------------------ contents


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist of this tree, and a wheel from it."""
    folder = tmp_path_factory.mktemp("built")
    run(tool("pyproject-build"), "--no-isolation", "--outdir", folder, ROOT)
    return folder / f"thumbindex-{PROJECT['version']}.tar.gz"


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    return sdist.with_name(f"thumbindex-{PROJECT['version']}-py3-none-any.whl")


def test_wheel_contains_exactly_the_files_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    metadata = f"thumbindex-{PROJECT['version']}.dist-info/"
    assert {name for name in names if not name.startswith(metadata)} == {
        name.removeprefix("src/") for name in tracked("src/thumbindex")
    }
    assert {name.removeprefix(metadata) for name in names if name.startswith(metadata)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "licenses/src/thumbindex/encode/minilm/LICENSE",
    }


def test_sdist_contains_sources_and_docs_but_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    top_level = {
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
    assert names == top_level.union(*map(tracked, folders))


def tracked(folder: str) -> set[str]:
    return set(run("git", "ls-files", "-z", folder, folder=ROOT).split("\0")) - {""}


def test_twine_accepts_wheel_and_sdist(sdist: Path, wheel: Path) -> None:
    run(tool("twine"), "check", "--strict", sdist, wheel)


# ------------------------------------------------------------------ installs


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel installed, and variables of its user."""

    program: Path
    python: Path
    environment: dict[str, str]
    prefix: Path

    def ask(self, *arguments: object, folder: Path | None = None) -> str:
        return run(self.program, *arguments, environment=self.environment, folder=folder)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of an offline user with an empty home."""
    home = tmp_path_factory.mktemp("home")
    ours = re.compile(r"PYTHON|PYTEST|VIRTUAL_ENV|XDG_|HF_|THUMBINDEX_|UV_|PIPX_")
    inherited = {name: value for name, value in os.environ.items() if not ours.match(name)}
    homes = dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return {**inherited, **homes, "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy `docs/`, and add modules that must not be imported from the working folder."""
    folder = tmp_path_factory.mktemp("work") / "docs"
    shutil.copytree(ROOT / "docs", folder)
    for name in ("token.py", "thumbindex/__init__.py", "json/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(
            "raise SystemExit('a file of the folder was run')\n", encoding="utf-8"
        )
    return folder


def with_uv(wheel: Path, folder: Path) -> tuple[Path, Path]:
    variables = {
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "programs"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    options = ("--quiet", "--python", sys.executable, "--constraints", CONSTRAINTS)
    run(tool("uv"), "tool", "install", *options, wheel, environment={**os.environ, **variables})
    return folder / "tools" / "thumbindex", folder / "programs"


def with_pipx(wheel: Path, folder: Path) -> tuple[Path, Path]:
    variables = {
        "PIPX_HOME": str(folder / "pipx"),
        "PIPX_BIN_DIR": str(folder / "programs"),
        "PIPX_MAN_DIR": str(folder / "man"),
        # pipx uses uv if it finds it
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    options = ("--python", sys.executable, f"--pip-args=--constraint={CONSTRAINTS}")
    run(tool("pipx"), "install", *options, wheel, environment={**os.environ, **variables})
    return folder / "pipx" / "venvs" / "thumbindex", folder / "programs"


def with_pip(wheel: Path, folder: Path) -> tuple[Path, Path]:
    pip_install(folder, "--constraint", CONSTRAINTS, wheel)
    return folder, folder / BIN


def with_lock(wheel: Path, folder: Path) -> tuple[Path, Path]:
    pip_install(folder, "--no-deps", "--require-hashes", "--requirement", LOCK)
    pip_install(folder, "--no-deps", wheel)
    return folder, folder / BIN


def pip_install(folder: Path, *options: object) -> None:
    if not folder.exists():
        run(sys.executable, "-m", "venv", "--without-pip", folder)
    run(tool("pip"), "--python", folder, "install", "--quiet", "--no-compile", *options)


INSTALLERS: dict[str, Callable[[Path, Path], tuple[Path, Path]]] = {
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
    """Install the wheel with one of the installers, and block the network."""
    folder = tmp_path_factory.mktemp(request.param)
    prefix, programs = INSTALLERS[request.param](wheel, folder / "in")
    python = prefix / BIN / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "refusal.py").write_text(REFUSAL, encoding="utf-8")
    (packages / "refusal.pth").write_text("import refusal\n", encoding="utf-8")
    return Installed(programs / "thumbindex", python, environment, prefix)


def test_install_works_offline_and_ignores_modules_in_the_notes_folder(
    installed: Installed, notes: Path
) -> None:
    assert installed.ask("--version") == f"thumbindex {PROJECT['version']}\n"
    report = json.loads(
        installed.ask("index", "--complete", "--folder", ".", "--json", folder=notes)
    )
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
    log = installed.prefix / "asked-for.txt"
    assert not log.exists(), log.read_text(encoding="utf-8")
    # an attempt would have been logged
    attempt = "import socket; socket.create_connection(('192.0.2.1', 9), 1)"
    subprocess.run(
        [installed.python, "-c", attempt], env=installed.environment, capture_output=True
    )
    assert log.exists()


LICENSE_TEXT_ONLY = {"protobuf", "tiktoken"}
"""Packages without a license identifier; `make audit` judges the text."""


@pytest.mark.long
def test_bill_of_materials_names_every_locked_package_and_its_license(
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
    expected = [package for package in locked if not package.marker or package.marker.evaluate()]
    components = bill["components"]
    assert {canonicalize_name(component["name"]) for component in components} == {
        canonicalize_name(package.name) for package in expected
    }
    assert bill["metadata"]["component"]["version"] == PROJECT["version"]
    without_license = {
        component["name"] for component in components if not component.get("licenses")
    }
    assert without_license <= LICENSE_TEXT_ONLY


# ------------------------------------------------------------------ bundle and workflows


@pytest.mark.long
def test_bundle_serves_folders_as_started_by_claude_desktop(
    environment: dict[str, str], notes: Path, tmp_path: Path
) -> None:
    unpacked, uv, folders = tmp_path / "bundle", tool("uv"), (notes, tmp_path / "my notes")
    folders[1].mkdir()
    with zipfile.ZipFile(write_bundle(ROOT, tmp_path / "x.mcpb")) as bundle:
        bundle.extractall(unpacked)
    start = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))["server"][
        "mcp_config"
    ]
    arguments = [
        argument.replace("${__dirname}", str(unpacked))
        for argument in start["args"]
        if "user_config" not in argument
    ]
    # install from our caches, which a user with an empty home would not find
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
    offline = {**environment, "UV_OFFLINE": "1", "UV_CACHE_DIR": run(uv, "cache", "dir").strip()}
    with ServerProcess([*map(str, folders)], (uv, *arguments), offline) as server:
        served = {status["folder"] for status in server.call("status")["folders"]}
    assert served == {"docs", "my notes"}
    assert start["command"] == "uv"


@pytest.mark.long
def test_workflows_are_valid_and_pass_an_audit() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").iterdir())
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *workflows)
    run(tool("zizmor"), "--offline", "--no-progress", "--persona", "auditor", ROOT / ".github")
