"""Notes as safe HTML: few tags and attributes, and line numbers for each block."""

import random
import re
import time
from html.parser import HTMLParser

import pytest

from fuzz.hostile import SNIPPETS, hostile_note
from thumbindex.library.note_html import (
    MAX_RENDERED_LINES,
    external_address,
    render_lines,
    render_note,
)
from thumbindex.model import Link, RenderedNote

ALLOWED = {
    "a": {"href", "class", "rel", "tabindex", "aria-hidden"},
    "blockquote": set(),
    "br": set(),
    "code": {"class"},
    "div": {"class", "tabindex", "id", "data-lines"},
    "dd": set(),
    "details": {"class", "open"},
    "dl": set(),
    "dt": {"id", "class", "data-lines"},
    "em": set(),
    "hr": set(),
    "input": {"type", "disabled", "aria-label", "checked"},
    "kbd": set(),
    "li": {"class"},
    "mark": set(),
    "ol": {"start"},
    "p": {"id", "class", "data-lines"},
    "pre": {"id", "class", "data-lines", "tabindex"},
    "s": set(),
    "span": {"class", "id", "title"},
    "small": set(),
    "strong": set(),
    "sub": set(),
    "summary": {"id", "class", "data-lines"},
    "sup": set(),
    "table": {"class"},
    "tbody": set(),
    "td": {"class"},
    "th": {"class"},
    "thead": set(),
    "tr": {"id", "class", "data-lines"},
    "u": set(),
    "ul": set(),
    **{f"h{n}": {"id", "class", "data-lines"} for n in range(1, 7)},
}
"""All tags and attributes that a rendered note may contain."""

VOID = {"br", "hr", "input"}

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


def render(text: str, lines: tuple[int, int] | None = None, title: str = "") -> RenderedNote:
    return render_note("note.md", text, address, lambda name: f"/?q=tag:{name}", lines, title)


