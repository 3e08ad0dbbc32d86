"""Choosing the lines of a passage for the terminal, the page and a model."""

import re
from dataclasses import replace

import pytest

from thumbindex.model import Passage
from thumbindex.present.excerpts import ShownLines, all_lines, choose_lines, share_of_room


def passage(text: str, *words: str) -> Passage:
    """Return a passage from line 11 of a note, completely matched, with some words marked."""
    last = 11 + text.count("\n")
    marks = tuple(sorted(match.span() for word in words for match in re.finditer(word, text, re.I)))
    return Passage(1, "f", "a.md", "A", ("A",), 11, last, 11, last, 1.0, text, marks=marks)


def within(characters: int, source: Passage) -> ShownLines:
    return choose_lines(source, characters, lambda shown: len(shown.text))


ROWS = "\n".join(f"- Row {number} of a long list." for number in range(1, 30))

FILMS = """\
- Matrix Resurrections (2/5)
  - A mess of a film.
  - Watched at home.
- Spider-Man: No Way Home (4/5)
  - It mostly worked, and it was very gratifying.
  - Watched on the opening day.
- Dune (5/5)
  - Sand."""

STEPS = """\
Some words about something else.

To leave the state:

1. Make a branch.
2. Switch to it.

More about something else."""

PROSE = """\
The first sentence is about something else entirely. The bread needs salt and some
pepper, too. The third sentence explains how much of both is right. Then the text goes on."""

CODE = """\
Before the code there is some text about something else.

```toml
[server]
port = 8080
host = "::"
```

Behind it."""


@pytest.mark.parametrize(
    ("text", "words", "room", "shown"),
    [
        (FILMS, ("Spider",), 500, FILMS),
        # the item and what is nested in it
        (FILMS, ("Spider", "Home"), 115, "\n".join(FILMS.split("\n")[3:6])),
        # a nested item comes with the item around it
        (FILMS, ("gratifying",), 170, "\n".join(FILMS.split("\n")[3:])),
        # a line that ends with a colon introduces the list
        (STEPS, ("branch",), 80, "To leave the state:\n\n1. Make a branch.\n2. Switch to it."),
        (STEPS, ("leave",), 60, "To leave the state:\n\n1. Make a branch.\n2. Switch to it."),
        # a term comes with its definition
        (
            f"{STEPS}\n\n`-s`\n: The amount of salt in bread.\n\nThe text goes on.",
            ("salt",),
            45,
            "`-s`\n: The amount of salt in bread.",
        ),
        # an excerpt does not end with what only introduces
        (f"Some salt.\n{STEPS}", ("salt",), 70, "Some salt.\nSome words about something else."),
        # whole sentences, also over a line break
        (
            PROSE,
            ("salt", "pepper"),
            120,
            "…The bread needs salt and some\npepper, too. The third sentence explains how much of "
            "both is right.…",
        ),
        # a code block from its beginning
        (CODE, ("port",), 80, '[server]\nport = 8080\nhost = "::"\n```\n\nBehind it.'),
        # a row with the header of its table, without padding
        (
            "Options:\n\n| Flag   | Use   |\n| ------ | ----- |\n| `-a`   | All.  |\n"
            "| `-b`   | A bowl. It has salt. |\n\nThe text goes on.",
            ("salt",),
            55,
            "| Flag | Use |\n| `-b` | A bowl. It has salt. |",
        ),
        # the next heading is about something else
        ("# A\n\nThe salt.\n\n## B\n\nThe end.\n", ("salt",), 20, "The salt."),
        # at the end, what stands above fills the room
        (
            "# A\n\n1. Make a branch.\n2. Switch to it.\n\nThe salt.",
            ("salt",),
            32,
            "2. Switch to it.\n\nThe salt.",
        ),
        # but not above an identifier
        (
            "# A\n\n1. Make a branch.\n2. Switch to it.\n\nThe bread.salt.",
            ("bread.salt",),
            38,
            "The bread.salt.",
        ),
        # words in the chunk that was found, without any of the query
        (ROWS, (), 30, "- Row 1 of a long list."),
    ],
)
def test_excerpt_begins_with_the_answer_and_goes_on(
    text: str, words: tuple[str, ...], room: int, shown: str
) -> None:
    assert within(room, passage(text, *words)).text == shown


def test_words_of_the_matched_chunk_count_more() -> None:
    twice = replace(passage(ROWS, "Row 2 ", "Row 17"), match_start_line=20, match_end_line=30)
    assert within(60, twice).start_line == 27


