"""Whoever asks for a path gets nothing from outside the folders, and does not learn whether
anything is there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from click.testing import Result
from mcp import Client
from mcp.shared.exceptions import MCPError
from typer.testing import CliRunner

from hostile_vault import SECRET, make
from thumbindex.background.host import LibraryHost
from thumbindex.cli.app import app
from thumbindex.corpus.read import read_bytes
from thumbindex.library import Library
from thumbindex.mcp.server import build_server
from thumbindex.model import Problem
from thumbindex.opening import OpenOptions
from thumbindex.settings import CorpusSettings

TRAVERSALS = [
    *(
        f"{up}/secret.md"
        for up in ("..", "%2e%2e", "%252e%252e", "..%00", "．．", "..\u200b", "%c0%ae%c0%ae")
    ),
    *(f"..{slash}secret.md" for slash in ("\\", "%2f", "%252f", "／", "//", "%c0%af")),
]

HOSTILE = [
    *TRAVERSALS,
    "sub/../../secret.md",
    "./../secret.md",
    "../" * 40 + "etc/passwd",
    "../" * 3 + "OUTSIDE/secret.md",
    "../secret.md#Secret",
    "#../secret.md",
    "../secret.md?x",
    "note.md/../../secret.md",
    "nowhere/../../secret.md",
    "../vault-2/secret.md",
    # absolute, and what some systems take for absolute
    "/OUTSIDE/secret.md",
    "//OUTSIDE/secret.md",
    "file://OUTSIDE/secret.md",
    "~/secret.md",
    "$HOME/secret.md",
    "C:\\secret.md",
    "\\\\?\\C:\\secret.md",
    "\\\\host\\share\\secret.md",
    # symlinks that lead out
    "out.md",
    "outdir/secret.md",
    "outdir/absent.md",
    "outdir",
    "outdir/../secret.md",
    "chain.md",
    "chain/secret.md",
    "loop",
    "OUT.MD",
    # devices, pipes, the kernel's own
    "/dev/zero",
    "dev.md",
    "pipe.md",
    "/proc/self/cwd/secret.md",
    "proc.md",
    "/etc/passwd",
    "NUL",
    "COM1",
    "note.md::$DATA",
    # NUL, control characters, lengths, what is no text
    "\0",
    "note.md\0../secret.md",
    "../secret.md\0.md",
    "note.md%0a",
    "note.md\r\n../secret.md",
    "\x1b[2Jnote.md",
    " ../secret.md",
    "../secret.md.",
    "A" * 900,
    "../" * 300,
    "\ud800.md",
    "\udcff/../../secret.md",
    # what is no note
    ".git/config",
    ".thumbindexignore",
    "thumbindex.toml",
    "notes.txt",
    # directories and globs
    "..",
    "/",
    "../*",
    "/**",
    "{..,.}/secret.md",
]


REFUSED = [path for path in HOSTILE if not path.removeprefix("./").strip("/ ")]
"""As a filter, of which an error says that it matches nothing."""

TAKEN = [path for path in HOSTILE if path not in REFUSED]
BATCHES = [*(TAKEN[at : at + 20] for at in range(0, len(TAKEN), 20)), *([path] for path in REFUSED)]
"""For filters, which take many: an answer to all of them differs where the answer to one does, and
a question costs milliseconds.
"""


@pytest.fixture(scope="module")
def vaults(
    tmp_path_factory: pytest.TempPathFactory, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[tuple[tuple[Library, Path], ...]]:
    """Open two folders that differ only in what lies outside of them."""
    made = []
    for name in ("aa", "bb"):
        place = tmp_path_factory.mktemp(name) / "place"
        root, index = (
            make(place, place.parent / "outside", real=name == "aa"),
            place.parent / "index",
        )
        os.mkfifo(root / "pipe.md")
        library = open_fake(OpenOptions((str(root),), index))
        library.index()
        made.append((library, place.parent))
    yield tuple(made)
    for library, _ in made:
        library.close()


def neutral(said: object, place: Path) -> str:
    """Return what was said with the one thing taken out in which the two folders' paths differ."""
    return (
        repr(said)
        .replace(str(place), "PLACE")
        .replace(str(place).lstrip("/"), "PLACE")
        .replace(place.name, "PLACE")
    )


def asked(path: str, place: Path) -> str:
    return path.replace("OUTSIDE", str(place / "outside").lstrip("/"))


