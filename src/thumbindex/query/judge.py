"""What two texts are to each other: one text twice, a case for the owner, or two texts; guards have the last word."""

from __future__ import annotations

import unicodedata

from thumbindex.model import Chunk, Judgement
from thumbindex.query.dedup_ngram import similarity
from thumbindex.query.guards import contradiction, differing, equal, only_in_one, other_language, same_wording
from thumbindex.settings import DuplicatesSettings
from thumbindex.text import STOP_WORDS, words

_LEANING = 8
"""Texts with fewer words lean on their heading for what they speak of: "Optional, 30 by default." says another thing under another one."""

_OVERLAP = 0.5
"""The least share of words in common of texts that are worth reading: the others are alike in meaning or in their headings only."""

_FEW = 12
"""Texts of no more words are always read: there one word is a large share."""


def judge(first: Chunk, second: Chunk, cosine: float | None, settings: DuplicatesSettings) -> Judgement:
    """Judge two chunks by their texts, the cosine of their vectors (None where one has none) and the guards (spec/dedup.md, section 4).

    A vector stands for the headings as well, and for no more than the model's window: whole texts decide what is the same, and a copy
    under other headings is alike by its 3-grams where its cosine is not.
    """
    shared = 1.0 if first.text == second.text else _shared(first.text, second.text)
    if shared < _OVERLAP and (cosine or 0.0) < settings.grey:
        return Judgement("distinct", "not alike")
    languages = other_language(first, second)
    if languages:
        return Judgement("distinct", f"another language: {languages}")
    if shared < _OVERLAP:
        return Judgement("grey", f"cosine {cosine:.2f}, in other words")
    leaning = _leaning(first, second)
    if equal(first.text, second.text):
        guard = _other_kind(first, second) or leaning
        return Judgement("grey", guard) if guard else Judgement("same", "equal text" if first.text == second.text else "equal but for markup")
    found = _judge_alike(first, second, cosine or 0.0, settings)
    return Judgement("distinct", leaning) if leaning and found.zone == "grey" else found


def _judge_alike(first: Chunk, second: Chunk, cosine: float, settings: DuplicatesSettings) -> Judgement:
    """Judge texts that have words in common and are not equal."""
    grams = similarity(first.text, second.text)
    alike = max(cosine, grams)
    if alike < settings.grey:
        return Judgement("distinct", "not alike")
    how = f"cosine {cosine:.2f}" if cosine >= grams else f"3-gram similarity {grams:.2f}"
    guard = _other_kind(first, second) or differing(first.text, second.text)
    if guard:
        return Judgement("grey", f"{how}, but {guard}", "" if _other_headings(first, second) else contradiction(first.text, second.text))
    if same_wording(first.text, second.text):
        return Judgement("same" if alike >= settings.same else "grey", f"{how}, in the same words")
    return Judgement("grey", f"{how}, but {only_in_one(first.text, second.text)}")


def _other_kind(first: Chunk, second: Chunk) -> str | None:
    return f"{first.kind} against {second.kind}" if first.kind is not second.kind else None


def _leaning(first: Chunk, second: Chunk) -> str | None:
    """Say under which headings two short texts stand, where these name other things."""
    if sum(word not in STOP_WORDS for word in words(first.text)) >= _LEANING:
        return None
    mine, yours = (" > ".join(each.heading_path) for each in (first, second))
    return f"a short text under `{mine}` and under `{yours}`" if mine and yours and differing(mine, yours) else None


def _other_headings(first: Chunk, second: Chunk) -> bool:
    """Tell whether two chunks stand under headings, titles aside, that have no word in common."""
    if len(first.heading_path) < 2 or len(second.heading_path) < 2:
        return False
    mine, yours = set(words(first.heading_path[-1])), set(words(second.heading_path[-1]))
    return bool(mine and yours) and not mine & yours


def _shared(first: str, second: str) -> float:
    """Return the Jaccard similarity of the words in the source of two texts: a first look, cheaper than reading them."""
    left, right = (set(words(unicodedata.normalize("NFC", text))) for text in (first, second))
    return len(left & right) / len(left | right) if min(len(left), len(right)) > _FEW else 1.0
