"""One passage of an answer, as text and as structured content: its words, its id, and what reading the rest would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thumbindex.model import Passage
from thumbindex.serve.explained import explanation_lines
from thumbindex.serve.pack import Shown
from thumbindex.serve.payload import dedup_payload, disagreement_payload, passage_payload, place_payload
from thumbindex.serve.quoting import one_line, quoted
from thumbindex.serve.sentences import beside, passage_flags

_COPIES_LISTED = 20
"""Of the places of copies: an answer has a budget, and `dedup.cluster_size` counts all of them."""


@dataclass(frozen=True, slots=True)
class PassageForm:
    """How the passages of one answer are written."""

    several: bool = False  # folders: then each is named
    explain: bool = False
    note_tokens: Mapping[tuple[str, str], int] = field(default_factory=dict)  # about what each note costs to read, by folder and path

    def as_text(self, shown: Shown) -> str:
        """Return a passage under its citation; of one that the caller holds, where it stands."""
        passage = shown.passage
        folder = f"{passage.folder}: " if self.several else ""
        head = f"## {passage.rank}. {one_line(folder + passage.citation)}"
        if shown.is_held:
            return f"{head}\n(you hold it: {shown.id})"
        explained = explanation_lines(passage.explanation) if passage.explanation else []
        lines = (*passage_flags(passage), *beside(passage), *explained, self._cost(shown))
        return "\n".join([head, quoted(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: Shown) -> dict[str, Any]:
        """Return the same as structured content."""
        passage = shown.passage
        place = {"citation": passage.citation, "id": shown.id, "folder": passage.folder, "path": passage.path}
        lines = {name: getattr(passage, name) for name in ("start_line", "end_line", "match_start", "match_end")}
        if shown.is_held:
            return {**place, **lines, "seen": True}
        cost: dict[str, Any] = {"note_tokens": self._note_tokens(passage)}
        if shown.is_cut:
            cost["rest"] = {"start_line": shown.section[0], "end_line": shown.section[1], "tokens": shown.left_out}
        if self.explain:
            return {**place, **passage_payload(passage), **cost}
        return {**place, **lines, "text": passage.text, **cost, "dedup": dedup_payload(passage), **_known(passage)}

    def _cost(self, shown: Shown) -> str:
        first, last = shown.section
        cut = f"cut out of lines {first}-{last}, {shown.left_out:,} tokens more; " if shown.is_cut else ""
        return f"id {shown.id}; {cut}the whole note: about {self._note_tokens(shown.passage):,} tokens"

    def _note_tokens(self, passage: Passage) -> int:
        return self.note_tokens.get((passage.folder, passage.path), 0)


def _known(passage: Passage) -> dict[str, Any]:
    """Return what is known of a passage that is flagged, stands in several places or is disagreed with."""
    known: dict[str, Any] = {}
    if found := passage_flags(passage):
        known["flagged"] = found
    if passage.also_in:
        known["also_in"] = [place_payload(each) for each in passage.also_in[:_COPIES_LISTED]]
    if passage.disagrees:
        known["disagrees"] = [disagreement_payload(each) for each in passage.disagrees]
    if passage.also_in or passage.disagrees:
        known |= {name: value for name in ("created", "status", "owner") if (value := getattr(passage, name))}
    return known