class Checked(HTMLParser):
    """Parses HTML and asserts that only allowed tags occur and each is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(str(html))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        assert attributes.keys() <= ALLOWED[tag], (tag, attributes)
        href = attributes.get("href", "#")
        assert href.startswith(("/note/v/", "/?q=tag:", "#", "http://", "https://", "mailto:")), (
            href
        )
        assert not (tag == "a" and "a" in self.open), "a link in a link"
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("payload", PAYLOADS)
def test_script_payload_is_rendered_as_text(payload):
    Checked(render(f"{payload}\n\ntext {payload} text\n\n- {payload}\n\n> {payload}\n").html)


@pytest.mark.parametrize("seed", range(3))
def test_any_note_renders_only_allowed_tags(seed):
    chance = random.Random(seed)
    for _ in range(25):
        text = hostile_note(chance).decode("utf-8", "replace")
        Checked(render(text, (2, 5), "Title").html)
    Checked(render("\n\n".join(chance.sample(SNIPPETS, len(SNIPPETS)))).html)


def test_html_is_shown_as_source():
    assert "<form>bold</form>" in Checked(render("x <form>bold</form> y\n").html).text


def test_comments_and_front_matter_are_hidden_and_line_numbers_kept():
    html = render("---\na: b\n---\n<!-- secret -->\n\n# One\n\ntext %%hidden%%\n").html
    text = Checked(html).text
    assert ("secret" in text, "hidden" in text, "a: b" in text) == (False, False, False)
    assert 'id="L6"' in html
    assert 'data-lines="8-8"' in html


def test_cited_lines_are_marked_in_the_innermost_blocks():
    html = render(
        "# A\n\none\n\n- two\n- three\n\n| a |\n|---|\n| b |\n\n```\nx\ny\n```\n", (6, 13)
    ).html
    cited = [
        attributes.get("data-lines", "")
        for tag, attributes in Checked(html).tags
        if "cited" in attributes.get("class", "").split()
    ]
    assert cited == ["6-6", "8-8", "10-10", ""]
    assert '<span class="cited">x</span>' in html


def test_broken_links_are_marked():
    html = render("[[tea]] [t](tea.md) [b](<a b>) [[nowhere]] ![[tea]] [h](#one)\n\n## One\n").html
    links = [
        attributes["href"]
        for tag, attributes in Checked(html).tags
        if tag == "a" and attributes.get("class") != "number"
    ]
    assert links == ["/note/v/tea", "/note/v/tea.md", "/note/v/a b", "/note/v/tea", "#L3"]
    assert html.count('class="broken"') == 1


def test_links_to_blocks_and_anchors_of_the_note_lead_to_their_lines() -> None:
    html = render(
        "# FAQ\n\n- one ^x\n\n# FAQ\n\nText.\n\n## Größe {#size}\n\n"
        "[[#^x]] [a](#faq-1) [b](#size) [c](#gr%C3%B6%C3%9Fe) [[#^y]] [d](#faq-2)\n"
    ).html
    assert re.findall(r'<a href="(#L\d+)">', html) == ["#L3", "#L5", "#L9", "#L9"]
    assert html.count('class="broken"') == 2


def test_external_links_show_their_host_and_images_load_nothing():
    html = render(
        "[x](https://a.example/b) ![pic](https://b.example/p.png) ![own](pics/p.png)\n"
    ).html
    tags = Checked(html)
    assert [
        attributes["href"] for tag, attributes in tags.tags if attributes.get("class") == "foreign"
    ] == [
        "https://a.example/b",
        "https://b.example/p.png",
    ]
    assert all(
        "noopener" in attributes["rel"]
        for _, attributes in tags.tags
        if attributes.get("class") == "foreign"
    )
    assert ("(a.example)" in tags.text, "<img" in html) == (True, False)


def test_unsafe_addresses_are_rejected():
    unsafe = (
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
    assert [url for url in unsafe if external_address(url)] == []
    assert external_address("mailto:a@b.example") == "mailto:a@b.example"
    assert external_address("//a.example/x") == "https://a.example/x"


def test_long_note_is_rendered_around_the_cited_lines():
    text = "".join(f"line {n}\n\n" for n in range(1, 20_000))
    note = render(text, (30_001, 30_001))
    assert note.first_line <= 30_001 <= note.last_line
    assert note.last_line - note.first_line < MAX_RENDERED_LINES
    assert note.total_lines == 39_998


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "*" * 200_000 + "a", "> " * 20_000 + "x", "a" * 1_000_000]
)
def test_hostile_note_renders_in_seconds(text):
    started = time.process_time()
    render(text)
    assert time.process_time() - started < 10


PASSAGE = """# Tea

> [!tip] Warm it
> Use hot water first.

| day | water |
|---|---|
| 2026-01-01 | much |
| 2026-01-02 | little |

3. three
   - nested [[tea]]
4. four

```python
def boil(water):
    return water
```

