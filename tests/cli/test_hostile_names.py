"""Hostile names of files, folders, titles, tags and links are printed safely on one line."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from mcp import Client

from notes import write
from program import app
from thumbindex.background.host import LibraryHost
from thumbindex.library import Library
from thumbindex.mcp.server import build_server
from thumbindex.opening import OpenOptions
from thumbindex.web.app import ServerLog

TURNS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that reverse or break a line, or move the cursor."""

UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028-\u202e\u2060-\u206f\U000e0000-\U000e007f]"
)

HOSTILE = "\u202e\u2066\u2028\u2029\x1b[31m\x9b\x85\r\t\u200b\u00ad\U000e0041\nFAKE"

TEXT = "The walrus keeps a lantern in the cellar, for the long nights of the winter at sea.\n"

ROOT = f"va{HOSTILE}ult"
NOTE = f"walrus{HOSTILE} note.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    root = place / ROOT
    root.mkdir()
    quoted = "".join(f"\\U{ord(character):08x}" for character in HOSTILE)
    head = f'---\ntitle: "T{quoted}"\nstatus: "s{quoted}"\ntags: ["g{quoted}"]\n---\n'
    for name, words in {
        NOTE: "",
        f"d{HOSTILE}/copy.md": "",
        f"near{HOSTILE}.md": "Otters too. ",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        links = f"[[nowhere]] [[walrus note]]\n\n{TEXT * 4}"
        write(root / name, f"{head}# walrus\n\n{TEXT}{words}\n{links}")
    write(root / "odd.md", "# a\u2028\u2066b\n\n## c\u2029\u2067d\n\n[[x\u2028\u2029\u2066y]]\n")
    (root / f"out{HOSTILE}.md").symlink_to("/etc/hostname")
    write(root / "thumbindex.toml", f'[query]\n"x{quoted}" = 1\n')
    return place


@pytest.fixture(scope="module")
def library(place: Path, open_fake: Callable[[OpenOptions], Library]) -> Iterator[Library]:
    with open_fake(OpenOptions((str(place / ROOT),), place / "index")) as library:
        library.index()
        yield library


Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(
    place: Path,
    library: Library,
    open_fake: Callable[[OpenOptions], Library],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Say:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(place / ROOT)

    def say(*command: str) -> tuple[int, str]:
        folders = ["--folder", str(place / ROOT), "--index", str(place / "index")]
        options = [] if command[0] in {"add", "folders", "open", "remove"} else folders
        result = CliRunner().invoke(app, [*command, *options], obj=open_fake)
        return result.exit_code, result.output

    return say


COMMANDS = [
    ("index",),
    ("query", "walrus lantern", "--limit=1", "--full"),
    ("query", "walrus lantern", "--files"),
    ("query", "walrus lantern", "--limit=1", "--explain"),
    ("query", f"tag:g{HOSTILE}"),
    ("query", f"xyzzyq{HOSTILE}"),
    ("list",),
    ("read", NOTE, f"nope{HOSTILE}"),
    ("outline", NOTE),
    ("related", NOTE),
    ("broken",),
    ("orphans",),
    ("retired",),
    ("why", NOTE, "walrus lantern"),
    ("verify", f"{NOTE} (line 3) says \"nobody wrote this\" and nope{HOSTILE}.md (line 9)"),
    ("unlinked",),
    ("status",),
    ("doctor",),
    ("duplicates", "--grey"),
    ("open", "--print"),
    ("folders",),
    ("add", ".", "--name=n", f"--about=a{HOSTILE}"),
    ("remove", f"x{HOSTILE}"),
    (f"nope{HOSTILE}",),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(ascii, command)))
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_names_never_break_or_reverse_printed_lines(
    say: Say, command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    if form and "--files" in command:
        pytest.skip("--files and --json exclude each other")
    code, output = say(*command, *form)
    is_exact = form or "--files" in command
    wrong = (TURNS if is_exact else UNSEEN).findall(output)
    assert (code in {0, 1, 2}, wrong, "Unexpected" in output) == (True, [], False), output
    assert [line for line in output.splitlines() if line.lstrip().startswith("FAKE")] == []


def test_escaped_names_in_json_are_exact(say: Say) -> None:
    assert NOTE in {note["path"] for note in json.loads(say("list", "--json")[1])["notes"]}


def test_query_files_prints_one_escaped_line_per_file(say: Say) -> None:
    lines = say("query", "walrus lantern", "--files", "--limit", "5")[1].splitlines()
    assert len(lines) == len({line.partition("\\u202e")[0] for line in lines}) > 1
    assert all(r"\nFAKE" in line for line in lines if line != "odd.md")


def strings(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield name, value
        case dict():
            for key, item in value.items():
                yield from strings(item, key)
        case list():
            for item in value:
                yield from strings(item, name)


@pytest.mark.anyio
async def test_tool_names_are_one_line_and_paths_can_be_passed_back(
    library: Library,
) -> None:
    server = build_server(
        LibraryHost(OpenOptions(), lambda opening: library, command=[]), library.folders
    )
    async with Client(server) as client:
        answer = (
            await client.call_tool("query", {"query": "walrus lantern", "limit": 5})
        ).model_dump()
        listed = (await client.list_resources()).model_dump()
        names = [name for key, name in strings(listed) if key in {"name", "title"}]
        results = answer["structured_content"]["results"]
        names += [result["citation"] for result in results]
        moved = results[0]["citation"].partition(" (line")[0]
        draft = f'{moved} (line 900) says "The walrus keeps a lantern"'
        checked = (await client.call_tool("verify", {"text": [draft]})).model_dump()
        names += [item["now"] for item in checked["structured_content"]["citations"]]
        assert [item for item in names if UNSEEN.search(item) or "\n" in item] == []
        paths = set()
        for item in (name for result in results for name in (result["id"], result["citation"])):
            reading = await client.call_tool("read", {"path": [item]})
            assert not reading.is_error, item
            paths.add(reading.structured_content["path"])
        assert NOTE in paths


def test_names_never_break_or_reverse_log_lines(
    place: Path, library: Library, tmp_path: Path
) -> None:
    command = ["index", "--folder", str(place / ROOT), "--index", str(place / "index")]
    result = subprocess.run(
        [sys.executable, "-m", "thumbindex", *command],
        capture_output=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        check=False,
    )
    log = result.stderr.decode()
    assert (result.returncode, "Invalid settings file in the folder" in log) == (0, True), log
    assert UNSEEN.findall(log) == []
    assert len(log.splitlines()) == 1, log


def test_names_never_break_or_reverse_log_lines_over_http() -> None:
    name = "thumbindex.library.library"
    record = logging.LogRecord(name, logging.WARNING, "x.py", 1, f"The folder {HOSTILE}", (), None)
    log = ServerLog(io.StringIO()).format(record)
    assert (UNSEEN.findall(log), "\n" in log) == ([], False)
