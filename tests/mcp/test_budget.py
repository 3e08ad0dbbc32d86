"""Passages within a token budget."""

from dataclasses import replace
from typing import Any

from thumbindex.corpus.parse import parse_document
from thumbindex.mcp.budget import ShownPassage, compact_json, fit_passages
from thumbindex.model import Explanation, Passage
from thumbindex.settings import CorpusSettings


def passage(
    lines: int,
    width: int = 30,
    match: tuple[int, int] = (5, 6),
    rank: int = 1,
    path: str = "a.md",
    title: str = "A",
) -> Passage:
    text = "\n".join(f"line {number} ".ljust(width, ".") for number in range(1, lines + 1))
    return Passage(rank, "f", path, title, (title,), 1, lines, *match, 1.0, text)


def parsed(text: str, match: str) -> Passage:
    """Return a document's only section as a passage that matched the chunk with `match`."""
    parts = parse_document("a.md", text.encode(), CorpusSettings())
    (section,), chunk = parts.sections, next(c for c in parts.chunks if match in c.text)
    lines = (section.start_line, section.end_line, chunk.start_line, chunk.end_line)
    return Passage(1, "f", "a.md", "A", ("A",), *lines, 1.0, section.text, match=chunk.text)


def as_text(shown: ShownPassage) -> str:
    return f"{shown.passage.citation}\n{shown.passage.text}"


def as_payload(shown: ShownPassage) -> dict[str, Any]:
    return {"citation": shown.passage.citation, "id": shown.id, "text": shown.passage.text}


def cost(shown: ShownPassage) -> int:
    return 1 + max(len(as_text(shown)), len(compact_json(as_payload(shown))))


def fit(passages: list[Passage], characters: int) -> tuple[ShownPassage, ...]:
    """Fit passages by characters instead of tokens."""
    return fit_passages(passages, characters, cost, len)


def cut(section: Passage, characters: int) -> Passage:
    """Return a passage with as much of its text as fits."""
    (shown,) = fit_passages([section], characters, lambda item: 0, len)
    return shown.passage


def test_short_sections_are_shown_whole_and_long_ones_from_their_match_on() -> None:
    shown = fit(
        [passage(100, match=(50, 51)), passage(10, match=(5, 6), rank=2, path="b.md")], 1600
    )
    assert [(item.passage.start_line, item.passage.end_line) for item in shown] == [
        (50, 60),
        (1, 10),
    ]
    assert [item.section for item in shown] == [(1, 100), (1, 10)]
    assert shown[0].passage.text.startswith("line 50 ")


def test_explanation_is_dropped_if_it_does_not_fit() -> None:
    explained = replace(passage(3), explanation=Explanation((), {}, None, (), (), (), None))

    def long_explanations(item: ShownPassage) -> int:
        return 50 + (1000 if item.passage.explanation else 0)

    (shown,) = fit_passages([explained], 500, long_explanations, len)
    assert shown.passage == passage(3)
    (shown,) = fit_passages([explained], 1500, long_explanations, len)
    assert shown.passage == explained


def test_long_match_is_cut_to_its_beginning() -> None:
    (shown,) = fit([passage(40, width=2000, match=(20, 20))], 400)
    assert (shown.passage.start_line, shown.passage.end_line) == (20, 20)
    assert shown.passage.text.startswith("line 20 ")
    assert shown.passage.text.endswith(".…")


PARAGRAPH = "Some words that fill a paragraph. " * 8
COMMENTED = (
    f"# A\n\n{PARAGRAPH}\n\n<!-- not\n\nto\nbe\nseen -->\n\n{PARAGRAPH}\n\n## B\n\n"
    f"The needle lies here.\n\n## C\n\n{PARAGRAPH}"
)


def test_match_below_a_removed_comment_is_found_by_text() -> None:
    section = parsed(COMMENTED, "needle")
    shown = cut(section, 200)
    assert "The needle lies here." in shown.text
    assert len(shown.text) <= 200


def test_removed_comment_keeps_the_whole_section_as_line_range() -> None:
    section = parsed(COMMENTED, "needle")
    shown = cut(section, 200)
    assert (shown.start_line, shown.end_line) == (section.start_line, section.end_line) == (1, 19)


def test_only_line_feeds_end_lines() -> None:
    odd = "line\u2028with\x0cmany\x85ends " * 10
    section = parsed(
        "# A\n\n" + "\n\n".join([odd] * 3) + "\n\n## B\n\nThe needle.\n\n## C\n\n" + odd, "needle"
    )
    shown = cut(section, 100)
    assert (
        shown.text.split("\n")[shown.match_start_line - shown.start_line],
        shown.match_start_line,
    ) == (
        "The needle.",
        11,
    )
