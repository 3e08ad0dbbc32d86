"""The MCP server, tested through the SDK's in-memory client."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types as types
import pytest
from anyio.to_thread import run_sync
from mcp import Client
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from notes import write
from servers import path_of
from thumbindex.background.host import LibraryHost
from thumbindex.index.locks import publish_run
from thumbindex.library import Library
from thumbindex.mcp.budget import compact_json
from thumbindex.mcp.server import build_server
from thumbindex.mcp.tools import TOOLS
from thumbindex.model import Progress
from thumbindex.opening import OpenOptions

pytestmark = pytest.mark.anyio

OUTPUT = {tool["name"]: tool["outputSchema"] for tool in TOOLS}
EVERYTHING = "press the green button, draw boxes and arrows, shows how notes link to each other"
TEMPLATE = types.ResourceTemplateReference(uri="thumbindex://{folder}/{+path}")


async def call(server: Server, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Call a tool that must succeed, and validate its structured content."""
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
    assert isinstance(result.content[0], types.TextContent)
    assert not result.is_error, result.content[0].text
    jsonschema.validate(result.structured_content, OUTPUT[tool])
    return result.content[0].text, result.structured_content


async def refused(server: Server, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail; return its message."""
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_protocol_eras_list_six_read_only_tools_under_6000_bytes(
    server: Server, mode: str
) -> None:
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "query",
        "read",
        "outline",
        "related",
        "verify",
        "status",
    ]
    assert all(
        tool.annotations
        and tool.annotations.read_only_hint
        and tool.annotations.idempotent_hint
        and tool.title
        for tool in tools
    )
    as_sent = json.dumps(
        [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools],
        separators=(",", ":"),
        ensure_ascii=False,
    )
    assert len(as_sent.encode()) < 6000
    arguments = [
        argument for tool in tools for argument in tool.input_schema["properties"].values()
    ]
    assert all(argument.get("description") for argument in arguments)


async def test_instructions_name_the_folders(server: Server) -> None:
    async with Client(server, mode="legacy") as client:
        assert "\n- vault" in (client.instructions or "")


async def test_question_is_answered_with_citations(server: Server) -> None:
    text, answer = await call(
        server, "query", query="which note wins when two devices edit", limit=1
    )
    result = answer["results"][0]
    assert "sync.md" in result["citation"]
    assert f"## 1. {result['citation']}\n" in text
    assert "the newer note wins" in result["text"]


async def test_passage_id_and_citation_work_as_tool_arguments(server: Server) -> None:
    _, answer = await call(server, "query", query="which note wins when two devices edit", limit=1)
    result = answer["results"][0]
    for place in (result["id"], result["citation"]):
        _, reading = await call(server, "read", path=place)
        assert (reading["path"], "the newer note wins" in reading["text"]) == ("sync.md", True)
        assert (await call(server, "related", path=place))[1]["path"] == "sync.md"


async def test_default_answer_says_nothing_twice(server: Server) -> None:
    _, answer = await call(server, "query", query="which note wins when two devices edit", limit=1)
    assert answer.keys() == {"found", "confidence", "confidence_level", "results"}
    assert answer["results"][0].keys() == {"id", "citation", "text", "date"}


async def test_unexpected_exception_becomes_a_tool_error_with_its_source_line() -> None:
    def fail() -> Library:
        raise ZeroDivisionError("of nothing")

    library_host = LibraryHost(OpenOptions(), lambda _: fail(), command=[])
    async with Client(build_server(library_host, (("vault", Path("/vault")),))) as client:
        result = await client.call_tool("query", {"query": "x"})
    assert result.is_error
    assert re.search(
        r"^Unexpected ZeroDivisionError: of nothing \(test_server\.py:\d+\)\. Please report",
        result.content[0].text,
    )


async def test_nonsense_query_finds_nothing(server: Server) -> None:
    text, answer = await call(server, "query", query="xyzzyq plughw")
    assert (answer["found"], answer["results"]) == (False, [])
    assert text.startswith(
        "Nothing found: no note has `xyzzyq`, `plughw`. Tell the user so, or try other words."
    )
    assert answer["missing"] == ["xyzzyq", "plughw"]


@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        ({"tag": ["guide"]}, {"sync.md"}),
        ({"path": "sync.md"}, {"sync.md"}),
        ({"since": "2026-01-01", "path": ["sync.md", "plugins/graph*"]}, {"sync.md"}),
        ({"until": "2020-01-01", "folder": ["vault"]}, {"plugins/graph view.md"}),
    ],
)
async def test_filters_narrow_a_query(
    server: Server, filters: dict[str, Any], paths: set[str]
) -> None:
    _, answer = await call(server, "query", query=EVERYTHING, limit=10, **filters)
    assert {path_of(result) for result in answer["results"]} == paths


async def test_query_text_may_hold_filters_and_unknown_tags_get_suggestions(
    server: Server,
) -> None:
    text, answer = await call(server, "query", query="tag:guide -whiteboard", limit=10)
    assert {path_of(result) for result in answer["results"]} == {"sync.md"}
    assert (answer["listed"], "Filters: tag:guide -whiteboard" in text) == (1, True)
    text, answer = await call(server, "query", query="green button", tag=["giude"])
    assert answer["unmet"] == [
        {"field": "tag", "value": "giude", "nearest": ["guide"], "as_words": False}
    ]
    assert "No note has the tag #giude: nearest is #guide." in text


async def test_outline_lists_notes_by_tag_date_and_glob_newest_first(server: Server) -> None:
    text, dated = await call(server, "outline", until="2026-03-01")
    assert [entry["path"] for entry in dated["entries"]] == ["sync.md", "plugins/graph view.md"]
    assert text.splitlines()[0] == "2026-03-01  sync.md - Sync #guide/setup"
    _, tagged = await call(server, "outline", tag="guide", path="*.md", folder="vault")
    assert [(entry["path"], entry["tags"]) for entry in tagged["entries"]] == [
        ("sync.md", ["guide/setup"])
    ]
    _, filtered = await call(server, "outline", where=["date>2025", "-has:status"])
    assert [entry["path"] for entry in filtered["entries"]] == ["sync.md"]
    text, none = await call(server, "outline", where=["tagz:guide"])
    assert (none["entries"], none["unmet"][0]["nearest"]) == ([], ["has:tags"])
    text, none = await call(server, "outline", tag=["giude"])
    assert (none["entries"], none["unmet"][0]["nearest"]) == ([], ["guide"])
    assert "No note has the tag #giude: nearest is #guide." in text


@pytest.mark.parametrize("tokens", [500, 700])
@pytest.mark.parametrize("explain", [False, True])
async def test_answers_fit_their_budget(
    server: Server, library: Library, tokens: int, explain: bool
) -> None:
    text, answer = await call(
        server, "query", query=EVERYTHING, limit=3, max_tokens=tokens, explain=explain
    )
    structured = compact_json(answer)
    assert library.count_tokens(text) + library.count_tokens(structured) <= tokens
    assert len(answer["results"]) + answer.get("left_out", 0) == 3


async def test_read_returns_a_document_a_heading_or_lines(server: Server) -> None:
    document, _ = await call(server, "read", path="sync.md")
    _, by_heading = await call(server, "read", path="sync.md", heading="Conflicts")
    _, by_lines = await call(server, "read", path="sync.md", lines="11-13", folder="vault")
    assert document.startswith("sync.md (lines 1-13 of 13)\n\n```note\n---\n")
    assert by_heading["text"] == by_lines["text"]
    assert by_lines["text"].startswith("## Conflicts")


@pytest.fixture
def long_document(tmp_path: Path, open_fake: Callable[[OpenOptions], Library]) -> Iterator[Server]:
    """Serve one document with 402 headings and unusual line ends, within a small budget."""
    (tmp_path / "notes").mkdir()
    text = "# Long\n\n" + "".join(
        f"## Heading number {number}\n\nodd\u2028end\x0cof a line\n\n" for number in range(1, 402)
    )
    write(tmp_path / "notes" / "long.md", text)
    opening = OpenOptions(
        (str(tmp_path / "notes"),), tmp_path / "index", overrides=("serve.read_tokens=1000",)
    )
    with open_fake(opening) as library:
        library.index(complete=False)
        yield build_server(
            LibraryHost(opening, lambda opening: library, command=[]), library.folders
        )


async def test_cut_reading_continues_at_the_next_line(long_document: Server) -> None:
    text, part = await call(long_document, "read", path="long.md")
    _, next_line = await call(
        long_document, "read", path="long.md", lines=str(part["end_line"] + 1)
    )
    assert f"continue with lines {part['end_line'] + 1}-" in text
    first_lines = (
        await call(long_document, "read", path="long.md", lines=f"1-{part['end_line']}")
    )[1]["text"]
    assert (part["text"], next_line["text"]) == (first_lines, next_line["text"])
    assert len(part["text"].split("\n")) == part["end_line"]


async def test_several_documents_are_read_in_order_within_the_budget(
    long_document: Server, library: Library
) -> None:
    parts = ["long.md:1-3", "nowhere.md", "long.md", "long.md#Heading number 7"]
    text, reading = await call(long_document, "read", path=parts)
    first, second = reading["notes"]
    assert (first["start_line"], first["end_line"], "rest" in first) == (1, 3, False)
    assert second["rest"] == {"start_line": second["end_line"] + 1, "end_line": 1606}
    assert list(reading["errors"]) == ["nowhere.md"]
    assert reading["left_out"] == ["long.md:27-30"]
    assert "(left out: long.md:27-30; call `read` again for these)" in text
    assert max(map(library.count_tokens, (text, compact_json(reading)))) <= 1000


async def test_lone_surrogates_in_calls_are_replaced(server: Server) -> None:
    assert "green" in (await call(server, "query", query="press the green \udcff button"))[0]
    assert "No note 'n\ufffd'" in await refused(server, "read", path="n\udcff")


async def test_related_lists_links_backlinks_and_similar_notes(server: Server) -> None:
    text, related = await call(server, "related", path="plugins/canvas.md")
    assert (related["links"], related["backlinks"], related["dangling"]) == (
        ["sync.md"],
        ["sync.md"],
        ["nowhere"],
    )
    assert len(related["similar"]) == 2
    assert "Links that lead nowhere: nowhere" in text


async def test_status_reports_the_index_and_model(server: Server) -> None:
    text, status = await call(server, "status")
    assert status["folders"][0]["index"]["documents"] == 3
    assert status["properties"] == ["date", "tags"]
    assert "model: fake" in text
    assert "properties for `where`: date, tags" in text


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("query", {"query": "word " * 2001}, "the maximum is 10,000"),
        ("query", {"query": "x", "limt": 3}, "Unknown argument `limt`: did you mean `limit`?"),
        ("query", {}, "`query` needs `query`"),
        ("query", {"query": "x", "limit": 0}, "limit is 0: choose a whole number from 1 to 100"),
        ("query", {"query": "x", "limit": "three"}, "`limit` must be a whole number such as 5"),
        ("query", {"query": "x", "where": ["due"]}, "where 'due' is not a condition: write"),
        ("query", {"query": "x", "tag": [True]}, "`tag` must be a list of strings"),
        (
            "query",
            {"query": "x", "since": "soon"},
            "since is 'soon': write a date such as 2026-01-31 or 2026-01",
        ),
        ("query", {"query": "x", "folder": ["valt"]}, "vault"),
        ("read", {"path": "plugins/canvs.md"}, "plugins/canvas.md"),
        ("read", {"path": "sync.md", "heading": "Conflict"}, "Conflicts"),
        ("read", {"path": "sync.md", "lines": "9-3"}, "end at a later line or the same: '9-3'"),
        ("read", {"path": ["sync.md"] * 21}, "`path` has 21 values; the maximum is 20"),
        ("search", {"query": "x"}, "The tools are query, read, outline, related, verify, status"),
    ],
)
async def test_errors_of_wrong_calls_say_what_to_do(
    server: Server, tool: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in await refused(server, tool, **arguments)


async def test_documents_are_resources(server: Server) -> None:
    async with Client(server) as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        contents = (
            await client.read_resource("thumbindex://vault/plugins/graph%20view.md")
        ).contents[0]
    assert [resource.uri for resource in listed] == [
        f"thumbindex://vault/plugins/{name}.md" for name in ("canvas", "graph%20view")
    ] + ["thumbindex://vault/sync.md"]
    assert templates[0].uri_template == TEMPLATE.uri
    assert isinstance(contents, types.TextResourceContents)
    assert contents.text.endswith("dots and lines.")


async def test_prompt_contains_the_question(server: Server) -> None:
    async with Client(server) as client:
        assert [entry.name for entry in (await client.list_prompts()).prompts] == [
            "answer_from_notes"
        ]
        prompt = await client.get_prompt("answer_from_notes", {"question": "Who wins?"})
        with pytest.raises(MCPError, match="`question` is required"):
            await client.get_prompt("answer_from_notes", {})
    content = prompt.messages[0].content
    assert isinstance(content, types.TextContent)
    assert content.text.startswith("Answer this question from my notes: Who wins?")


@pytest.fixture
def stale_folder(
    tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[tuple[Server, Library, Path]]:
    """Serve a folder with seven files newer than its index; also return a writer."""
    root = tmp_path / "notes"
    write(root / "old.md", "# Old\n\nKnown for long.\n")
    opening = OpenOptions((str(root),), tmp_path / "index")
    with open_fake(opening) as library, open_fake(opening) as writer:
        writer.index(complete=False)
        for number in range(7):
            write(root / f"new {number}.md", f"# New {number}\n\nJust written.\n")
        yield (
            build_server(
                LibraryHost(opening, lambda opening: library, command=[]), library.folders
            ),
            writer,
            root,
        )


async def test_answer_after_a_timed_out_wait_names_the_stale_folder(
    stale_folder: tuple[Server, Library, Path],
) -> None:
    text, answer = await call(stale_folder[0], "query", query="known for long", wait_fresh=0.2)
    assert "The last changes in notes may not be indexed yet." in text
    assert (answer["index"]["fresh"], answer["index"]["behind"]) == (False, ["notes"])


async def test_missing_folder_is_reported(stale_folder: tuple[Server, Library, Path]) -> None:
    server, _, root = stale_folder
    root.rename(root.with_name("elsewhere"))
    text, answer = await call(server, "query", query="known for long", wait_fresh=20)
    assert "Missing now: notes; answers use the notes as last indexed." in text
    assert "Missing now: notes; " in (await call(server, "query", query="known for long"))[0]
    assert (answer["index"]["fresh"], answer["index"]["missing"]) == (False, ["notes"])
    text, answer = await call(server, "status")
    assert (
        text.splitlines()[-1:]
        == answer["notes"]
        == ["Missing now: notes; answers use the notes as last indexed."]
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_waiting_reports_growing_progress(
    stale_folder: tuple[Server, Library, Path], mode: str
) -> None:
    server, writer, _ = stale_folder
    reports: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))
        if len(reports) == 1:
            await run_sync(writer.index)

    with publish_run(writer.opened[0].index_paths.folder) as indexed:
        indexed("words", 0, 7)
        async with Client(server, mode=mode) as client:
            result = await client.call_tool(
                "query", {"query": "just written", "wait_fresh": 20}, progress_callback=on_progress
            )
    assert result.structured_content["index"]["fresh"] is True
    assert reports[0][1:] == (None, "indexed 0 of 7 notes")
    times = [report[0] for report in reports]
    assert times == sorted(set(times))


async def test_answers_and_status_report_indexing_progress(
    stale_folder: tuple[Server, Library, Path],
) -> None:
    class AtWork(LibraryHost):
        def progress(self) -> tuple[Progress, ...]:
            return (Progress("notes", "words", 300, 1000),)

    server, writer, root = stale_folder
    server = build_server(
        AtWork(OpenOptions(), lambda opening: writer, command=[]), [("notes", root)]
    )
    text, answer = await call(server, "query", query="known for long")
    assert text.endswith("; indexed 300 of 1,000 notes so far")
    assert answer["index"]["progress"] == [
        {"folder": "notes", "phase": "words", "done": 300, "total": 1000}
    ]
    assert (await refused(server, "read", path="new.md")).endswith(
        " The note may not be indexed yet (indexed 300 of 1,000 notes so far): try again soon."
    )
    text, status = await call(server, "status")
    assert "\nindexed 300 of 1,000 notes so far" in text
    assert status["progress"] == answer["index"]["progress"]
