"""Invariants of parser, front matter, query syntax and tool arguments under hostile input."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from fuzz.hostile import hostile_arguments, hostile_note, hostile_text
from thumbindex.corpus.front_matter import MAX_DEPTH, read_front_matter
from thumbindex.corpus.parse import parse_document
from thumbindex.dates import note_dates
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.library.places import NotePlaces
from thumbindex.mcp.query_reply import reply_query, reply_tokens
from thumbindex.mcp.replies import reply_outline, reply_read, reply_related, reply_status
from thumbindex.mcp.tools import check_arguments
from thumbindex.query.understand import code_terms, stop_weights
from thumbindex.settings import CorpusSettings

MAX_SECONDS = 5.0
"""Maximum time of any input, even on a busy machine."""

TOOLS = {
    "query": reply_query,
    "read": reply_read,
    "outline": reply_outline,
    "related": reply_related,
}

Target = Callable[[Random, Library], None]


def parser(random: Random, library: Library) -> None:
    """Parsing raises nothing, keeps chunks within the maxima, and yields JSON-safe values."""
    path, data = random.choice(("a.md", "a.mdx")), hostile_note(random)
    parsed = parse_document(path, data, CorpusSettings())
    lines = [(chunk.start_line, chunk.end_line) for chunk in parsed.chunks]
    assert all(first <= last for first, last in lines)
    assert all(len(chunk.text) <= CorpusSettings().chunk.child_max for chunk in parsed.chunks)
    json.dumps([parsed.document.properties, parsed.document.flags], allow_nan=False)
    places = NotePlaces(path, data.decode("utf-8", "replace"), in_vault=random.random() < 0.5)
    ranges = [*places.block_ids.values(), *places.ranges("x"), *places.ranges("L1-L9")]
    assert all(1 <= first <= last <= places.total for first, last in ranges)


def front_matter(random: Random, library: Library) -> None:
    """Reading front matter raises nothing and yields JSON of limited depth."""
    fence = random.choice(("---", "+++"))
    front = read_front_matter("a.md", f"{fence}\n{hostile_text(random, 30)}\n{fence}\n")
    json.dumps(front.fields, allow_nan=False)
    assert depth_of(front.fields) <= MAX_DEPTH
    texts = (
        *front.tags,
        *note_dates("a.md", front.fields, lambda key: front.values(key, split=""), ""),
        front.text("title"),
        *front.values("aliases"),
        *front.values("related", split=""),
    )
    assert all(isinstance(text, str) for text in texts)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inner)) if inner else int(isinstance(value, (dict, list)))


def query_syntax(random: Random, library: Library) -> None:
    """Any query gets an answer or a ThumbindexError."""
    text = hostile_text(random, 60)
    code_terms(text, 2.0, stop_weights(text, ()))
    with suppress(ThumbindexError):
        library.query(text[:10_000])


def tool_arguments(random: Random, library: Library) -> None:
    """Any call gets JSON within its budget or a ThumbindexError."""
    tool = random.choice(
        ("query", "query", "read", "outline", "related", "status", hostile_text(random, 2))
    )
    try:
        budget = random.choice((500, 700, 1000, 2000))
        arguments = check_arguments(tool, hostile_arguments(random)) | (
            {"wait_fresh": 0, "max_tokens": budget} if tool == "query" else {}
        )
        reply = TOOLS[tool](library, arguments) if tool in TOOLS else reply_status(library, ())
    except ThumbindexError as error:
        str(error).encode()
        return
    json.dumps(reply.structured, allow_nan=False).encode()
    reply.text.encode()
    if tool == "query":
        assert reply_tokens(reply, library.count_tokens) <= budget


TARGETS: dict[str, Target] = {
    target.__name__: target for target in (parser, front_matter, query_syntax, tool_arguments)
}


def feed(target: Target, seed: int, library: Library) -> None:
    """Feed a target the input of a seed, within the time limit."""
    start = time.perf_counter()
    target(Random(seed), library)
    assert time.perf_counter() - start < MAX_SECONDS
