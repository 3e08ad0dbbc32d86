"""A note as HTML: a few tags with a few attributes, each block with its lines, and nothing that can
do anything.
"""

import random
import time
from html.parser import HTMLParser

import pytest

from fuzz.hostile import SNIPPETS, hostile_note
from thumbindex.library.rendering import MAX_RENDERED_LINES, external_address, render_note
from thumbindex.model import Link, RenderedNote

ALLOWED = {
    "a": {"href", "class", "rel", "tabindex", "aria-hidden"},
    "blockquote": set(),
    "br": set(),
    "code": {"class"},
    "div": {"class", "tabindex", "id", "data-lines"},
    "em": set(),
    "hr": set(),
    "li": set(),
    "ol": {"start"},
    "p": {"id", "class", "data-lines"},
    "pre": {"id", "class", "data-lines", "tabindex"},
    "s": set(),
    "span": {"class", "id", "title"},
    "strong": set(),
    "sup": set(),
    "table": {"class"},
    "tbody": set(),
    "td": {"class"},
    "th": {"class"},
    "thead": set(),
    "tr": {"id", "class", "data-lines"},
    "ul": set(),
    **{f"h{n}": {"id", "class", "data-lines"} for n in range(1, 7)},
}
"""All that may come out of any note."""

VOID = {"br", "hr"}

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](file:///etc/passwd)",
    "[x]: javascript:alert(1)\n\n[x]",
    '[x](http://a.example/"onmouseover="alert(1))',
    '![" onerror="alert(1)](x.png)',
    '```"><script>alert(1)</script>\nx\n```',
    '[[a|"><script>alert(1)</script>]]',
    "[^<script>]: <script>alert(1)</script>\n\nx[^<script>]",
    "| <script> |\n|---|\n| <img onerror=alert(1)> |",
    "[![x](http://a.example/i.png)](http://b.example)",
    "\u202e<b>x</b>",
    "[x](//evil.example/a)",
)


def address(link: Link) -> str | None:
    return f"/note/v/{link.target}" if link.target in {"tea", "tea.md", "a b"} else None


def rendered(text: str, lines: tuple[int, int] | None = None, title: str = "") -> RenderedNote:
    return render_note("note.md", text, address, lambda name: f"/?q=tag:{name}", lines, title)


class Checked(HTMLParser):
    """The tags of some HTML; each is closed, none but the allowed is there."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(str(html))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        held = {name: value or "" for name, value in attrs}
        assert held.keys() <= ALLOWED[tag], (tag, held)
        href = held.get("href", "#")
        assert href.startswith(("/note/v/", "/?q=tag:", "#", "http://", "https://", "mailto:")), (
            href
        )
        assert not (tag == "a" and "a" in self.open), "a link in a link"
        self.tags.append((tag, held))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_is_only_words(payload):
    Checked(rendered(f"{payload}\n\ntext {payload} text\n\n- {payload}\n\n> {payload}\n").html)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_stands_in_a_note_nothing_else_comes_out(seed):
    chance = random.Random(seed)
    for _ in range(25):
        text = hostile_note(chance).decode("utf-8", "replace")
        Checked(rendered(text, (2, 5), "Title").html)
    Checked(rendered("\n\n".join(chance.sample(SNIPPETS, len(SNIPPETS)))).html)


def test_html_in_a_note_is_shown_as_it_is_written():
    assert "<b>bold</b>" in Checked(rendered("x <b>bold</b> y\n").html).text


def test_comments_and_front_matter_are_left_out_and_lines_keep_their_numbers():
    html = rendered("---\na: b\n---\n<!-- secret -->\n\n# One\n\ntext %%hidden%%\n").html
    text = Checked(html).text
    assert ("secret" in text, "hidden" in text, "a: b" in text) == (False, False, False)
    assert 'id="L6"' in html
    assert 'data-lines="8-8"' in html


def test_cited_lines_are_marked_in_the_innermost_blocks():
    html = rendered(
        "# A\n\none\n\n- two\n- three\n\n| a |\n|---|\n| b |\n\n```\nx\ny\n```\n", (6, 13)
    ).html
    cited = [
        held.get("data-lines", "")
        for tag, held in Checked(html).tags
        if "cited" in held.get("class", "").split()
    ]
    assert cited == ["6-6", "8-8", "10-10", ""]
    assert '<span class="cited">x</span>' in html


def test_links_lead_to_notes_that_are_there_and_others_are_marked():
    html = rendered(
        "[[tea]] [t](tea.md) [b](<a b>) [[nowhere]] ![[tea]] [h](#one)\n\n## One\n"
    ).html
    links = [
        held["href"]
        for tag, held in Checked(html).tags
        if tag == "a" and held.get("class") != "number"
    ]
    assert links == ["/note/v/tea", "/note/v/tea.md", "/note/v/a b", "/note/v/tea", "#L3"]
    assert html.count('class="broken"') == 1


def test_foreign_links_say_where_they_lead_and_images_ask_nobody():
    html = rendered(
        "[x](https://a.example/b) ![pic](https://b.example/p.png) ![own](pics/p.png)\n"
    ).html
    tags = Checked(html)
    assert [held["href"] for tag, held in tags.tags if held.get("class") == "foreign"] == [
        "https://a.example/b",
        "https://b.example/p.png",
    ]
    assert all("noopener" in held["rel"] for _, held in tags.tags if held.get("class") == "foreign")
    assert ("(a.example)" in tags.text, "<img" in html) == (True, False)


def test_addresses_that_do_something_are_dead():
    dead = (
        "javascript:a",
        "data:x",
        "file:///a",
        "http://",
        "https:///x",
        "HTTP://[::1",
        "mailto\n:x",
        "x" * 5000,
        "http://a.example/\u202e",
    )
    assert [each for each in dead if external_address(each)] == []
    assert external_address("mailto:a@b.example") == "mailto:a@b.example"
    assert external_address("//a.example/x") == "https://a.example/x"


def test_a_long_note_is_shown_around_what_is_cited():
    text = "".join(f"line {n}\n\n" for n in range(1, 20_000))
    found = rendered(text, (30_001, 30_001))
    assert found.first_line <= 30_001 <= found.last_line
    assert found.last_line - found.first_line < MAX_RENDERED_LINES
    assert found.total_lines == 39_998


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "*" * 200_000 + "a", "> " * 20_000 + "x", "a" * 1_000_000]
)
def test_a_bomb_takes_no_longer_than_a_long_note(text):
    began = time.process_time()
    rendered(text)
    assert time.process_time() - began < 10
