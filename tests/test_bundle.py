"""The bundle for Claude Desktop: what is in it. `package/test_package.py` starts it."""

import json
import re
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from thumbindex.mcp.tools import TOOLS

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from bundle import write_bundle

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(ROOT, tmp_path_factory.mktemp("bundle") / "x.mcpb")


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zipfile.ZipFile(bundle).read("manifest.json"))
    return found


def test_the_manifest_says_what_this_version_is_and_does(manifest: dict[str, Any]) -> None:
    assert (manifest["manifest_version"], manifest["name"], manifest["version"]) == (
        "0.4",
        "thumbindex",
        version("thumbindex"),
    )
    assert [each["name"] for each in manifest["tools"]] == [tool["name"] for tool in TOOLS]


def test_every_setting_that_the_command_names_is_asked_for(manifest: dict[str, Any]) -> None:
    named = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"]))
    assert named == list(manifest["user_config"])


def test_the_packages_in_it_are_those_that_are_tested(bundle: Path) -> None:
    project = tomllib.loads(zipfile.ZipFile(bundle).read("pyproject.toml").decode())
    pins = project["tool"]["uv"]["constraint-dependencies"]
    assert [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ] == pins


def test_the_same_files_make_the_same_bundle(bundle: Path, tmp_path: Path) -> None:
    assert write_bundle(ROOT, tmp_path / "again.mcpb").read_bytes() == bundle.read_bytes()
