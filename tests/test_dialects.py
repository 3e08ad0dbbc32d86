"""Markdown beyond CommonMark, as a user meets it: `outline`, `broken` and the tags of `list`.

The targets of all links are missing, so `broken` lists every link.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from folders import open_library, write, write_notes
from thumbindex.config import load_config
from thumbindex.errors import UsageError
from thumbindex.library import Library


class Case(NamedTuple):
    """A note, and what a user expects to see of it."""

    text: str
    headings: str = ""  # "level heading:line", separated by "; "
    links: str = ""  # "line target", separated by "; "
    tags: str = ""
    suffix: str = ".md"


FORMULAS = [
    # a line of dashes or equals signs, and signs of headings, links and tags
    Case("So\n\n$$\n\\vec{a}\n=\n\\vec{b}\n$$\n\n## After\n\n[[x]]", "2 After:9", "11 x"),
    Case("# T\n\n$$\na\n---\nb\n$$\n\n$$\n# of rows\n[[i]] #k\n$$\n\n#t", "1 T:1", "", "t"),
    # in a list, a quote, and both
    Case("- item\n\n  $$\n  x\n  =\n  [[y]]\n  $$\n\n  [[z]]\n- next [[w]]", "", "9 z; 10 w"),
    Case("> $$\n> a\n> =\n> [[b]]\n> $$\n>\n> [[c]]\n\n> - $$\n>   [[d]]\n>   $$", "", "7 c"),
    # the formula begins or ends beside text
    Case("$$\\begin{matrix}\n[a](b.md)\n---\n\\end{matrix}$$\n[[x]]\n\n$$a [[b]]$$", "", "5 x"),
    # CJK around, in a table, in a heading
    Case("## 行列 $A_{1}*B_{2}*$ は\n\n式$[[a]]$と$[b](c.md)$。", "2 行列 $A_{1}*B_{2}*$ は:1"),
    Case("| $[[a]]$ | $$[[b]]$$ |\n|---|---|\n| $#c$ | [[d]] |\n", "", "3 d"),
    Case("The $n$th, $x^{[[1]]}$, `$` [[y]], \\$ [[z]] $ #t", "", "1 y; 1 z", "t"),
    # near misses: never closed, prices, shell variables, code, links
    Case("$$\n[[a]]\n\n# H\n\n[[b]]\n\n$$\nx\n$$\n\nEnd [[c]]", "1 H:4", "2 a; 6 b; 12 c"),
    Case("$$ unclosed [[a]]\n\n# H\n\n- [[b]]\n\nand $$ once more", "1 H:3", "1 a; 5 b"),
    Case("It costs $5 and [[tea]] costs $10, US$ 3 #t or 4$ [[x]]", "", "1 tea; 1 x", "t"),
    Case("We paid $500 to [[Acme]] and got (200$).\n\n$HOME/[[x]]/$USER", "", "1 Acme; 3 x"),
    Case(
        "[5 $](a.md) or [6 $](b.md)\n\n- Ramen $$ [[Tokyo]]\n- $$$ [[Osaka]]",
        "",
        "1 a.md; 1 b.md; 3 Tokyo; 4 Osaka",
    ),
    Case(
        "Price: $$\n## Sushi\nPrice: $$ [[x]]\n\n| a | $$ |\n|---|---|\n| [[y]] | $$ |",
        "2 Sushi:2",
        "3 x; 7 y",
    ),
    Case(
        "```\n$$\n```\n# H\n\n```\n$$\n```\n\nTwo\n---\n\n    $$\n\n[[a]]\n\n    $$",
        "1 H:4; 2 Two:10",
        "15 a",
    ),
]

HTML_HEADINGS = [
    Case('<h1 align="center">Sprocket</h1>\n\nText.\n\n## Use', "1 Sprocket:1; 2 Use:5"),
    # over lines, with an image, a link and entities
    Case(
        '<h1 align="center">\n  <br>\n  <a href="https://x.org"><img src="l.png" alt="Logo"></a>\n'
        "  Tom &amp; Jerry&#33;\n  <br>\n</h1>\n\nText",
        "1 Tom & Jerry!:1",
    ),
    Case('<H2 ID=x class="a > b"><em>Größe</em> von <code>x_y</code></H2>', "2 Größe von x_y:1"),
    # inside other elements, several in a block, beside text
    Case(
        '<div align="center">\n<h1>One</h1>\n<p>text</p>\n<h3>Two</h3>\n</div>', "1 One:2; 3 Two:4"
    ),
    Case("<h2>Left</h2><h2>Right</h2>\n\n<h3>T</h3> and text", "2 Left:1; 3 T:3"),
    # an image alone, a heading around a paragraph of Markdown
    Case('<h1><img alt="Gear &amp; Co" src="x.png"/></h1>\n\nText', "1 Gear & Co:1"),
    Case("<h1 align=center>\n\n**Bold** name\n\n</h1>\n\n[[x]]", "1 Bold name:1", "7 x"),
    Case(
        "<h4>*not* _markdown_ [[x]] #1</h4>\n\n<h6>日本語</h6>",
        "4 *not* _markdown_ [[x]] #1:1; 6 日本語:3",
    ),
    Case("<details>\n<summary><h2>More</h2></summary>\n\n[[x]]\n\n</details>", "2 More:2", "4 x"),
    Case("H<sub>2</sub>O\n\n<h2>H<sub>2</sub>O<br>and more</h2>\n", "2 H2O and more:3"),
    # attributes over lines, text in the same lines, Windows line ends, a body of MkDocs
    Case("<h1\n  align='center'\n>\n[[x]] A\n</h1>", "1 [[x]] A:1"),
    Case("<h2>A</h2> text\n<p>B</p>\n<H3>C</H3>\r\n\r\n#t\r\n", "2 A:1; 3 C:3", "", "t"),
    Case('=== "T"\n\n    <h2>In</h2>\n\n    text\n\n<h2>Out</h2>', "2 In:3; 2 Out:7"),
    # near misses
    Case("<!-- <h1>No</h1> -->\n\n```html\n<h1>No</h1>\n```\n\n    <h1>No</h1>\n\n`<h1>No</h1>`"),
    Case("<pre><h1>No</h1></pre>\n\n<script>\n'<h1>No</h1>'\n</script>\n\n<h1>unclosed"),
    Case("<h1></h1>\n\n<header>No</header>\n\n<h7>No</h7>\n\n<hr>\n\ntext <h1>No</h1>"),
    Case("- <h2>No</h2>\n\n> <h2>No</h2>\n\n# <b>Yes</b>", "1 Yes:5"),
]

HTML_LINKS = [
    Case(
        '<p>See <a href="use.md">use</a>\nand <a class=x href=faq.md>it</a>.</p>',
        "",
        "1 use.md; 2 faq.md",
    ),
    Case("Or <a href=\"a.md\">a</a>, <A HREF='b%20c.md#d'>b</A> inline.\n", "", "1 a.md; 1 b c.md"),
    Case(
        '- item <a href="a.md">a</a>\n\n> <a href="b.md">b</a>\n\n'
        '> <div><a href="c.md">c</a></div>',
        "",
        "1 a.md; 3 b.md; 5 c.md",
    ),
    Case(
        '| x |\n|---|\n| <a href="a.md">a</a> |\n\n# <a href="b.md">T</a>',
        "1 T:5",
        "3 a.md; 5 b.md",
    ),
    Case('<table>\n<tr><td><a\n href="../a.md">a</a></td></tr>\n</table>', "", "2 ../a.md"),
    Case(
        '<h2><a href="a.md">T</a></h2>\n\n<a href="b.md">\n<h3>U</h3>\n</a>',
        "2 T:1; 3 U:4",
        "1 a.md; 3 b.md",
    ),
    Case(
        '<a href="a.md?x=1&amp;y=2">a</a> [b](b.md) <a href="docs/ü.md">c</a>',
        "",
        "1 a.md; 1 b.md; 1 docs/ü.md",
    ),
    Case(
        '<a href="a.md"><img src="p.png" alt="x"></a> **<a href="b.md">b</a>**',
        "",
        "1 a.md; 1 b.md",
    ),
    Case(
        '<a title="x > y" href="a.md">never closed\n\n<a href="guide/">g</a>',
        "",
        "1 a.md; 3 guide/",
    ),
    Case('one\ntwo\n<br>\nthree <a href="a.md">a\nb</a>', "", "4 a.md"),
    # near misses
    Case('<a href="https://x.org">x</a> <a href="//x.org">x</a> <a href="mailto:a@b.c">m</a>'),
    Case('<a href="#">top</a> <a name="x"></a> <a id="y">y</a> <img src="a.md"> <a href="">e</a>'),
    Case(
        '`<a href="a.md">a</a>`\n\n```\n<a href="a.md">a</a>\n```\n\n<!-- <a href="a.md">a</a> -->'
    ),
    Case('<pre>\n<a href="a.md">a</a>\n</pre>\n\n<abbr href="a.md">a</abbr>\n\n\\<a href="a.md">'),
    Case("<a href={useBaseUrl('x')}>a</a> <a data-href=\"a.md\">b</a>\n", suffix=".mdx"),
]

INDENTED = [
    Case(
        '!!! tip "More"\n\n    Read [the guide](guide.md) and #howto\n\n    - [[a]]',
        "",
        "3 guide.md; 5 a",
        "howto",
    ),
    Case(
        '=== "Linux"\n\n    ## Install\n\n    [p](p.md)\n\n=== "Mac"\n\n    ## Setup\n\n    [[q]]',
        "2 Install:3; 2 Setup:9",
        "5 p.md; 11 q",
    ),
    Case(
        "??? note\n    [[a]]\n    ```\n    [[code]] #code\n    ```\n\n"
        "???+ info inline end\n\n\t[[b]]",
        "",
        "2 a; 9 b",
    ),
    # nested, and in a list
    Case(
        '!!! a\n\n    ??? b "B"\n\n        === "T"\n\n            [[x]]\n\n'
        "        [[y]]\n\n    [[z]]",
        "",
        "7 x; 9 y; 11 z",
    ),
    Case(
        "1. One\n\n    !!! note\n\n        [[a]] #t\n\n            [[code]]\n\n2. Two [[b]]",
        "",
        "5 a; 9 b",
        "t",
    ),
    Case('- x\n\n  === "T"\n\n      [[a]]\n- y\n\n> !!! note\n>\n>     [[b]]', "", "5 a; 10 b"),
    # beside a paragraph, with markup in the title, with comments, a table
    Case('Text\n!!! danger "See [[topic]] `x`"\n    [[a]]\ntext [[b]]', "", "2 topic; 3 a; 4 b"),
    Case(
        "!!! note\n\n    <!-- [[no]] -->\n\n    | a |\n    |---|\n    | [[b]] |\n\n    > [[c]]",
        "",
        "7 b; 9 c",
    ),
    Case(
        "/// note | Title\n[[a]]\n\n/// details\n    type: warning\n\n[[b]]\n///\n///",
        "",
        "2 a; 7 b",
    ),
    Case(
        "<Tabs>\n\n    [[a]] #t\n\n    ## Deep\n\n        - [[b]]\n\n</Tabs>",
        "2 Deep:5",
        "3 a; 7 b",
        "t",
        ".mdx",
    ),
    Case(
        "# H\n\n    ```\n    [[code]]\n    ```\n\n    {/* [[no]] */} [[a]]",
        "1 H:1",
        "7 a",
        "",
        ".mdx",
    ),
    # near misses: code that is indented elsewhere
    Case(
        "Text\n\n    [[code]] #code\n\n    # code\n\n- item\n\n      [[code]]\n\n[[a]]", "", "11 a"
    ),
    Case("!!! note\n\nNot in it:\n\n    [[code]]\n\n!!! note\n\n    body\n\nout\n\n    [[code]]"),
    Case(
        "Really???\n\n    [[code]]\n\nTitle\n===\n\n    [[code]]\n\n!!!\n\n    [[code]]",
        "1 Title:5",
    ),
    Case(
        '```\n!!! note\n\n    [[code]]\n```\n\n    === "T"\n\n        [[code]]\n\n'
        '!!! note "unclosed\n\n    [[code]]'
    ),
]

SHORTCODES = [
    Case(
        "{{< code-toggle file=hugo >}}\n[[menus.main]]\n# comment\n[x](y.md)\n"
        "{{< /code-toggle >}}\n\n[[a]]",
        "",
        "7 a",
    ),
    Case("{{< highlight toml >}}\n\n[[params]]\n\nkey\n---\n{{</ highlight >}}\n## H", "2 H:8"),
    Case('See {{< fig title="[[x]] #t" >}} and {{% tip "[a](b.md)" %}} [[c]]', "", "1 c"),
    Case(
        '{% raw %}[[a]]{% endraw %}\n\n{% include "x.html" tag="#b" %}\n\n'
        '{{ page.x | default: "c" }} #d',
        "",
        "1 a",
        "d",
    ),
    Case(
        "{% highlight ruby %}\na = [[1]]\n# comment\n{% endhighlight %}\n\n"
        "{% code-block %}\n[[b]]\n{% endcode-block %}"
    ),
    Case(
        "- item\n\n  {{< code >}}\n  [[a]]\n  {{< /code >}}\n\n  [[b]]\n\n"
        "> {{< code >}}\n> [[c]]\n> {{< /code >}}",
        "",
        "7 b",
    ),
    Case('| {{< x "[[a]]" >}} | [[b]] |\n|---|---|\n', "", "1 b"),
    Case(
        "## Title {{< new-in 0.1 >}}\n\n{{% note %}}\n[[a]] #t\n{{% /note %}}",
        "2 Title {{< new-in 0.1 >}}:1",
        "4 a",
        "t",
    ),
    Case("{{< details >}}\n# In\n\n[a](b.md)\n{{< /details >}}\n", "1 In:2", "4 b.md"),
    Case('{{%\n  include "[[x]]"\n%}} then [[y]]', "", "3 y"),
    # near misses: no closing tag, closes itself, macros of outliners, single braces
    Case(
        "{{< code-toggle config=build />}}\n\n[[a]]\n\n# H\n\n{{< code-toggle >}}\n"
        "[[b]]\n{{< /code-toggle >}}",
        "1 H:5",
        "3 a",
    ),
    Case("{{< highlight >}}\n\n[[a]]\n\n# H", "1 H:5", "3 a"),
    Case("{{embed [[page]]}} {{[[TODO]]}} {{query [[tag]]}}", "", "1 page; 1 TODO; 1 tag"),
    Case("{ [[a]] } {[[b]]} {{ [[c]] {{", "", "1 a; 1 b; 1 c"),
    Case("```\n{{< code >}}\n```\n\n[[a]]\n\n```\n{{< /code >}}\n```", "", "5 a"),
]

KINDS = {
    "formula": FORMULAS,
    "html-heading": HTML_HEADINGS,
    "html-link": HTML_LINKS,
    "indented": INDENTED,
    "shortcode": SHORTCODES,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    root = tmp_path_factory.mktemp("dialects") / "vault"
    notes = {
        f"{kind}-{n}{case.suffix}": case.text
        for kind, cases in KINDS.items()
        for n, case in enumerate(cases)
    }
    with open_library(write_notes(root, notes)) as library:
        library.index(complete=False)
        yield library


def parametrized(kind: str) -> pytest.MarkDecorator:
    cases = [pytest.param(f"{kind}-{n}{c.suffix}", c, id=str(n)) for n, c in enumerate(KINDS[kind])]
    return pytest.mark.parametrize(("path", "case"), cases)


def check(library: Library, path: str, case: Case) -> None:
    headings = "; ".join(f"{e.level} {e.heading}:{e.line}" for e in library.outline(path)[1:])
    links = "; ".join(f"{b.line} {b.target}" for b in library.broken(path=[path]).links)
    (note,) = library.listing(path=[path]).notes
    assert Case(case.text, headings, links, " ".join(note.tags), case.suffix) == case


@parametrized("formula")
def test_formulas_hold_no_headings_links_or_tags(library: Library, path: str, case: Case) -> None:
    check(library, path, case)


COMMENTS = [  # (text, its words outside a vault, its words in a vault)
    ("plum %%quince%% pear", "plum quince pear", "plum pear"),
    ("100 %%plum and 50 %%quince of pears", "plum quince pear", "quince pear"),
    ("%% plum\nquince\n%% pear", "plum quince pear", "pear"),
    ("%%i plum\n\nquince\n\n%%i pear", "plum quince pear", "pear"),
    ("plum\n\n%%\nquince\n\npear\n%%\n\nfig", "plum fig", "plum fig"),
    ("plum\r\n%% \r\nquince\r\n\t%%\r\npear", "plum pear", "plum pear"),
    ("- plum\n  %% quince %%\n- pear", "plum pear", "plum pear"),
    ("%% kanban:settings\n```\nplum\n```\n%%\n\npear", "plum pear", "pear"),
    ("```\n%%\n```\nplum\n```\n%%\n```", "plum", "plum"),
    ("plum\n%%\nquince", "plum quince", "plum quince"),
    ("plum <!-- quince %% --> pear %% fig", "plum pear fig", "plum pear fig"),
    ("<!--\n%%\n-->\nplum\n\n%%\nquince\n%%", "plum", "plum"),
    # a formula has no comments
    ("$$\na %% plum\n$$\n\nquince\n\n$$\nb %% pear\n$$", *["plum quince pear"] * 2),
    ("$$\n%% plum\n$$\n\nquince\n\n$$\n%% pear\n$$", *["plum quince pear"] * 2),
    ("%%\n$$ plum\n%%\n\nquince\n\n$$\npear\n$$", "quince pear", "quince pear"),
    ("plum %%costs $5 quince%% pear $ fig", "plum quince pear fig", "plum pear fig"),
]
WORDS = ("plum", "quince", "pear", "fig")
VAULTS = ["", "notes/.obsidian/x", ".obsidian/x", "notes/n/.obsidian/x", "notes/.obsidian"]


@pytest.mark.parametrize("vault", VAULTS)
def test_percent_comments_outside_a_vault_have_lines_of_their_own(
    tmp_path: Path, vault: str
) -> None:
    notes = {f"n/{n}.md": f"{text}\n" for n, (text, _, _) in enumerate(COMMENTS)}
    root = write_notes(tmp_path / "notes", notes)
    if vault:
        write(tmp_path / vault, "{}")
    in_vault = vault.endswith("x")  # `.obsidian` is a folder
    with open_library(root, index=tmp_path / "index") as library:
        library.index(complete=False)
        texts = {note.document.path: " ".join(note.texts) for note in library.all_notes()}
    expected = [case[1 + in_vault].split() for case in COMMENTS]
    indexed = [[w for w in WORDS if w in texts[path]] for path in notes]
    assert dict(zip(notes.values(), indexed, strict=True)) == dict(
        zip(notes.values(), expected, strict=True)
    )


def page_html(library: Library, path: str) -> str:
    page = library.page(path, note_address=lambda path, _: path, tag_address=lambda tag: tag)
    return str(page.rendered.html)


def test_text_between_percent_signs_is_read_outside_a_vault(tmp_path: Path) -> None:
    text = "%%i plum tree\n\n# Quince\n\nA quince is a hard yellow fruit.\n\n%%i pear\n"
    root = write_notes(tmp_path / "notes", {"a.md": text, "v/a.md": text})
    write(root / "v/.obsidian/x", "")
    with open_library(root) as library:
        library.index(complete=False)
        assert [entry.heading for entry in library.outline("a.md")] == ["Quince", "Quince"]
        assert library.read("a.md").flags == ()
        assert library.read("a.md", heading="Quince").start_line == 3
        assert "hard" in page_html(library, "a.md")
        assert [entry.heading for entry in library.outline("v/a.md")] == ["a"]
        assert len(library.read("v/a.md").flags) == 1
        assert "hard" not in page_html(library, "v/a.md")


def test_notes_in_a_vault_by_a_symlink_show_no_comment(tmp_path: Path) -> None:
    text = "plum %%quince%% pear"
    notes = {"notes/v/.x/a.md": text, "notes/v/.obsidian/x": "", "other/b.md": text}
    write_notes(tmp_path, {**notes, "vault/.obsidian/x": ""})
    (tmp_path / "notes/a.md").symlink_to("v/.x/a.md")
    (tmp_path / "vault/linked").symlink_to("../other")
    write(tmp_path / "config.toml", "[folders]\nnotes = 'notes'\nother = 'vault/linked'")
    config = load_config(user_file=tmp_path / "config.toml")
    with Library.open(index=tmp_path / "index", config=config) as library:
        library.index(complete=False)
        texts = {note.document.path: note.texts for note in library.all_notes()}
    assert texts == {"a.md": ("plum  pear",), "b.md": ("plum  pear",)}


def test_a_folder_that_becomes_a_vault_is_indexed_again(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "notes", {"a.md": "plum %%quince%% pear"})
    with open_library(root) as library:
        library.index(complete=False)
        assert library.query("quince").passages
        write(root / ".obsidian/x", "{}")
        library.index(complete=False)
        assert not library.query("quince").passages
        assert library.query("pear").passages


@parametrized("html-heading")
def test_html_headings_are_headings(library: Library, path: str, case: Case) -> None:
    check(library, path, case)


def test_text_around_html_headings_is_found_below_them(tmp_path: Path) -> None:
    text = "<div>harbor\n<h2 id=q>Quay</h2>pier</div>\n\nsail\n\n<h2>\n<b>Mast</b>\n</h2>\n\nrope"
    with open_library(write_notes(tmp_path / "vault", {"n.md": text})) as library:
        library.index(complete=False)
        lines = [
            passage.match_start_line
            for word in ("harbor", "pier", "sail", "rope", "mast")
            for passage in library.query(f'"{word}"').passages
        ]
        assert library.read("n.md", heading="q").text.split("\n")[-2:] == ["sail", ""]
    assert lines == [1, 2, 2, 10, 10]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<p>x</p>\n<h1>Gear</h1>\n\n# Use", "Gear"),
        ("## Use\n\n<h1>Example</h1>", "n"),
        ("## Use\n\n<h1>Example</h1>\n\n# Gear", "Gear"),
    ],
)
def test_html_heading_is_the_title_only_above_others(tmp_path: Path, text: str, title: str) -> None:
    with open_library(write_notes(tmp_path / "vault", {"n.md": text})) as library:
        library.index(complete=False)
        assert [note.title for note in library.listing().notes] == [title]


@parametrized("html-link")
def test_html_links_are_links(library: Library, path: str, case: Case) -> None:
    check(library, path, case)


@parametrized("indented")
def test_indented_bodies_are_markdown(library: Library, path: str, case: Case) -> None:
    check(library, path, case)


@parametrized("shortcode")
def test_shortcodes_hold_no_links_or_tags(library: Library, path: str, case: Case) -> None:
    check(library, path, case)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{< highlight html >}}", "{{< /highlight >}}"),
        ("{% raw %}\n{{% code %}}", "{{% /code %}}\n{% endraw %}"),
        ("- item\n\n  {% highlight js %}", "  {% endhighlight %}"),
    ],
)
def test_code_in_shortcodes_has_no_comments_or_anchors(
    tmp_path: Path, before: str, after: str
) -> None:
    code = "  <!-- plum -->\n  %% pear %%\n  <a id=fig>\n  x ^quince"
    text = f"{before}\n{code}\n{after}\n\n<!-- lime -->\n"
    with open_library(write_notes(tmp_path / "vault", {"n.md": text})) as library:
        library.index(complete=False)
        (note,) = library.all_notes()
        for place in ("fig", "^quince"):
            with pytest.raises(UsageError):
                library.read("n.md", heading=place)
    indexed = " ".join(note.texts)
    assert [w for w in ("plum", "pear", "lime") if w in indexed] == ["plum", "pear"]
