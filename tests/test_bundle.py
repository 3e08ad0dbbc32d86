"""The contents of the bundle for Claude Desktop; `package/test_package.py` starts it."""

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
    content: dict[str, Any] = json.loads(zipfile.ZipFile(bundle).read("manifest.json"))
    return content


def test_manifest_has_the_version_and_lists_all_tools(manifest: dict[str, Any]) -> None:
    assert (manifest["manifest_version"], manifest["name"], manifest["version"]) == (
        "0.4",
        "thumbindex",
        version("thumbindex"),
    )
    assert [entry["name"] for entry in manifest["tools"]] == [tool["name"] for tool in TOOLS]


def test_user_config_declares_every_setting_of_the_command(manifest: dict[str, Any]) -> None:
    settings = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"]))
    assert settings == list(manifest["user_config"])


def test_bundle_pins_the_tested_packages(bundle: Path) -> None:
    project = tomllib.loads(zipfile.ZipFile(bundle).read("pyproject.toml").decode())
    pins = project["tool"]["uv"]["constraint-dependencies"]
    assert [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ] == pins


def test_bundle_is_reproducible(bundle: Path, tmp_path: Path) -> None:
    assert write_bundle(ROOT, tmp_path / "again.mcpb").read_bytes() == bundle.read_bytes()