async def of_server(client: Client, path: str) -> list[object]:
    """Ask a server for a path in every way there is."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": path}),
        ("outline", {"path": path}),
        ("related", {"path": path}),
        ("query", {"query": "apples", "why": path}),
        *((tool, {"path": "note.md", "folder": path}) for tool in ("read", "outline", "related")),
    ]
    said: list[object] = []
    for tool, arguments in calls:
        result = await client.call_tool(tool, arguments)
        said.append((result.is_error, result.content[0].text))
    template = types.ResourceTemplateReference(uri="thumbindex://{folder}/{+path}")
    ways: list[Callable[[], Any]] = [
        lambda: client.read_resource(f"thumbindex://vault/{path}"),
        lambda: client.read_resource(f"thumbindex://{path}"),
        lambda: client.read_resource(f"file:///{path}"),
        lambda: client.complete(template, {"name": "path", "value": path}),
        lambda: client.complete(template, {"name": "path", "value": "n"}, {"folder": path}),
        *(
            partial(client.subscribe_resource, uri)
            for uri in (f"thumbindex://vault/{path}", f"thumbindex://{path}")
        ),
    ]
    for way in ways:
        try:
            said.append((await way()).model_dump())
        except MCPError as error:
            said.append(str(error))
    return said


@pytest.mark.anyio
# it is what the clients of an earlier era have
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
async def test_no_path_reads_or_betrays_it_over_the_protocol(
    vaults: tuple[tuple[Library, Path], ...],
) -> None:
    said: list[dict[str, str]] = []
    for library, place in vaults:
        server = build_server(
            LibraryHost(OpenOptions(), lambda opening, library=library: library, command=[]),
            library.folders,
        )
        async with Client(server, mode="legacy") as client:
            whole = (path for path in HOSTILE if path.isprintable() or path.isascii())
            said.append(
                {
                    path: neutral(await of_server(client, asked(path, place)), place)
                    for path in whole
                }
            )
            for paths in BATCHES:
                given = [
                    asked(path, place) for path in paths if path.isprintable() or path.isascii()
                ]
                answers = [
                    await client.call_tool("query", {"query": "apples secret", name: given})
                    for name in ("path", "folder")
                ]
                said[-1][repr(paths)] = neutral(
                    [(answer.is_error, answer.content[0].text) for answer in answers], place
                )
    assert said[0] == said[1]
    assert [path for path, told in said[0].items() if SECRET in told] == []


def test_no_path_betrays_it_on_the_command_line(
    vaults: tuple[tuple[Library, Path], ...],
    open_fake: Callable[[OpenOptions], Library],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def say(library: Library, place: Path, command: str, *arguments: str) -> str:
        monkeypatch.chdir(place / "place")
        options = [
            "--folder",
            str(place / "place/vault"),
            "--index",
            str(place / "index"),
            *arguments,
        ]
        result: Result = CliRunner().invoke(app, [command, *options], obj=open_fake)
        return neutral((result.exit_code, result.output), place)

    writable = [
        [path for path in batch if "\ud800" not in path and "\udcff" not in path]
        for batch in BATCHES
    ]
    commands = [("query", *(f"--path={path}" for path in paths), "apples") for paths in writable]
    commands += [("why", "--", path, "apples") for paths in writable for path in paths[::10]]
    for command in commands:
        there, not_there = (
            say(library, place, *(asked(each, place) for each in command))
            for library, place in vaults
        )
        assert there == not_there, command
        assert SECRET not in there


def test_reports_do_not_betray_what_symlinks_lead_to(
    vaults: tuple[tuple[Library, Path], ...],
) -> None:
    there, not_there = (
        neutral((library.status()[0].skipped, library.index().skipped), place)
        for library, place in vaults
    )
    assert there == not_there
    assert {each.path for each in vaults[0][0].status()[0].skipped} >= {
        "out.md",
        "outdir",
        "chain",
        "chain.md",
        ".gitignore",
        "sub/.gitignore",
    }


def test_what_is_swapped_for_a_symlink_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    root = make(tmp_path / "place", tmp_path / "outside", real=True)
    (root / "dir").mkdir()
    (root / "dir/secret.md").write_text("Open.\n")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (root / "dir").rename(root / "kept")
            (root / "dir").symlink_to(tmp_path / "outside")
            time.sleep(0.0002)
            (root / "dir").unlink()
            (root / "kept").rename(root / "dir")
            time.sleep(0.0002)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        found = [read_bytes(root, "dir/secret.md", CorpusSettings()) for _ in range(4000)]
    finally:
        over.set()
        swapping.join()
    assert {each for each in found if not isinstance(each, Problem)} == {b"Open.\n"}
