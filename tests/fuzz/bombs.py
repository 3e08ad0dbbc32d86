"""Files made to exhaust time or memory, of any size, by a seed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

Bomb = Callable[[Random, int], bytes]
"""Makes a file of about the given number of bytes."""

FULL_SIZE = 9_900_000
"""Almost `corpus.max_file_bytes`, with room for text around the pieces."""

MAX_FRONT_MATTER = 199_000
"""Just below the maximum of front matter, which is 200,000 characters."""


def filled(pieces: Iterator[str], size: int) -> bytes:
    """Return as many pieces as fit into the size."""
    parts, length = [], 0
    for piece in pieces:
        data = piece.encode("utf-8", "surrogatepass")
        length += len(data)
        if length > size:
            break
        parts.append(data)
    return b"".join(parts)


def repeated(unit: str, before: str = "", after: str = "") -> Bomb:
    """Repeat a text."""
    return lambda random, size: (before + unit * (size // len(unit.encode())) + after).encode(
        "utf-8", "surrogatepass"
    )


def numbered(unit: str) -> Bomb:
    """Repeat a text, with a number in place of each N."""
    return lambda random, size: filled((unit.replace("N", str(n)) for n in count()), size)


def chosen(*units: str, separator: str = "") -> Bomb:
    """Combine texts in random order."""

    def bomb(random: Random, size: int) -> bytes:
        return filled((random.choice(units) + separator for _ in count()), size)

    return bomb


def halves(opening: str, closing: str) -> Bomb:
    """Nest pairs of an opening and a closing text."""
    return lambda random, size: (
        opening * (size // 2 // len(opening)) + "a" + closing * (size // 2 // len(closing))
    ).encode()


def headed(content: Bomb, fence: str = "---", before: str = "", after: str = "") -> Bomb:
    """Put a bomb into front matter, and the rest of it into the text below."""

    def bomb(random: Random, size: int) -> bytes:
        block = content(random, min(size, MAX_FRONT_MATTER)).decode()
        text = content(random, size).decode()[len(block) :]
        return f"{fence}\n{before}{block}{after}\n{fence}\n# Note\n\n{text}\n".encode()

    return bomb


def growing(mark: str, separator: str) -> Bomb:
    """Return runs of a mark, each longer by one than the last."""
    return lambda random, size: filled((mark * n + separator for n in count(1)), size)


def indented(unit: str) -> Bomb:
    """Return lines, each two spaces deeper than the last."""
    return lambda random, size: filled((f"{'  ' * n}{unit}\n" for n in count()), size)


def table(columns: int) -> Bomb:
    """Return a table with this number of columns at 10 MB, fewer if smaller."""

    def bomb(random: Random, size: int) -> bytes:
        width = max(3, columns * size // FULL_SIZE)
        head = f"|{' c |' * width}\n|{'-|' * width}\n".encode()
        return head + filled((f"|{f' {n} |' * wide}\n" for n in count()), size - len(head))

    return bomb


def laughs(random: Random, size: int) -> bytes:
    """Return a YAML "billion laughs": each name refers to the previous one ten times."""
    lines = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else 'lol'}]\n" for n in count())
    return filled(lines, size)


def blob(random: Random, size: int) -> bytes:
    """Return an embedded image."""
    return (
        b"# Picture\n\n![x](data:image/png;base64,"
        + base64.b64encode(random.randbytes(size * 3 // 4))
        + b")\n"
    )


def noise(random: Random, size: int) -> bytes:
    """Return random bytes."""
    return random.randbytes(size)


def letters(random: Random, size: int) -> bytes:
    """Return random letters without spaces."""
    return filled(
        ("".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=1000)) for _ in count()), size
    )


def wide(random: Random, size: int) -> bytes:
    """Return UTF-16 with lone surrogates."""
    return b"\xff\xfe" + "".join(random.choice("a\ud800\udfff é") for _ in range(size // 2)).encode(
        "utf-16-le", "surrogatepass"
    )


BOMBS: dict[str, Bomb] = {
    # ------------------------------------------------------------------ lines and words
    "words in one line": chosen("apple", "pear", "plum.", "Quince", separator=" "),
    "one word": letters,
    "one letter": repeated("a"),
    "spaces": repeated(" ", after="x"),
    "empty lines": repeated("\n", after="x"),
    "lines of one letter": repeated("a\n"),
    "carriage returns": repeated("\r"),
    "identifiers": repeated("a.b-c/d::", after="x"),
    "Chinese without a space": chosen("苹", "果", "树", "下", "。"),
    # ------------------------------------------------------------------ headings and blocks
    "headings": numbered("# hN\n"),
    "headings of six levels": chosen(*(f"{'#' * n} h\n\ntext\n\n" for n in range(1, 7))),
    "one heading": repeated("word ", before="# "),
    "underlined headings": repeated("a\n=\n"),
    "lists in one line": repeated("- "),
    "lists, ever deeper": indented("- a"),
    "quotes in one line": repeated("> "),
    "quotes and lists": chosen("> ", "- ", "1. ", "\n", "a"),
    "numbered items": numbered("N. a\n"),
    "a table of 100,000 columns": table(100_000),
    "rows of a table": repeated("| a | b |\n", before="| a | b |\n|---|---|\n"),
    "fences never closed": chosen("```a\n", "~~~\n", "````\n", "x\n"),
    "a fence ever longer": growing("`", "\n"),
    "rules": chosen("---\n", "***\n", "- - -\n", "a\n"),
    "HTML blocks": chosen("<div>\n", "</div>\n\n", "<!DOCTYPE x\n", "<![CDATA[\n", "<pre>\n"),
    "footnotes": numbered("[^N]: x[^N]\n\n"),
    "definitions of links": numbered("[rN]: /uN\n"),
    "definitions and their uses": numbered("[rN]: uN.md 'x'\n\n[x][rN] [rN]\n\n"),
    # ------------------------------------------------------------------ inside a paragraph
    "brackets": repeated("["),
    "brackets closed": halves("[", "]"),
    "brackets and parentheses": repeated("[a]("),
    "images in links": halves("![", "](x)"),
    "images in links, paragraph by paragraph": lambda random, size: (
        (halves("![", "](x)")(random, 2000) + b"\n\n") * (size // 2000)
    ),
    "links": numbered("[a](nN.md) "),
    "links that lead nowhere": repeated("[a](<b "),
    "wikilinks": numbered("[[nN|a]] "),
    "wikilinks in wikilinks": halves("[[", "]]"),
    "wikilinks never closed": repeated("[[a|"),
    "emphasis": chosen("*a ", "**b", " _c", "__", "~~", "***", "a"),
    "stars": repeated("*", after="a"),
    "stars and words": repeated("*a **b "),
    "backticks ever longer": growing("`", " a"),
    "backslashes": repeated("\\", after="["),
    "entities": chosen("&amp;", "&#x41;", "&#99999999;", "&nope", "&", ";"),
    "addresses": chosen("<http://a.b/c", "> ", "<a@b.c", "<a ", 'href="x'),
    "tags of HTML": repeated("<a b='c' "),
    "tags": numbered("#t/N "),
    "comments never closed": repeated("<!-- a "),
    "comments": chosen("<!--", "-->", "%%", "{/*", "*/}", "`", "\n"),
    "percent signs in one line": repeated("%%"),
    "percent signs and words": repeated("%% x "),
    "a picture in the text": blob,
    # ------------------------------------------------------------------ characters
    "marks on one letter": repeated("\u0301", before="a"),
    "marks on letters": chosen("a\u0301\u0323", "e\u0302\u0301", "ﬁ", "İ", " "),
    "directions of writing": chosen("\u202e", "\u202d", "\u2066", "\u2069", "א", "a"),
    "invisible characters": chosen("\u200b", "\u200d", "\ufe0f", "\U000e0041", "\u2060", "a"),
    "NUL": repeated("\0a"),
    "no text": noise,
    "half pairs": wide,
    # ------------------------------------------------------------------ front matter
    "a billion laughs": headed(laughs),
    "YAML, deep": headed(repeated("["), before="x: "),
    "YAML, ever deeper": headed(
        lambda random, size: filled((f"{' ' * n}a:\n" for n in count()), size)
    ),
    "YAML of keys": headed(numbered("kN: N\n")),
    "YAML, one key twice": headed(repeated("a: 1\n")),
    "YAML, one number": headed(repeated("9"), before="x: "),
    "YAML, one key": headed(repeated("k"), after=": 1"),
    "YAML of anchors": headed(numbered("- &aN [*aN]\n"), before="x:\n"),
    "YAML of merges": headed(numbered("kN: {<<: [{a: N}]}\n")),
    "YAML of dates": headed(repeated("2024-13-45, "), before="date: [", after="]"),
    "YAML of aliases and tags": headed(numbered("'[[nN]]', "), before="tags: [", after="]"),
    "YAML never closed": repeated("key: value\n", before="---\n"),
    "TOML, deep": headed(repeated("["), fence="+++", before="x = "),
    "TOML of dots": headed(numbered("a.b.c.dN = 1\n"), fence="+++"),
    "TOML, one key of dots": headed(repeated("a."), fence="+++", after="a = 1"),
    "TOML, one number": headed(repeated("9"), fence="+++", before="x = "),
    "TOML of tables": headed(numbered("[a.b.cN]\nx = 1\n"), fence="+++"),
    "TOML of lists of tables": headed(repeated("[[a.b]]\nx = 1979-05-27T07:32:00Z\n"), fence="+++"),
    "TOML, text in quotes": headed(repeated("\\u0041"), fence="+++", before='x = "', after='"'),
    # ------------------------------------------------------------------ flags and dates
    "orders to a model": repeated("ignore all of the previous instructions, "),
    "styles that hide": repeated('<p style="display:none;color:#fff">a '),
    "orders beside comments": repeated("ignore all previous instructions <!-- x -->\n\n"),
    "tags that hide beside code": repeated("<i hidden >\n```\n\n```\n\n"),
    "abbreviations": numbered("Single Sign N (SSN) "),
    "dates": repeated("Updated: 2024-01-05 | 5 May 2024 "),
    "almost private, again and again": repeated("#privately #private-x private: no\n"),
    "almost private, below titles": repeated("=\n", before="privately =\n"),
}
