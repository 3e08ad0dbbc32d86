"""Hostile paths return nothing from outside the folders and do not reveal whether it exists."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mcp import Client
from mcp.shared.exceptions import MCPError

from hostile_vault import SECRET, make
from program import app
from thumbindex.background.host import LibraryHost
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
    # absolute on some system
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
    # NUL, control characters, lengths, invalid text
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
    # files that are not notes
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
"""Paths that are refused as filters."""

ACCEPTED = [path for path in HOSTILE if path not in REFUSED]
BATCHES = [
    *(ACCEPTED[start : start + 20] for start in range(0, len(ACCEPTED), 20)),
    *([path] for path in REFUSED),
]
"""Batches of paths for filters, to save queries: one leak changes the answer of its batch."""


@pytest.fixture(scope="module")
def vaults(
    tmp_path_factory: pytest.TempPathFactory, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[tuple[tuple[Library, Path], ...]]:
    """Open two folders that differ only in the files outside them."""
    opened = []
    for name in ("aa", "bb"):
        place = tmp_path_factory.mktemp(name) / "place"
        root, index = (
            make(place, place.parent / "outside", real=name == "aa"),
            place.parent / "index",
        )
        os.mkfifo(root / "pipe.md")
        library = open_fake(OpenOptions((str(root),), index))
        library.index()
        opened.append((library, place.parent))
    yield tuple(opened)
    for library, _ in opened:
        library.close()


def neutral(output: object, place: Path) -> str:
    """Return output with the only difference between the folders' paths removed."""
    return (
        repr(output)
        .replace(str(place), "PLACE")
        .replace(str(place).lstrip("/"), "PLACE")
        .replace(place.name, "PLACE")
    )


def with_outside(path: str, place: Path) -> str:
    return path.replace("OUTSIDE", str(place / "outside").lstrip("/"))


async def all_requests(client: Client, path: str) -> list[object]:
    """Send a path to a server in every possible request."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": path}),
        ("outline", {"path": path}),
        ("related", {"path": path}),
        ("query", {"query": "apples", "why": path}),
        *((tool, {"path": "note.md", "folder": path}) for tool in ("read", "outline", "related")),
    ]
    outputs: list[object] = []
    for tool, arguments in calls:
        result = await client.call_tool(tool, arguments)
        outputs.append((result.is_error, result.content[0].text))
    requests: list[Callable[[], Any]] = [
        lambda: client.read_resource(f"thumbindex://vault/{path}"),
        lambda: client.read_resource(f"thumbindex://{path}"),
        lambda: client.read_resource(f"file:///{path}"),
        *(
            partial(client.subscribe_resource, uri)
            for uri in (f"thumbindex://vault/{path}", f"thumbindex://{path}")
        ),
    ]
    for request in requests:
        try:
            outputs.append((await request()).model_dump())
        except MCPError as error:
            outputs.append(str(error))
    return outputs


@pytest.mark.slow
@pytest.mark.anyio
# clients with an earlier protocol still use it
@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
async def test_hostile_paths_over_mcp_reveal_nothing_outside(
    vaults: tuple[tuple[Library, Path], ...],
) -> None:
    outputs: list[dict[str, str]] = []
    for library, place in vaults:
        server = build_server(
            LibraryHost(OpenOptions(), lambda opening, library=library: library, command=[]),
            library.folders,
        )
        async with Client(server, mode="legacy") as client:
            sendable = [path for path in HOSTILE if path.isprintable() or path.isascii()]
            outputs.append(
                {
                    path: neutral(await all_requests(client, with_outside(path, place)), place)
                    for path in sendable
                }
            )
            for batch in BATCHES:
                paths = [with_outside(path, place) for path in batch if path in sendable]
                answers = [
                    await client.call_tool("query", {"query": "apples secret", name: paths})
                    for name in ("path", "folder")
                ]
                outputs[-1][repr(batch)] = neutral(
                    [(answer.is_error, answer.content[0].text) for answer in answers], place
                )
    assert outputs[0] == outputs[1]
    assert [path for path, output in outputs[0].items() if SECRET in output] == []


def test_hostile_paths_on_the_command_line_reveal_nothing_outside(
    vaults: tuple[tuple[Library, Path], ...],
    open_fake: Callable[[OpenOptions], Library],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(library: Library, place: Path, command: str, *arguments: str) -> str:
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
        existing, missing = (
            run(library, place, *(with_outside(part, place) for part in command))
            for library, place in vaults
        )
        assert existing == missing, command
        assert SECRET not in existing


def test_reports_do_not_reveal_symlink_targets(
    vaults: tuple[tuple[Library, Path], ...],
) -> None:
    existing, missing = (
        neutral((library.status()[0].skipped, library.index().skipped), place)
        for library, place in vaults
    )
    assert existing == missing
    assert {problem.path for problem in vaults[0][0].status()[0].skipped} >= {
        "out.md",
        "outdir",
        "chain",
        "chain.md",
        ".gitignore",
        "sub/.gitignore",
    }


def test_directory_swapped_for_a_symlink_during_reading_leaks_nothing(tmp_path: Path) -> None:
    root = make(tmp_path / "place", tmp_path / "outside", real=True)
    (root / "dir").mkdir()
    (root / "dir/secret.md").write_text("Open.\n")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (root / "dir").rename(root / "kept")
            (root / "dir").symlink_to(tmp_path / "outside")
            time.sleep(0.0002)
            (root / "dir").unlink()
            (root / "kept").rename(root / "dir")
            time.sleep(0.0002)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        results = [read_bytes(root, "dir/secret.md", CorpusSettings()) for _ in range(4000)]
    finally:
        done.set()
        swapping.join()
    assert {result for result in results if not isinstance(result, Problem)} == {b"Open.\n"}
