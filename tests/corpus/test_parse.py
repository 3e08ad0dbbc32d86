import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thumbindex.corpus.parse import parse_document
from thumbindex.model import BlockKind, Chunk, Link, LinkKind, ParsedDocument, Section
from thumbindex.settings import ChunkSettings, CorpusSettings
from thumbindex.text import strip_invisible

DEFAULTS = CorpusSettings()
SMALL = CorpusSettings(
    chunk=ChunkSettings(child_min=20, child_max=60, parent_min=150, parent_max=200)
)


def parse(
    text: str | bytes, path: str = "folder/a note.md", settings: CorpusSettings = DEFAULTS
) -> ParsedDocument:
    return parse_document(path, text.encode() if isinstance(text, str) else text, settings, 5.0)


def texts(text: str) -> list[tuple[tuple[str, ...], str]]:
    return [(chunk.heading_path, chunk.text) for chunk in parse(text).chunks]


def check(text: str, parsed: ParsedDocument, maxima: ChunkSettings) -> None:
    """Check the chunks and sections of a document without comments against its text."""
    lines = strip_invisible(re.sub(r"\r\n?", "\n", text).replace("\0", "\ufffd")).split("\n")
    last = 1
    for chunk in parsed.chunks:
        section = parsed.sections[chunk.section]
        cited_text = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text in cited_text or (
            chunk.kind is BlockKind.TABLE and chunk.text.split("\n", 2)[2] in cited_text
        )
        first, last_row = chunk.text.split("\n")[0], chunk.text.split("\n")[-1]
        assert last_row in lines[chunk.end_line - 1]
        assert first in lines[chunk.start_line - 1] or chunk.kind is BlockKind.TABLE
        assert len(chunk.text) <= maxima.child_max
        assert last <= chunk.start_line <= chunk.end_line
        assert section.start_line <= chunk.start_line <= chunk.end_line <= section.end_line
        last = chunk.end_line
    for section in parsed.sections:
        assert section.text in "\n".join(lines[section.start_line - 1 : section.end_line])
        assert len(section.text) <= maxima.parent_max


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Front\n---\n# Heading", "Front"),
        ("---\ntitle: 2024\n---\n", "2024"),
        ("## Second\n\n# **First** one", "First one"),
        ("no heading", "a note"),
        ("> # quoted", "a note"),
    ],
)
def test_title_is_from_front_matter_first_h1_or_file_name(text: str, title: str) -> None:
    assert parse(text).document.title == title


def test_text_before_the_first_heading_becomes_a_chunk() -> None:
    assert texts("Preamble.\n\n# H\n\nText.") == [(("H",), "Preamble."), (("H",), "Text.")]


def test_title_occurs_once_in_a_heading_path() -> None:
    assert texts("# T\n\na\n\n## B\n\nc\n\n#### D\n\ne\n\n## F\n\ng\n\n# H\n\ni") == [
        (("T",), "a"),
        (("T", "B"), "c"),
        (("T", "B", "D"), "e"),
        (("T", "F"), "g"),
        (("T", "H"), "i"),
    ]
    assert texts("---\ntitle: t\n---\n# T\na\n## B\nc")[1][0] == ("t", "B")
    assert texts("---\ntitle: Other\n---\n# T\na")[0][0] == ("Other", "T")


def test_heading_without_text_joins_the_next_chunk() -> None:
    chunks = [
        (chunk.kind, chunk.text, chunk.heading_path)
        for chunk in parse("# T\n## A\n## B\n### C\ntext\n## D").chunks
    ]
    assert chunks == [
        (BlockKind.PROSE, "## A\n## B\n### C\ntext", ("T", "B", "C")),
        (BlockKind.HEADING, "## D", ("T", "D")),
    ]


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        pytest.param(
            "- Matrix\n  - slow fights, and nobody cares about them\n  - seen at home\n"
            "- Spider-Man\n  - three heroes meet at last\n  - seen with a friend\n",
            [
                "- Matrix\n  - slow fights, and nobody cares about them",
                "  - seen at home",
                "- Spider-Man\n  - three heroes meet at last",
                "  - seen with a friend",
            ],
            id="the first line of an item, and what is nested in it",
        ),
        pytest.param(
            "It works with almost any model, also at home. To start:\n\n1. open settings\n2. go",
            [
                "It works with almost any model, also at home.",
                "To start:\n\n1. open settings\n2. go",
            ],
            id="a sentence that ends in a colon, and a list",
        ),
        pytest.param(
            "先写一段普通的文字，让它足够长，可以自成一块，不与别的合并，直到这里结束。步骤：\n\n"
            "```\nrun --with the --longest option\n```",
            [
                "先写一段普通的文字，让它足够长，可以自成一块，不与别的合并，直到这里结束。",
                "步骤：\n\n```\nrun --with the --longest option\n```",
            ],
            id="a full-width colon, and code",
        ),
        pytest.param(
            "Some text that is nearly a chunk.\n\n**Steps**\n\nOpen settings, then wait a while.",
            [
                "Some text that is nearly a chunk.",
                "**Steps**\n\nOpen settings, then wait a while.",
            ],
            id="a bold line, and what is below it",
        ),
        pytest.param(
            "Some text before it all.\n\nTerm\n: what it is\n\n  - a part of it\n\n"
            "Other term\n\n: what the other term is",
            [
                "Some text before it all.",
                "Term\n: what it is\n\n  - a part of it",
                "Other term\n\n: what the other term is",
            ],
            id="a term, and its definition",
        ),
    ],
)
def test_chunk_keeps_together(text: str, chunks: list[str]) -> None:
    assert [chunk.text for chunk in parse(text, settings=SMALL).chunks] == chunks


