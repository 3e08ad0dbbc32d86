"""Build the bundle for Claude Desktop (`make bundle`)."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thumbindex.mcp.tools import TOOLS

MANIFEST_VERSION = "0.4"
"""The first manifest version with which the client installs Python and packages with uv.

Packages are too large and too platform-specific to be part of a bundle.
"""

_PROGRAM = "main.py"
"""Path of the program in the bundle.

It is at the top level, since Python would import other modules in its folder by mistake.
"""

_PROGRAM_TEXT = """\
\"\"\"Serve the folders named in the arguments.\"\"\"

import sys

from thumbindex.cli.app import app

app(["serve", *(f"--folder={folder}" for folder in sys.argv[1:])])
"""

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The earliest zip timestamp. With a fixed one, the same files always give the same bundle."""

_LONG = (
    "Indexes folders of Markdown (a notes vault, a project's docs) and answers questions with the "
    "right passages, each cited with its line numbers. The index follows every edit.\n"
    "Everything stays on this machine, and your files are never changed. The first start installs "
    "Python packages (420 MB), which takes about a minute.\n"
)


def write_bundle(root: Path, target: Path | None = None) -> Path:
    """Write a repository's bundle and return its path."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    place = target or root / "dist" / f"{project['name']}-{project['version']}.mcpb"
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in _files(root, project):
            bundle.writestr(zipfile.ZipInfo(name, _EARLIEST), content, zipfile.ZIP_DEFLATED)
    return place


def manifest(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest: the description, the user's settings, and the start command."""
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": project["name"],
        "display_name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "long_description": _LONG,
        "author": {"name": project["name"]},
        "license": project["license"],
        "server": {
            "type": "uv",
            "entry_point": _PROGRAM,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", _PROGRAM, "${user_config.folders}"],
            },
        },
        "tools": [{"name": tool["name"], "description": tool["description"]} for tool in TOOLS],
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "win32", "linux"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": "The folders of Markdown to search. Their files are never changed.",
                "multiple": True,
                "required": True,
            }
        },
    }


def _files(root: Path, project: Mapping[str, Any]) -> Iterator[tuple[str, str | bytes]]:
    yield "manifest.json", json.dumps(manifest(project), indent=2, ensure_ascii=False) + "\n"
    yield _PROGRAM, _PROGRAM_TEXT
    yield "pyproject.toml", _with_pins(root)
    for name in ("LICENSE", "README.md"):
        yield name, (root / name).read_bytes()
    for path in sorted((root / "src" / "thumbindex").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path.read_bytes()


def _with_pins(root: Path) -> str:
    """Return `pyproject.toml` with the tested package versions as constraints for uv."""
    pins = re.findall(r"^[^#\s].*$", (root / "constraints.txt").read_text(encoding="utf-8"), re.M)
    listed = "".join(f"  {json.dumps(pin)},\n" for pin in pins)
    return (root / "pyproject.toml").read_text(
        encoding="utf-8"
    ) + f"\n[tool.uv]\nconstraint-dependencies = [\n{listed}]\n"


if __name__ == "__main__":
    sys.stdout.write(f"{write_bundle(Path())}\n")
