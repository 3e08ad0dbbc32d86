import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.corpus.chunk import cut_blocks
from thumbindex.corpus.cuts import cut_at_words, cut_sentences
from thumbindex.corpus.markdown import parse_markdown
from thumbindex.corpus.source import SourceText, line_starts
from thumbindex.settings import ChunkSettings


def source_of(text: str) -> SourceText:
    return SourceText(text, line_starts(text), ())


def pieces(text: str, maximum: int) -> list[str]:
    source = source_of(text)
    settings = ChunkSettings(child_min=maximum // 2, child_max=maximum)
    fragments = cut_blocks(source, parse_markdown(text).regions[0].body, settings)
    return [
        (f"{p.prefix}\n" if p.prefix else "") + source.text_between(p.start, p.end)
        for p in fragments
    ]


def spans(text: str, maximum: int) -> list[str]:
    return [text[a:b] for a, b in cut_at_words(text, 0, len(text), maximum)]


def test_blocks_that_fit_are_not_cut() -> None:
    assert pieces("a b\n\n- c\n- d\n\n```\ne\n```\n\n| f |\n|---|\n| g |", 100) == [
        "a b",
        "- c\n- d",
        "```\ne\n```",
        "| f |\n|---|\n| g |",
    ]


def test_a_list_is_cut_between_its_items_and_an_item_between_its_blocks() -> None:
    assert pieces("- aaaa\n- bbbb\n\n  cccc\n- dddd", 10) == [
        "- aaaa",
        "- bbbb",
        "  cccc",
        "- dddd",
    ]


def test_a_callout_is_cut_between_its_blocks() -> None:
    assert pieces("> [!tip]\n> aaaa\n>\n> - bbbb\n> - cccc", 15) == [
        "> [!tip]\n> aaaa",
        "> - bbbb",
        "> - cccc",
    ]


def test_code_is_cut_at_blank_lines_without_leaving_a_lone_fence() -> None:
    assert pieces("```py\naaaa\n\nbbbb\ncccc\n```", 13) == ["```py\naaaa", "bbbb\ncccc\n```"]
    assert pieces("```py\naaaa\n\nbbbb\ncccc\n```", 10) == ["```py\naaaa", "bbbb\ncccc"]


def test_pieces_of_a_table_repeat_its_header() -> None:
    table = "| n |\n|---|\n| 1 |\n| 2 |\n| 3 |"
    assert pieces(table, 22) == [
        "| n |\n|---|\n| 1 |",
        "| n |\n|---|\n| 2 |",
        "| n |\n|---|\n| 3 |",
    ]


def test_oversized_row_is_cut_and_header_is_kept() -> None:
    assert pieces("| n |\n|---|\n| aaaa bbbb cccc dddd eeee |\n| 2 |", 24) == [
        "| n |\n|---|",
        "| aaaa bbbb cccc dddd",
        "eeee |",
        "| n |\n|---|\n| 2 |",
    ]


def test_link_definitions_and_deeply_nested_text_are_kept() -> None:
    assert pieces("a\n\n[r]: b.md\n[s]: c.md", 100) == ["a", "[r]: b.md\n[s]: c.md"]
    assert pieces("> " * 100 + "deep", 500) == ["> " * 100 + "deep"]


def test_a_paragraph_is_cut_between_sentences() -> None:
    text = "One is here. Two, e.g. this one, is longer! Is three here? Four."
    assert [text[a:b] for a, b in cut_sentences(text, 0, len(text), 50)] == [
        "One is here. Two, e.g. this one, is longer!",
        "Is three here? Four.",
    ]


def test_chinese_text_is_cut_between_sentences() -> None:
    text = "今天天气很好。我们去公园。" * 8
    assert {part[-1] for part in pieces(text, 50)} == {"。"}


@given(st.text(alphabet="ab. \n。!\u00a0é|", max_size=300), st.integers(1, 60))
def test_cutting_loses_only_white_space(text: str, maximum: int) -> None:
    parts = spans(text, maximum)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(0 < len(part) <= maximum for part in parts)


@pytest.mark.parametrize("kind", ["prose", "word"])
def test_a_long_line_is_cut_in_linear_time(kind: str) -> None:
    text = "lorem ipsum. " * 20_000 if kind == "prose" else "x" * 260_000
    assert len(pieces(text, 500)) >= 520
