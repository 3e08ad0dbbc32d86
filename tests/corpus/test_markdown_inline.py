import pytest

from thumbindex.corpus.markdown import parse_markdown
from thumbindex.model import Link, LinkKind

W, E, M = LinkKind.WIKILINK, LinkKind.EMBED, LinkKind.MARKDOWN


def links(text: str) -> list[tuple[LinkKind, str, str, str]]:
    return [
        (link.kind, link.target, link.fragment, link.text) for link in parse_markdown(text).links
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Note]]", (W, "Note", "", "Note")),
        ("[[Note|alias]]", (W, "Note", "", "alias")),
        ("[[Note#Heading]]", (W, "Note", "Heading", "Note > Heading")),
        ("[[Note#^block]]", (W, "Note", "^block", "Note > ^block")),
        ("![[Note#Heading]]", (E, "Note", "Heading", "Note > Heading")),
        ("[text](file.md#heading)", (M, "file.md", "heading", "text")),
        ("[*a* `b`](a%20b.md)", (M, "a b.md", "", "a b")),
        ("[a](../x/%C3%BC.md 'title')", (M, "../x/ü.md", "", "a")),
        ("[a](#here)", (M, "", "here", "a")),
        ("[a][r]\n\n[r]: b.md", (M, "b.md", "", "a")),
        ("![a](b.md)", (E, "b.md", "", "a")),
        ("[![badge](b.png)](c.md)", (M, "c.md", "", "badge")),
        ("| a |\n|---|\n| [[Note\\|alias]] |", (W, "Note", "", "alias")),
        ("[^1]\n\n[^1]: see [[Note]]", (W, "Note", "", "Note")),
    ],
)
def test_every_kind_of_link_is_parsed(text: str, expected: tuple[LinkKind, str, str, str]) -> None:
    assert links(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "`[[Note]]`",
        "```\n[[Note]] [a](b.md)\n```",
        "\\[[Note]]",
        "[[]]",
        "[a](https://x.org/b.md)",
        "[a](//x.org)",
        "[a](obsidian://open?vault=x)",
        "![](image.png)",
        "[a](((64b1c2-block-id)))",
        "[^1]\n\n[^1]: word",
    ],
)
def test_links_to_other_targets_are_ignored(text: str) -> None:
    assert links(text) == []


def test_links_have_their_lines() -> None:
    text = "# h\n\none\ntwo [[A]]\n[b](b.md)\n\n- x\n  [[C]]\n\n> [[D]]\n> [[E]]\n"
    assert [link.line for link in parse_markdown(text).links] == [4, 5, 8, 10, 11]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#one and #two/deep, (#three)", ("one", "two/deep", "three")),
        ("- #y1984\n- #1984", ("y1984",)),
        ("**#bold** #ünder_score-d #日本", ("bold", "ünder_score-d", "日本")),
        ("`#code` C#sharp a#b https://x.org/#c [a](#d) &#39; \\#e ##f", ()),
        ("# Heading\n\n```sh\n#comment\n```", ()),
        ("## Heading { #anchor }\n## Other #tag", ("tag",)),
        ("[#123](b.md) [#abc](b.md)", ()),
    ],
)
def test_inline_tags_are_found_outside_code_urls_and_anchors(
    text: str, tags: tuple[str, ...]
) -> None:
    assert parse_markdown(text).tags == tags


@pytest.mark.parametrize(
    ("heading", "visible"),
    [
        ("# Plain #", "Plain"),
        ("# *A* **b** `c` ~~d~~ ==e==", "A b c d e"),
        ("# [Text](b.md) and [[Note|alias]]", "Text and alias"),
        ("# Title { #anchor .class }", "Title"),
        ("# タイトル {/*anchor*/}", "タイトル"),
        ("# Title ^block-1", "Title"),
        ("# a \\* b &amp; c <br/>d", "a * b & c d"),
        ("# ![alt](i.png) x #tag", "alt x #tag"),
        ("Two\nlines\n===", "Two lines"),
    ],
)
def test_heading_is_its_visible_text(heading: str, visible: str) -> None:
    assert parse_markdown(heading).regions[1].heading == visible


def test_long_paragraph_yields_all_links_with_their_lines() -> None:
    text = "\n".join("word " * 400 + f"[[N{i}]]" for i in range(50))
    assert parse_markdown(text).links == tuple(
        Link(W, f"N{i}", "", f"N{i}", i + 1) for i in range(50)
    )
