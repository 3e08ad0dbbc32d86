"""Explanations of results, and of notes that are not in the answer, on every surface."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from schemas import checked
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.mcp.query_reply import Reply, reply_query, reply_tokens
from thumbindex.mcp.tools import TOOLS, check_arguments

Run = Callable[..., Result]


def asked(library: Library, **arguments: Any) -> Reply:
    return reply_query(library, check_arguments("query", arguments))


# ------------------------------------------------------------------ explain


def test_explained_result_shows_retrievers_and_stages(run: Run) -> None:
    shown = run("query", "press the green button", "--limit", "1", "--explain").stdout
    assert "; search_keyword rank 1 (" in shown
    assert "  rank after " in shown
    assert '  has "press", "green" and "button" in text\n' in shown


def test_json_has_explanations_only_on_request(run: Run) -> None:
    plain, explained = (
        checked(run("query", "green button", "--json", *options), "query")["results"][0]
        for options in ((), ("--explain",))
    )
    assert "explanation" not in plain
    assert explained["explanation"]["terms"] == {
        "green": ["body", "code"],
        "button": ["body", "code"],
    }
    assert {name: value for name, value in explained.items() if name != "explanation"} == plain


def test_tool_returns_the_explanation_as_text_and_data(library: Library) -> None:
    plain, explained = (
        asked(library, query="green button", limit=1, **options)
        for options in ({}, {"explain": True})
    )
    assert '(has "green" and "button" in text)' in explained.text
    assert (
        explained.structured["results"][0]["explanation"]["evidence"][0]["retriever"]
        == "search_vector"
    )
    assert "explanation" not in json.dumps(plain.structured)


# ------------------------------------------------------------------ why


def test_why_json_fits_its_schema(run: Run) -> None:
    report = checked(run("why", "sync.md#Set up", "press the green button", "--json"), "why")
    assert (report["outcome"], report["rank"], report["heading"]) == ("shown", 1, "Set up")


def test_why_accepts_query_filters(run: Run) -> None:
    by_tag = run("why", "plugins/canvas.md", "whiteboard", "--tag", "guide")
    by_path = run(
        "why", "plugins/canvas.md", "whiteboard", "--path", "guides/*", "--since", "2000-01-01"
    )
    assert by_tag.stdout.startswith(
        "plugins/canvas.md was not searched: the filter `tag` excludes it\n"
    )
    assert by_path.stdout.startswith(
        "plugins/canvas.md was not searched: the filter `path` excludes it\n"
    )
    assert run("why", "plugins/canvas.md", "whiteboard", "--since", "soon").exit_code == 2


def test_why_of_an_unknown_note_suggests_the_nearest_names(run: Run) -> None:
    result = run("why", "plugins/canvass.md", "whiteboard")
    assert result.exit_code == 2
    assert "Nearest: plugins/canvas.md" in result.stderr


def test_query_tool_accepts_why(library: Library) -> None:
    reply = asked(
        library,
        query="press the green button",
        why="plugins/canvas.md",
        path=["plugins/*"],
        limit=1,
    )
    assert reply.text.startswith("plugins/canvas.md ")
    jsonschema.validate(
        reply.structured, next(tool["outputSchema"] for tool in TOOLS if tool["name"] == "query")
    )
    assert reply.structured["results"] == []
    assert reply.structured["why"]["path"] == "plugins/canvas.md"
    with pytest.raises(UsageError, match=r"No note 'nowhere\.md' in the index"):
        asked(library, query="x", why="nowhere.md")


@pytest.mark.parametrize("tokens", [500, 12000])
def test_why_stays_within_its_budget_and_reports_omissions(library: Library, tokens: int) -> None:
    reply = asked(
        library,
        query=f"press the green button {' '.join(f'zebra{n:0200}' for n in range(20))}",
        why="plugins/canvas.md",
        max_tokens=tokens,
    )
    assert reply_tokens(reply, library.count_tokens) <= tokens
    assert reply.structured["why"]["outcome"]
    assert ("left_out" in reply.structured["why"]) is (tokens < 12000)
    assert reply.text.endswith(" left out: raise `max_tokens` to see more)") is (tokens < 12000)
