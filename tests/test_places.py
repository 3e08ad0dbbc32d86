"""A place in a note is read however people and programs write it: block ids, anchors, lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from folders import open_library, write_notes
from thumbindex.errors import UsageError
from thumbindex.library import Library

BLOCKS = {
    "paragraph": ("One.\n\nTwo lines\nof text. ^x\n\nThree.\n", (3, 4)),
    "id below a paragraph": ("One.\n\nTwo.\n^x\n\nThree.\n", (3, 4)),
    "item with children": ("- one ^x\n  - child\n\n    more\n- two\n", (1, 4)),
    "nested item": ("1. one\n   - [ ] child ^x\n     - grandchild\n   - other\n", (2, 3)),
    "item of two paragraphs": ("- one\n\n  more ^x\n\n- two\n", (1, 3)),
    "indented id below an item": ("- one\n  ^x\n- two\n", (1, 2)),
    "id below a list": ("Intro.\n\n- one\n- two\n\n^x\n\nEnd.\n", (3, 4)),
    "id right below a list": ("Intro.\n\n- one\n  - two\n^x\n", (3, 5)),
    "id below a quote": ("> one\n> two\n\n^x\n", (1, 2)),
    "callout": ("Intro.\n\n> [!note] Title\n> text ^x\n\nEnd.\n", (3, 4)),
    "id in the last line of a quote": ("> one\n>\n> two\n> ^x\n", (1, 4)),
    "table": ("| a | b |\n|---|---|\n| 1 | 2 |\n\n^x\n", (1, 3)),
    "id right below a table": ("| a | b |\n|---|---|\n| 1 | 2 |\n^x\n", (1, 4)),
    "code": ("```js\nlet a\n```\n\n^x\n\nEnd.\n", (1, 3)),
    "heading": ("# A\n\n## B ^x\n\nText.\n\n### C\n\n## D\n", (3, 8)),
    "id below a heading": ("# A\n\n## B\n\n^x\n\nText.\n\n## D\n", (3, 8)),
    "underlined heading": ("B ^x\n---\n\nText.\n\nD\n---\n", (1, 5)),
    "below front matter": ("---\na: b ^x\n---\n\nBelow ^x\n", (5, 5)),
    "Windows lines": ("One.\r\n\r\nTwo. ^x \r\n", (3, 3)),
    "other scripts": ("عنوان ^y\n\nПривет, 世界。 ^x\n", (3, 3)),
    "not in code": ("```\na ^x\n```\n\n    b ^x\n\nc ^x\n", (7, 7)),
    "not inside a line or paragraph": ("a ^x b\n\nc ^x\nd\n\ne^x\n\nf ^x\n", (8, 8)),
    "not in a comment": ("<!-- a ^x -->\n\nb ^x\n", (3, 3)),
    "first of two": ("a ^x\n\nb ^x\n", (1, 1)),
    "case of letters": ("a ^X\n", (1, 1)),
}

ANCHORS = """\
# Note

## FAQ

First.

## FAQ

Second.

## Größe ändern

Delta.

## Setup {#install}

Text.

## 日本語 見出し

One.

## 日本語 見出し

Two.

<a id="legacy"></a>

## Renamed

Three.

Below <a name="inline"></a> a paragraph,
of two lines.

## L5

## Step

## Step 1

## Step

## 🚀 Launch

## A & B

## A & B