Watermill, `water` <https://a.example/water> [[nowhere]] ^block
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (1, '<p class="heading">Tea</p>'),
        (4, '<div class="box kind-tip"><p>Use hot <mark>water</mark> first.</p></div>'),
        (
            9,
            '<div class="scroll" tabindex="0"><table class="table"><thead><tr><th>day</th>'
            "<th><mark>water</mark></th></tr></thead><tbody><tr>"
            "<td>2026-01-02</td><td>little</td></tr></tbody></table></div>",
        ),
        (
            12,
            '<ol start="3"><li><ul><li><div>nested <a href="/note/v/tea">tea</a></div></li></ul>'
            "</li></ol>",
        ),
        (13, '<ol start="4"><li><div>four</div></li></ol>'),
        (
            17,
            '<pre class="block" tabindex="0"><code>    '
            '<span class="hl-k">return</span> <mark>water</mark></code></pre>',
        ),
        (
            20,
            "<p>Watermill, <code><mark>water</mark></code> "
            '<a class="foreign" href="https://a.example/water" '
            'rel="noopener noreferrer nofollow">https://a.example/water</a> '
            '<span class="broken">nowhere</span>'
            '<span class="hidden-label"> (broken link)</span></p>',
        ),
    ],
)
def test_lines_of_a_passage_keep_the_blocks_around_them(line, expected):
    rows = PASSAGE.split("\n")
    start = len("\n".join(rows[: line - 1])) + (line > 1)
    html = render_lines(
        PASSAGE, start, start + len(rows[line - 1]), ["water"], address, lambda name: f"/?q={name}"
    )
    Checked(html)
    assert html.replace("\n", "") == expected


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a ==b **c**== d == e", "<p>a <mark>b <strong>c</strong></mark> d == e</p>"),
        ("*a ==b* c==", "<p><em>a ==b</em> c==</p>"),
        ("~~a~~", "<p><s>a</s></p>"),
        (
            '<kbd onclick="x()">K</kbd><br onload=x> H<sub>2</sub> <blink>x</blink>',
            "<p>K<br> H2 &lt;blink&gt;x&lt;/blink&gt;</p>",
        ),
        (
            "- [ ] a\n- [x] b\n- [y] c",
            '<ul><li class="task"><div><input type="checkbox" disabled aria-label="to do"> a</div>'
            '</li><li class="task"><div><input type="checkbox" disabled aria-label="done" checked> '
            "b</div></li><li><div>[y] c</div></li></ul>",
        ),
        (
            "(see http://a.example/b_(c)_d), `http://a.example`",
            '<p>(see <a class="foreign" href="http://a.example/b_(c)_d" '
            'rel="noopener noreferrer nofollow">http://a.example/b_(c)_d</a>), '
            "<code>http://a.example</code></p>",
        ),
        ("http://]/ http://", "<p>http://]/ http://</p>"),
        (
            "[[tea|Green]] ![[tea]]",
            '<p><a href="/note/v/tea">Green</a> <a href="/note/v/tea">embedded: tea</a></p>',
        ),
        (
            "![[x.png|300]]",
            '<p><span class="attachment" title="x.png is a file, or a page that a site generator '
            'makes">image: x.png</span></p>',
        ),
        ("a ^id-1", "<p>a</p>"),
        ("a\n: b", "<dl><dt>a</dt><dd><div>b</div></dd></dl>"),
        (
            "> [!Warning]- *Hot*\n> water",
            '<div class="box kind-warning"><p class="box-title"><em>Hot</em></p><p>water</p></div>',
        ),
        (
            '> [!x"onclick=x] a\n> b',
            "<blockquote><p>[!x&quot;onclick=x] ab</p></blockquote>",
        ),
        ("> [!my]\n> b", '<div class="box kind-note"><p class="box-title">My</p><p>b</p></div>'),
        (
            "```js\nif ('<b>') // c\n```",
            '<pre class="block" tabindex="0"><code><span class="hl-k">if</span> (<span '
            'class="hl-s">&#x27;&lt;b&gt;&#x27;</span>) <span class="hl-c">// c</span></code>'
            "</pre>",
        ),
        (
            "See [security model][], [`cwebp`][] and a[0]. {{< new-in 1.0 />}}",
            "<p>See security model, <code>cwebp</code> and a[0]. </p>",
        ),
    ],
)
def test_markdown_beyond_commonmark(markdown, expected):
    html = render_lines(markdown, 0, len(markdown), [], address, lambda name: f"/?q={name}")
    Checked(html)
    assert html.replace("\n", "") == expected


@pytest.mark.parametrize("language", ["c", "js", "sql", "sh", "html", "php"])
@pytest.mark.parametrize("code", ["//", "(", "'", "<!--", "${", "a\n "])
def test_hostile_code_is_rendered_in_a_second(language, code):
    lines = f"{code * (499 // len(code))}\n" * 40
    started = time.process_time()
    for text in (code * 20_000, lines):
        Checked(render(f"```{language}\n{text}\n```\n").html)
    assert time.process_time() - started < 2