@pytest.mark.parametrize("text", ["", "---\ntitle: a note\n---\n", "<!-- only a comment -->"])
def test_file_without_text_has_one_empty_section_and_chunk(text: str) -> None:
    parsed = parse(text)
    assert parsed.sections == (Section(0, 1, 1, ""),)
    assert parsed.chunks == (Chunk(0, 0, BlockKind.PROSE, ("a note",), 1, 1, "", 0.8),)


def links_of(front: str, mark: str = "---") -> list[tuple[LinkKind, str, str, int]]:
    return [
        (link.kind, link.target, link.text, link.line)
        for link in parse(f"{mark}\n{front}\n{mark}\ntext").links
    ]


def test_related_documents_are_links() -> None:
    assert links_of(
        "related:\n  - '[[Note|shown]]'\n  - '[text](<b c.md>)'\n  - d/e.md\n  - https://x.org"
    ) == [
        (LinkKind.WIKILINK, "Note", "shown", 3),
        (LinkKind.MARKDOWN, "b c.md", "text", 4),
        (LinkKind.RELATED, "d/e.md", "d/e.md", 5),
    ]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ('parent: "[[Alpha]]"', [("Alpha", "Alpha", 2)]),
        ("x: 1\nparent: [[Älpha 𝄞, b|shown]]  # as typed", [("Älpha 𝄞, b", "shown", 3)]),
        (
            'up:\n- "[[A#H]]"\n- [[B]]\n- "[t](c%20d.md)"',
            [("A", "A > H", 3), ("B", "B", 4), ("c d.md", "t", 5)],
        ),
        (
            'kin:\n  mother: "[[A]]"\n  "[[no value]]": b\n  more:\n  - "[[C]]"',
            [("A", "A", 3), ("C", "C", 6)],
        ),
        ("broken: [a: b\nup: '[[A]]'", [("A", "A", 3)]),
        (
            (
                'a: see [[A]] first\nb: "[[A]] and [[B]]"\nc: "[x](https://x.org)"\n'
                "d: see [[photo.png]]\ne: f.md"
            ),
            [],
        ),
    ],
)
def test_property_that_consists_of_a_link_is_a_link(
    front: str, expected: list[tuple[str, str, int]]
) -> None:
    assert [link[1:] for link in links_of(front)] == expected


def test_property_links_count_towards_the_limit() -> None:
    links = parse("---\nup: [" + ", ".join(f'"[[N{n}]]"' for n in range(15_000)) + "]\n---\n").links
    assert len(links) == CorpusSettings().max_links


def test_links_and_tags_in_comments_are_ignored() -> None:
    parsed = parse("<!-- [[A]] #b -->\n\n%% [[C]] %%\n\n[[D]]")
    assert (parsed.links, parsed.document.tags) == ((Link(LinkKind.WIKILINK, "D", "", "D", 5),), ())


SIGNS = (
    "# ;## ;###### ;- ;1. ;> ;```;~~~;    ;\t;| a | b |;|---|---|;[[x]];[a](b.md);[r]: x;[^1]: "
    ";---;===;***;<div>;</div>;#tag;`;*;|"
).split(";")
WORDS = ["word", "A sentence. ", "x" * 70, "é漢。", "\n", "\n\n", "\r\n", "\0", "\u2028"]
MARKDOWN = st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=80).map("".join)


@settings(max_examples=150)
@given(MARKDOWN | st.text(max_size=300))
@example("| a |\n|-|\n" + "| x |\n" * 40 + "\ntail")
@example(" " * 300 + "a\n" + "\t" * 80 + "b")
@example("# " + "long heading " * 60 + "\ntext")
@example("> - > - 1. a\n> b\n\n```\n" + "y\n" * 90)
def test_chunks_are_in_order_at_their_lines_within_the_maxima(
    text: str,
) -> None:
    check(text, parse(text, settings=SMALL), SMALL.chunk)


BLOCKS = st.one_of(
    st.lists(
        st.sampled_from(["alpha", "beta.", "gamma,", "delta!", "x" * 70]), min_size=1, max_size=30
    ).map(" ".join),
    st.lists(
        st.sampled_from(["- one", "- two two two", "  more", "  - deep deep"]),
        min_size=1,
        max_size=12,
    ).map(lambda lines: "\n".join(["- first", *lines])),
    st.lists(
        st.sampled_from(["> a quote", ">", "> - item", "> [!note]"]), min_size=1, max_size=12
    ).map("\n".join),
    st.lists(st.sampled_from(["    code();", "more code", ""]), min_size=1, max_size=20).map(
        lambda lines: "\n".join(["```py", "first", *lines, "```"])
    ),
    st.sampled_from(
        ["# One", "## Two", "### Three", "[r]: target.md", "<div>\nhtml\n</div>", "***"]
    ),
)


@settings(max_examples=100)
@given(st.lists(BLOCKS, max_size=12).map("\n\n".join))
def test_chunks_contain_every_body_word_once(text: str) -> None:
    parsed = parse(text, settings=SMALL)
    body = re.sub(r"(?m)^(#+ .*|\*\*\*|```(py)?)$", "", text)
    chunk_text = "\n".join(
        chunk.text for chunk in parsed.chunks if chunk.kind is not BlockKind.HEADING
    )
    chunk_words = re.sub(r"(?m)^(#+ .*|\*\*\*|```(py)?)$", "", chunk_text)
    assert re.sub(r"\W", "", chunk_words) == re.sub(r"\W", "", body)
