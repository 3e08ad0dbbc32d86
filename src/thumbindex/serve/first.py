"""How a client's first question is answered before the protocol's package is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thumbindex.errors import ThumbindexError
from thumbindex.serve.ask import ask
from thumbindex.serve.background import Background
from thumbindex.serve.greeting import WITHOUT_LINKS
from thumbindex.serve.tools import check_arguments

_RESERVED = "io.modelcontextprotocol/"
"""How names begin that the protocol gives to what is added to a request."""


def answer_first(background: Background, asked: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return the answer to a call of `query` as the package gives it in a version of the protocol.

    None is for what is better left to it: other tools, mistakes and damage, progress that somebody wants to hear of, and every long wait.
    """
    is_plain = asked.get("name") == "query" and asked.keys() <= {"name", "arguments", "_meta"} and _asks_for_nothing(asked.get("_meta"))
    if not is_plain or not background.is_settled:
        return None
    try:
        arguments = check_arguments("query", asked.get("arguments"))
        if "wait_fresh" in arguments or not background.library().indexed:
            return None
        reply = ask(background, arguments)
    except ThumbindexError:
        return None
    links = () if version in WITHOUT_LINKS else reply.links
    return {"content": [{"type": "text", "text": reply.text}, *links], "structuredContent": reply.structured, "isError": False}


def _asks_for_nothing(meta: object) -> bool:
    """Tell whether what a client adds to a call is its own business, such as an id: progress and the protocol's own names are the package's."""
    return meta is None or (isinstance(meta, dict) and not any(each == "progressToken" or each.startswith(_RESERVED) for each in meta))
