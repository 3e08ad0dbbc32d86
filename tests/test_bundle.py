"""The bundle for Claude Desktop: what is in it, and that what is in it starts."""

import json
import re
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from servers import ServerProcess
from thumbindex.serve.clients import bundle
from thumbindex.serve.tools import TOOLS

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    zipfile.ZipFile(bundle.write_bundle(ROOT, folder / "x.mcpb")).extractall(folder / "in")
    return folder / "in"


@pytest.fixture(scope="module")
def manifest(unpacked: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
    return found


def test_the_manifest_says_what_this_version_is_and_does(manifest: dict[str, Any]) -> None:
    assert (manifest["manifest_version"], manifest["name"], manifest["version"]) == (
        "0.4",
        "thumbindex",
        version("thumbindex"),
    )
    assert [each["name"] for each in manifest["tools"]] == [each["name"] for each in TOOLS]


def test_every_setting_that_the_command_names_is_asked_for(manifest: dict[str, Any]) -> None:
    named = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"]))
    assert named == list(manifest["user_config"])


def test_the_packages_in_it_are_those_that_are_tested(unpacked: Path) -> None:
    pins = tomllib.loads((unpacked / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"][
        "constraint-dependencies"
    ]
    assert [
        each
        for each in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not each.startswith("#")
    ] == pins


def test_what_is_in_it_serves_several_folders(
    unpacked: Path, manifest: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(unpacked / "src"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folders = [tmp_path / name for name in ("notes", "my docs")]
    for each in folders:
        each.mkdir()
    program = (sys.executable, str(unpacked / manifest["server"]["entry_point"]))
    with ServerProcess([str(each) for each in folders], program) as server:
        found = server.call("status")
    assert {each["folder"] for each in found["folders"]} == {"notes", "my docs"}


def test_the_same_files_make_the_same_bundle(tmp_path: Path) -> None:
    assert (
        bundle.write_bundle(ROOT, tmp_path / "a").read_bytes()
        == bundle.write_bundle(ROOT, tmp_path / "b").read_bytes()
    )
