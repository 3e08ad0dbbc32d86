import pytest

from thumbindex.corpus.markdown import Block, SplitMode, block_tokens, parse_markdown
from thumbindex.model import BlockKind


def shapes(text: str) -> list[tuple[SplitMode, BlockKind, int, int]]:
    return [
        (block.split_mode, block.kind, block.start, block.end)
        for block in parse_markdown(text).regions[-1].body.children
    ]


def innermost(block: Block) -> Block:
    return innermost(block.children[0]) if block.children else block


@pytest.mark.parametrize(
    ("text", "shape", "kind", "end"),
    [
        ("a\nb", SplitMode.PROSE, BlockKind.PROSE, 2),
        ("> [!note] Title\n> text", SplitMode.CONTAINER, BlockKind.PROSE, 2),
        ("- a\n- b\n", SplitMode.CONTAINER, BlockKind.LIST, 2),
        ("1. a\n\n   b", SplitMode.CONTAINER, BlockKind.LIST, 3),
        ("| a |\n|---|\n| b |", SplitMode.TABLE, BlockKind.TABLE, 3),
        ("```py\na\n```", SplitMode.LINES, BlockKind.CODE, 3),
        ("    indented", SplitMode.LINES, BlockKind.CODE, 1),
        ("<details>\ntext\n</details>", SplitMode.LINES, BlockKind.PROSE, 3),
        ("[^1]: one\n\n    two", SplitMode.CONTAINER, BlockKind.PROSE, 3),
        ("***", SplitMode.RULE, BlockKind.PROSE, 1),
    ],
)
def test_every_kind_of_block_is_parsed_with_its_lines(
    text: str, shape: SplitMode, kind: BlockKind, end: int
) -> None:
    assert shapes(text) == [(shape, kind, 0, end)]


@pytest.mark.parametrize(("info", "language"), [("py", "py"), ("{.python}", "python"), ("", "")])
def test_code_block_has_its_language(info: str, language: str) -> None:
    (block,) = parse_markdown(f"```{info}\nx\n```").regions[0].body.children
    assert block.language == language


def test_headings_start_regions_after_the_preamble() -> None:
    regions = [
        (r.level, r.heading, r.start, r.body.start, r.body.end)
        for r in parse_markdown("a\n# B\nc\n\nD\n---\n### E\n").regions
    ]
    assert regions == [(0, "", 0, 0, 1), (1, "B", 1, 2, 4), (2, "D", 4, 6, 6), (3, "E", 6, 7, 8)]


def test_headings_in_quotes_and_lists_start_no_region() -> None:
    assert len(parse_markdown("> # a\n\n- # b\n- <h1>c</h1>").regions) == 1


def test_paragraph_in_a_list_is_list_but_code_is_code() -> None:
    (block,) = parse_markdown("- > a").regions[0].body.children
    assert innermost(block).kind is BlockKind.LIST
    (block,) = parse_markdown("- ```\n  a\n  ```").regions[0].body.children
    assert innermost(block).kind is BlockKind.CODE


@pytest.mark.parametrize("text", ["> " * 3000 + "x", "- " * 3000 + "x", "[" * 3000 + "](x)"])
def test_deep_nesting_is_harmless(text: str) -> None:
    assert len(parse_markdown(text).regions) == 1


@pytest.mark.parametrize(
    "text",
    [
        "One\nline\n===\nTwo\n---\nThree",
        "- item\nlazy\n===\n\n> quote\nlazy\n---\n",
        "Deep\n    - indented\n===",
        "a\n- list",
        "a\n2. no list\n1. list",
        "a\n> quote",
        "a\n# heading",
        "a\n```\ncode",
        "a\n***",
        "a\n<div>\nb",
        "a\nhead | er\n--- | ---\nb | c",
        "[^1]: a\nb\n[^2]: c",
    ],
)
def test_paragraph_ends_where_commonmark_ends_it(text: str) -> None:
    ours, commonmark = (
        [
            (token.type, token.tag, token.content, token.type != "inline" and token.map)
            for token in block_tokens(text, with_dialects=with_dialects)
        ]
        for with_dialects in (True, False)
    )
    assert ours == commonmark