def test_short_lines_stay_apart_and_wrapped_lines_do_not() -> None:
    songs = "hey jude\nwanted dead or alive\ndrops of jupiter"
    assert within(30, passage(songs, "dead")).text == "wanted dead or alive"


def test_links_are_shown_as_their_text_and_images_not_at_all() -> None:
    written = (
        "See [the guide](https://example.org/a_(b)) or [[Notes/Home|home]].\n"
        "![A diagram](d.png)\n[guide]: https://example.org\n"
        '{{% include "x.md" %}}\nIt is **bold**, and `[code](stays)`.'
    )
    assert all_lines(passage(written)).text == (
        "See the guide or home.\nIt is bold, and `[code](stays)`."
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("> [!tip]- Brew\n> hot ^abc-1", "> Brew\n> hot"),
        ("[Alice]: we decided\n[12:30]: Bob agreed", "[Alice]: we decided\n[12:30]: Bob agreed"),
        ("![Diagram of the billing](x.png)", "![Diagram of the billing](x.png)"),
        ("f(**kwargs), __dirname, a[0][1] and [^1][^2]",) * 2,
        ("An *old* and **_profound_** insight", "An old and profound insight"),
        (r"$\hat{x}_{1} - \hat{y}_{2}$, $\pi^*(s) = V^*(s)$, https://x.org/_a_/b",) * 2,
        ("f(*args), 2 * 3 * 4, *.py, *.md, snake_case_name and _private",) * 2,
        ("```npm install thumb```\nThe next line.",) * 2,
        ("- ```js\n  let a = [b](c);\n  ```\n- The [next](x) item.",) * 1
        + ("- ```js\n  let a = [b](c);\n  ```\n- The next item.",),
        ("end of code\n```\nThe [text](x) below.", "end of code\n```\nThe text below."),
        ("", ""),
        ("{{< code-toggle >}}\n[[menus.main]]\n{{< /code-toggle >}}", "[[menus.main]]"),
        ("x ^2 y\n[!tip] no", "x ^2 y\n[!tip] no"),
        ("```\nwithout end [a](b)", "```\nwithout end [a](b)"),
    ],
)
def test_what_only_looks_like_unseen_markup_is_shown(written: str, shown: str) -> None:
    assert all_lines(passage(written)).text == shown


def test_only_headings_of_the_heading_path_are_left_out() -> None:
    todo = replace(
        passage(
            "![](b.png)\n\n## Plans {#p}\n\n## Buy a catamaran\n## Learn guitar\n\nLessons.",
            "catamaran",
        ),
        heading_path=("A", "Plans", "Learn guitar"),
    )
    assert within(200, todo).text == "## Buy a catamaran\n## Learn guitar\n\nLessons."


@pytest.mark.parametrize(
    ("room", "headings"),
    [
        (500, ("A", "Kitchen")),  # the whole passage
        (20, ("A", "Kitchen", "Table")),
    ],
)
def test_headings_are_those_above_the_first_line(room: int, headings: tuple[str, ...]) -> None:
    text = "# A\n\n## Kitchen\n\nThe pans.\n\n### Table\n\nThe salt.\n\n## Attic\n\nDust."
    source = replace(
        passage(text, "salt"), heading_path=("A", "Kitchen", "Table"), match="The salt."
    )
    assert within(room, source).heading_path == headings


def test_overlong_line_is_cut_around_most_query_words() -> None:
    line = f"Salt and more {'something else is said here ' * 40} salt with pepper, " + "x" * 500
    lines = within(60, passage(f"# A\n{line}", "salt", "pepper"))
    assert lines.start_line == 12
    assert "salt with pepper, x" in lines.text
    assert lines.text.startswith("…")
    assert lines.text.endswith("x…")


def test_lines_have_the_notes_numbers_and_marked_words() -> None:
    first, second = all_lines(passage("One [salt](x.md).\nTwo.", "salt")).lines
    assert (first.number, first.pieces) == (
        11,
        (("One ", False), ("salt", True), (".", False)),
    )
    assert (second.number, second.pieces) == (12, (("Two.", False),))


def test_lines_are_not_numbered_if_a_comment_is_left_out() -> None:
    long_passage = replace(
        passage("One.\n\nThe salt.\n\nTwo."), end_line=20, match="The salt.", match_start_line=15
    )
    lines = within(10, long_passage)
    assert [line.number for line in lines.lines] == [None]
    assert (lines.text, lines.start_line) == ("The salt.", 15)


def test_room_goes_by_rank() -> None:
    assert share_of_room(24, 4, 3, is_sure=True) == 12
    assert share_of_room(24, 4, 3) == 7
    assert share_of_room(10, 0, 3) == 10
