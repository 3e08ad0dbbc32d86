"""The package as a stranger gets it: built, looked into, installed in three ways into empty
environments, and asked, offline, with an empty home.

`make test-package` runs these and first installs the tools; `make test` leaves them out.
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
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from servers import ServerProcess
from thumbindex.serve.clients.bundle import write_bundle

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

NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Failed to establish a new connection"
    r"|dns error|error sending request",
    re.I,
)
"""What pip and uv say where they reach nobody."""

pytestmark = pytest.mark.skipif(
    "THUMBINDEX_PACKAGE" not in os.environ, reason="`make test-package` runs these"
)


def run(
    *command: object,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 600,
) -> str:
    """Run a program; return what it printed.

    A failure shows all that it said; an install that finds no network is skipped.
    """
    done = subprocess.run(
        [*map(str, command)],
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
    )
    if (
        done.returncode
        and {"install", "sync"} & {*map(str, command)}
        and NO_NETWORK.search(done.stdout + done.stderr)
    ):
        pytest.skip(
            f"no network: `{Path(str(command[0])).name} {' '.join(map(str, command[1:4]))} …` "
            "cannot fetch what it installs"
        )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


def tool(name: str) -> str:
    """Return the program of the extra `package` by its name; skip what needs it where it could not
    be installed.
    """
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed: `pip install '.[package]'` brings it")
    return found


# ------------------------------------------------------------------ what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the sdist of this tree, a wheel of that sdist, and a wheel of this tree."""
    place = tmp_path_factory.mktemp("built")
    build = (tool("pyproject-build"), "--no-isolation")
    run(*build, "--outdir", place / "sdist", ROOT)
    run(*build, "--wheel", "--outdir", place / "tree", ROOT)
    [sdist], [from_sdist], [wheel] = (
        place.glob("sdist/*.tar.gz"),
        place.glob("sdist/*.whl"),
        place.glob("tree/*.whl"),
    )
    return {"sdist": sdist, "from_sdist": from_sdist, "wheel": wheel}


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree_byte_for_byte(
    built: dict[str, Path],
) -> None:
    assert (
        built["from_sdist"].name
        == built["wheel"].name
        == f"thumbindex-{PROJECT['version']}-py3-none-any.whl"
    )
    assert built["from_sdist"].read_bytes() == built["wheel"].read_bytes()