Usage {: #use .x }
-----

## The `max_size_1` option

`<a id="step">`

## 9.5.3 { id="9.5.3" }

## Version { data-toc-label="v" #shown-version .x }

## Set {a, b}
"""

PLACES = {
    "#faq": (3, 6),
    "#faq-1": (7, 10),
    "#FAQ-1": (7, 10),
    "#faq_1": (7, 10),
    "#gr%C3%B6%C3%9Fe-%C3%A4ndern": (11, 14),
    "#größe-ändern": (11, 14),
    "#Gr%C3%B6%C3%9Fe%20%C3%A4ndern": (11, 14),
    "#install": (15, 18),
    "#setup": (15, 18),
    "#日本語-見出し": (19, 22),
    "#日本語-見出し-1": (23, 28),
    "#%E6%97%A5%E6%9C%AC%E8%AA%9E-%E8%A6%8B%E5%87%BA%E3%81%97-1": (23, 28),
    "#legacy": (29, 35),
    "#inline": (33, 34),
    "#L5": (36, 37),
    "#L9": (9, 9),
    "#l9": (9, 9),
    "#L9-L13": (9, 13),
    "#L9-13": (9, 13),
    "#L9C2-L13C4": (9, 13),
    "#step": (38, 39),
    "#step-1": (40, 41),
    "#step-2": (42, 43),
    "#step-1-1": None,
    "#-launch": (44, 45),
    "#a--b": (46, 47),
    "#a--b-1": (48, 49),
    "#a-b-1": (48, 49),
    "#use": (50, 52),
    "#the-max_size_1-option": (53, 56),
    "#9.5.3": (57, 58),
    "#shown-version": (59, 60),
    "#version": (59, 60),
    "#set-a-b": (61, 61),
    ":9": (9, 9),
    ":9:3": (9, 9),
    ":9:3:": (9, 9),
    ":9-13": (9, 13),
    ":9:1-13:7": (9, 13),
    ":9–13": (9, 13),
    " (lines 9-13)": (9, 13),
    ", line 9": (9, 9),
    "#faq-2": None,
    "#L99": None,
    ":99": None,
    ":0": None,
    "#l": None,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("places")
    notes = {f"{name}.md": text for name, (text, _) in BLOCKS.items()}
    notes["My note.md"] = ANCHORS
    notes["fine (9).md"] = "# Not line 9\n"
    notes["dir/sail.md"] = "# Sail\n\n## Sail 2\n\nThe sail. ^sail-1\n\nThe mast. ^mast\n"
    write_notes(root / "notes", notes)
    with open_library(root / "notes") as opened:
        opened.index(complete=False)
        yield opened


@pytest.mark.parametrize("name", BLOCKS)
def test_block_is_read_by_its_id(library: Library, name: str) -> None:
    _, lines = BLOCKS[name]
    excerpt = library.read(f"{name}.md#^x")
    (check,) = library.verify(f"As in [[{name}#^x]].").citations
    assert (excerpt.start_line, excerpt.end_line) == lines
    assert (check.state, check.start_line, check.end_line) == ("not_compared", *lines)


@pytest.mark.parametrize(
    "typed",
    [
        "[[sail#^sail-1]]",
        "![[sail#^sail-1]]",
        "[[dir/sail#^sail-1|the sail]]",
        "[the sail](dir/sail.md#^sail-1)",
        "dir/sail.md#^sail-1",
        "dir/sail.md#^SAIL-1",
        "dir/sail.md#%5Esail-1",
        "notes: dir/sail.md#^sail-1",
        "sail#Sail 2#^sail-1",
        "thumbindex://notes/dir/sail.md#%5Esail-1",
    ],
)
def test_block_is_read_however_its_link_is_written(library: Library, typed: str) -> None:
    assert library.read(typed).text == "The sail. ^sail-1"
    assert library.related(typed).path == library.outline(typed)[0].path == "dir/sail.md"
    assert library.why(typed, "mast").path == "dir/sail.md"


def test_unknown_block_is_an_error_with_the_nearest_ids(library: Library) -> None:
    # a heading with the same letters is another place
    with pytest.raises(UsageError, match=r"sail\.md has no block '\^sail-2'. Nearest: \^sail-1"):
        library.read("dir/sail.md#^sail-2")
    with pytest.raises(UsageError, match=r"has no block '\^y'\. Nearest: \^sail-1, \^mast\."):
        library.read("dir/sail.md", heading="^y")
    (check,) = library.verify("As in [[sail#^sail-2]].").citations
    assert (check.state, check.reason) == ("never_there", "the note has no such block")


@pytest.mark.parametrize("place", PLACES)
def test_place_is_read_however_it_is_written(library: Library, place: str) -> None:
    typed = f"My note.md{place}"
    (check,) = library.verify(f"It stands in `{typed}`.").citations
    if (lines := PLACES[place]) is None:
        with pytest.raises(UsageError):
            library.read(typed)
        assert check.state == "never_there" or place == ":0"
        return
    excerpt = library.read(typed)
    assert (excerpt.path, excerpt.start_line, excerpt.end_line) == ("My note.md", *lines)
    assert (check.state, check.start_line, check.end_line) == ("not_compared", *lines)
    assert library.related(typed).path == library.outline(typed)[0].path == "My note.md"
    assert library.why(typed, "second").path == "My note.md"


@pytest.mark.parametrize(
    ("place", "lines"), [("?plain=1#L9-L13", (9, 13)), ("(9)", (9, 9)), ("(9,3)", (9, 9))]
)
def test_place_of_other_programs_is_read(
    library: Library, place: str, lines: tuple[int, int]
) -> None:
    excerpt = library.read(f"My note.md{place}")
    assert (excerpt.start_line, excerpt.end_line) == lines


def test_name_of_a_note_is_no_place(library: Library) -> None:
    assert library.read("fine (9).md").text == "# Not line 9"
    assert library.read("fine (9)").text == "# Not line 9"
    assert library.read("My%20note.md#faq-1").start_line == 7


def test_why_names_the_chunks_of_the_place(library: Library) -> None:
    assert library.why("My note.md#faq-1", "second").chunks == 1
    assert library.why("dir/sail.md#^mast", "mast").chunks == 1


def test_line_beyond_the_end_is_an_error_with_the_number_of_lines(library: Library) -> None:
    for place in ("#L99", ":99:3", " (lines 99-100)"):
        with pytest.raises(UsageError, match=r"My note\.md has 61 lines: 99 to "):
            library.read(f"My note.md{place}")
