"""How a question is answered behind the protocol, and a client's first one before the protocol's package is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thumbindex.errors import ThumbindexError
from thumbindex.serve.background import Background, never, tell_nobody
from thumbindex.serve.budget import Reply
from thumbindex.serve.replies import reply_query
from thumbindex.serve.tools import check_arguments

if TYPE_CHECKING:
    from thumbindex.model import Progress
    from thumbindex.serve.sight import Sight

WITHOUT_LINKS = ("2024-11-05", "2025-03-26")
"""Versions of the protocol that know no links to resources: a strict client would refuse the answer."""


def ask(
    background: Background | Sight,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = tell_nobody,
    interrupted: Callable[[], bool] = never,
) -> Reply:
    """Answer a question once there are words to search, and the model where it comes in time."""
    background.await_words(tell=tell, interrupted=interrupted)
    background.await_model(interrupted)
    return reply_query(background.library(), arguments, background.progress, tell, interrupted, lambda: background.is_attended)


def answer_first(background: Background, asked: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return the answer to a call of `query` as the package gives it in a version of the protocol.

    None is for what is better left to it: other tools, mistakes and damage, progress that somebody wants to hear of, and every long wait.
    """
    if asked.get("name") != "query" or not asked.keys() <= {"name", "arguments"} or not background.is_settled:
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