def test_the_wheel_holds_each_file_of_the_package_and_no_other(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = set(wheel.namelist())
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
    assert {
        "thumbindex/py.typed",
        "thumbindex/index/schema.sql",
        "thumbindex/index/postgres/schema.sql",
    } <= names


def test_the_sdist_holds_what_a_build_needs_the_documentation_and_no_tests(
    built: dict[str, Path],
) -> None:
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
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
    assert names == at_the_top | tracked("src/thumbindex") | tracked("scripts") | tracked("docs")


def tracked(folder: str) -> set[str]:
    return set(run("git", "ls-files", "-z", folder, folder=ROOT).split("\0")) - {""}


def test_a_package_index_would_take_them(built: dict[str, Path]) -> None:
    run(tool("twine"), "check", "--strict", *built.values())


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


def with_pip(wheel: Path, place: Path) -> tuple[Path, Path]:
    run(sys.executable, "-m", "venv", "--without-pip", place)
    run(
        tool("pip"),
        "--python",
        place,
        "install",
        "--quiet",
        "--no-compile",
        "--constraint",
        CONSTRAINTS,
        wheel,
    )
    return place, place / BIN


def with_uv(wheel: Path, place: Path) -> tuple[Path, Path]:
    folders = {
        "UV_TOOL_DIR": str(place / "tools"),
        "UV_TOOL_BIN_DIR": str(place / "programs"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    command = (
        tool("uv"),
        "tool",
        "install",
        "--quiet",
        "--python",
        sys.executable,
        "--constraints",
        CONSTRAINTS,
        wheel,
    )
    run(*command, environment={**os.environ, **folders})
    return place / "tools" / "thumbindex", place / "programs"


def with_pipx(wheel: Path, place: Path) -> tuple[Path, Path]:
    folders = {
        "PIPX_HOME": str(place / "pipx"),
        "PIPX_BIN_DIR": str(place / "programs"),
        "PIPX_MAN_DIR": str(place / "man"),
    }
    # where uv is, pipx installs with it
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    command = (
        tool("pipx"),
        "install",
        "--python",
        sys.executable,
        f"--pip-args=--constraint={CONSTRAINTS}",
        wheel,
    )
    run(*command, environment={**os.environ, **folders, "PATH": path})
    return place / "pipx" / "venvs" / "thumbindex", place / "programs"


def with_lock(wheel: Path, place: Path) -> tuple[Path, Path]:
    run(sys.executable, "-m", "venv", "--without-pip", place)
    install = (tool("pip"), "--python", place, "install", "--quiet", "--no-compile", "--no-deps")
    run(*install, "--require-hashes", "--requirement", LOCK)
    run(*install, wheel)
    return place, place / BIN


WAYS: dict[str, Callable[[Path, Path], tuple[Path, Path]]] = {
    "pip": with_pip,
    "uv": with_uv,
    "pipx": with_pipx,
    "lock": with_lock,
}


@pytest.fixture(scope="module", params=WAYS)
def installed(
    request: pytest.FixtureRequest,
    built: dict[str, Path],
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Installed:
    """Install the wheel in one of the ways, and deny the environment every other machine."""
    place = tmp_path_factory.mktemp(request.param)
    prefix, programs = WAYS[request.param](built["wheel"], place / "in")
    python = prefix / BIN / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "refusal.py").write_text(REFUSAL, encoding="utf-8")
    (packages / "refusal.pth").write_text("import refusal\n", encoding="utf-8")
    return Installed(programs / "thumbindex", python, environment, prefix)


def test_the_program_says_its_version(installed: Installed) -> None:
    assert installed.ask("--version") == f"thumbindex {PROJECT['version']}\n"
    assert (
        run(
            installed.python,
            "-P",
            "-m",
            "thumbindex",
            "--version",
            environment=installed.environment,
        )
        == f"thumbindex {PROJECT['version']}\n"
    )


def test_the_documentation_is_indexed_and_a_question_answered_offline_from_an_empty_home(
    installed: Installed, notes: Path
) -> None:
    report = json.loads(installed.ask("index", "--folder", ".", "--json", folder=notes))
    assert report["skipped"] == []
    answer = json.loads(installed.ask("query", "--folder", ".", "--json", QUESTION, folder=notes))
    assert answer["results"][0]["path"] == ANSWER
    assert (answer["index"]["vectors"], answer["index"]["pending"]) == (
        answer["index"]["chunks"],
        0,
    )


def test_a_client_shakes_hands_and_is_answered_whatever_lies_in_its_folder(
    installed: Installed, notes: Path
) -> None:
    program = (str(installed.program), "serve")
    with ServerProcess(["--folder=."], program, installed.environment, notes) as server:
        found = server.call("query", query=QUESTION)
        tools = server.request("tools/list", {})["tools"]
    assert ANSWER in json.dumps(found)
    assert [each["name"] for each in tools] == [
        "query",
        "read",
        "outline",
        "related",
        "verify",
        "status",
    ]


def test_the_doctor_finds_nothing_wrong(installed: Installed, notes: Path) -> None:
    checks = json.loads(installed.ask("doctor", "--folder", ".", "--json", folder=notes))["checks"]
    assert [each for each in checks if each["state"] == "fail"] == []


STATE_A_TEXT = {"protobuf", "tiktoken"}
"""Packages whose license is known by none of its short names: `make audit` judges the text."""


def test_a_bill_of_materials_names_each_package_locked_for_here_its_license_and_what_it_needs(
    installed: Installed, request: Any
) -> None:
    if request.node.callspec.params["installed"] != "lock":
        pytest.skip("the lock says what is installed in one of the ways")
    text = run(
        tool("cyclonedx-py"),
        "environment",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--output-reproducible",
        installed.python,
    )
    bill = json.loads(text)
    locked = [
        Requirement(line)
        for line in re.findall(r"^(\w[^\\\n]+) \\$", LOCK.read_text(encoding="utf-8"), re.M)
    ]
    here = {
        canonicalize_name(each.name)
        for each in locked
        if each.marker is None or each.marker.evaluate()
    }
    assert {canonicalize_name(each["name"]) for each in bill["components"]} == here
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (
        "thumbindex",
        PROJECT["version"],
    )
    assert [
        each["name"] for each in bill["components"] if not each["purl"].startswith("pkg:pypi/")
    ] == []
    assert {each["name"] for each in bill["components"] if not each.get("licenses")} <= STATE_A_TEXT
    assert {each["ref"] for each in bill["dependencies"]} >= {
        each["bom-ref"] for each in bill["components"]
    }


def test_no_other_machine_was_asked_for(installed: Installed) -> None:
    noted = installed.prefix / "asked-for.txt"
    assert not noted.exists(), noted.read_text(encoding="utf-8")
    # and it would have been noted
    attempt = "import socket; socket.create_connection(('192.0.2.1', 9), 1)"
    done = subprocess.run(
        [str(installed.python), "-c", attempt],
        env=installed.environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert (noted.exists(), "the network is denied" in done.stderr) == (True, True)


# ------------------------------------------------------------------ the bundle and the workflow, by


def test_the_bundle_starts_as_claude_desktop_starts_it(
    environment: dict[str, str], notes: Path, tmp_path: Path
) -> None:
    unpacked, uv = tmp_path / "bundle", tool("uv")
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
    with ServerProcess([str(notes)], (uv, *words), asked) as server:
        assert [each["folder"] for each in server.call("status")["folders"]] == ["docs"]
    assert start["command"] == "uv"


def test_the_workflow_is_one_that_github_would_run() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").iterdir())
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *workflows)


def test_an_auditor_of_workflows_finds_nothing() -> None:
    run(tool("zizmor"), "--offline", "--no-progress", "--persona", "auditor", ROOT / ".github")
