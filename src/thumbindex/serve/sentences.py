"""The sentences in which an answer says how sure it is and what it stood on; the same on every surface."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.model import Answer, IndexState, Place


def confidence(answer: Answer) -> str:
    """Say how many passages there are and how sure the answer is."""
    if not answer.answerable:
        return "Nothing found: no passage is close enough to this query."
    number = len(answer.passages)
    doubt = " - the passages may not answer this" if answer.confidence_level == "low" else ""
    return f"{number} passage{'s' if number != 1 else ''}, confidence {answer.confidence_level} ({answer.confidence:.2f}){doubt}"


def stood_on(state: IndexState) -> str:
    """Say how much of the index an answer stood on."""
    if not state.documents:
        return "index: empty so far"
    vectors = f"{state.vectors:,} of {state.chunks:,} chunks"
    rest = "" if not state.pending else ", the rest by keywords only" if state.vectors else ", keywords only (`thumbindex index` adds the vectors)"
    return f"index: {state.documents:,} documents; vectors: {vectors}{rest}"


def also_in(places: Sequence[Place]) -> str:
    """Name the places of copies."""
    return ", ".join(f"{each.path} (lines {each.start_line}-{each.end_line})" for each in places)
