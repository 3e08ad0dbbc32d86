"""Extract the visible text of Markdown, for words, comparison and models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import unescape
from html.entities import html5

from thumbindex.text import strip_invisible

_CODE_BLOCK = re.compile(
    r"\n(?P<prefix>(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*+)"  # also in a list or quote
    r"(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)[ \t]*+(?P<info>[^\n]*+)"
    r"(?P<block>(?:\n(?![ \t>]*+(?P=fence)[`~]*+[ \t]*+$)[^\n]*+)*+)(?P<closing>\n[^\n]*+)?",
    re.M,
)
_CODE_SPAN_OR_ESCAPE = re.compile(
    r"`(?P<more>`*+)"
    r"(?P<span>(?:[^`\n]++|\n(?![ \t>]*+\n)|(?!`(?P=more)(?!`))`++)*+)"
    r"`(?P=more)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~]|(?=\n))"
    r"|`++"  # without a partner
)
_INLINE_ELEMENT = (
    "(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|nobr|q|s|samp"
    "|small|span|strike|strong|sub|sup|time|tt|u|var|wbr)"
)
_TAG_IN_TOKENS = re.compile(rf"</?{_INLINE_ELEMENT}\s*/?>", re.IGNORECASE)
_MARKUP_IN_TOKENS = re.compile(
    rf"\\[!-/:-@\[-`{{-~]|&[#A-Za-z][A-Za-z0-9]++;|<(?i:/?{_INLINE_ELEMENT}\s*/?>)"
)
_MAY_BE_MARKUP = re.compile(r"[\\&<*_~=^\[\]|#]|\A[-+>\d]")
_QUOTE_MARKS = re.compile(r"^[ \t]*+(?:>[ \t]?)++", re.M)
_HIDDEN = re.compile(r"\0(\d+)\0")

_ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(
    r"</(?:a|code|del|kbd|s|samp)>(?=<(?:a|code|ins|kbd|samp)\b)"  # two links or keys are two words
    rf"|</?(?:(?P<inside>{_INLINE_ELEMENT})(?=[\s/>])|[A-Za-z])[^<>]{{0,300}}>",
    re.IGNORECASE,
)
LINK_DESTINATION = (
    r"(?:<[^<>\n]*+>|(?:\{\{[^{}\n]*+\}\}|\{|[^\s(){\\]++|\\.|\([^\s()]*+\))*+)"
    r"(?:\s++(?:\"(?:[^\"\\]++|\\.)*+\"|'[^']*+'|\([^()]*+\)))?+"
)
"""Pattern of the address and title of a link, which stand in parentheses."""

_LINK = re.compile(rf"!?\[([^\]\[]*)\]\(\s*+{LINK_DESTINATION}\s*+\)")
_AUTOLINK = re.compile(r"<([A-Za-z][\w+.-]{1,31}:[^\s<>]*+|[\w.+-]++@[\w.-]++)>")
_EMPHASIS = ("**", "__", "~~", "==")
_INLINE = (  # substrings of every match (tested first, for speed), pattern, replacement
    (
        ("[[",),
        re.compile(r"!\[\[[^\]\[|]*\|([^\]\[]*)\]\]|!?\[\[([^\]\[|]*)\]\]"),
        lambda m: m[1] or m[2] or "",
    ),
    (("[[",), re.compile(r"\[\[[^\]\[|]*\|([^\]\[]*)\]\]"), lambda m: m[1]),
    (("](",), _LINK, lambda m: m[1]),
    (("](",), _LINK, lambda m: m[1]),  # an image in the text of a link
    (("][",), re.compile(r"!?\[([^\]\[]+)\]\[[^\]\[]*\]"), lambda m: m[1]),
    (("<",), _AUTOLINK, lambda m: m[1]),
    (("<",), _TAG, lambda m: "" if m["inside"] else " "),
    (_EMPHASIS, re.compile(r"(?:\*\*|__|~~|==)(?:(?<!\w..)(?=\S)|(?<=\S..)(?!\w))"), lambda m: ""),
    (
        ("*",),
        re.compile(r"\*(?<![\w*].)(?=[^\s*])((?:[^*\n]++|\n(?!\s))++)(?<=\S)\*(?![\w*])"),
        lambda m: m[1],
    ),
    # H~2~O, x^2^
    (
        ("~", "^"),
        re.compile(r"[~^](?<=[\w)~^](.))([\w+−-]{1,12}+)\1(?!\1)"),
        lambda m: m[2],
    ),
)
_MAY_BE_INLINE = re.compile(r"[\[\]<*_~=^]")
# emphasis marks between letters or digits, and the emphasis that begins or ends there
_INSIDE_WORD = re.compile(r"\*(?<=\w.)\*{0,2}+\w|(?:~~|==)(?<=\w..)\w")
_EMPHASIS_IN_WORD = (
    re.compile(
        r"(\*(?<![\w*].)\*{0,2}+|(?:~~|==)(?<!\w..))(?=\w)([^*~=\n]{1,200}+)(?<=\w)\1(?=[^\W\d_])"
    ),
    re.compile(
        r"(\*\*|~~|==)(?<=\w..)(?!(?<=\d..)\d)(?=\w)([^\s*~=]{1,100}+)(?<=\w)\1"
    ),  # not 2**3
    re.compile(
        # not a*b*c
        r"(\*)(?:(?<=[^\W\d_]{2}.)(?=\w)|(?<=[^\W\d_].)(?=[^\W\d_]{2}))([^\s*]{1,100}+)(?<=\w)\*(?![\d*])"
    ),
)
"""*S*ingle; in**finite**, but not 2**3**4; un*believ*able, but not a*b*c."""

_LINE_START = re.compile(
    r"^[ \t]*(?:>[ \t]?)*(?:\[![\w-]+\][+-]?[ \t]*)?"
    r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:#{1,6}[ \t]+)?",
    re.M,
)
_RULE = re.compile(r"^[ \t]*+(?:\|[ \t]*+)?:?-{2,}+:?[ \t|:-]*+$", re.M)
_SPACES = re.compile(r"[ \t]{2,}|\t")


def strip_markup(markdown: str) -> str:
    """Return the visible text of Markdown: no markup, no link targets, no extra spaces."""
    text, literals = markdown, list[str]()
    if "`" in text or "\\" in text or "~~~" in text:
        text = _hide_literals(text, literals)
    if "--" in text:
        text = _RULE.sub("", text)
    text = _LINE_START.sub("", text)
    if _MAY_BE_INLINE.search(text):
        if _INSIDE_WORD.search(text):
            for pattern in _EMPHASIS_IN_WORD:
                text = pattern.sub(r"\2", text)
        for marks, pattern, replacement in _INLINE:
            for mark in marks:
                if mark in text:
                    text = pattern.sub(replacement, text)
                    break
    text = _show_literals(text.replace("|", " ").replace("`", ""), literals)
    if "\t" in text or "  " in text:
        text = _SPACES.sub(" ", text)
    return "\n".join(filter(None, map(str.strip, text.splitlines())))


def _hide_literals(text: str, literals: list[str], as_written: bool = False) -> str:
    """Replace code and escaped characters with their numbers in `literals`, which is filled."""

    def number(literal: str) -> str:
        literals.append(literal)
        return f"\0{len(literals) - 1}\0"

    def hide_block(match: re.Match[str]) -> str:
        block = match["block"]
        if not _begins_block(match):
            return match[0] if as_written else block
        if ">" in match["prefix"]:
            block = _QUOTE_MARKS.sub("", block)
        return "\n" + number(match[0] if as_written else block)

    def hide_span(match: re.Match[str]) -> str:
        span = match["span"]
        if span is None:
            return match[0] if match["escaped"] is None else number(match["escaped"])
        if as_written:
            return number(match[0])
        return number(span.replace("\\|", "|")) if _MAY_BE_MARKUP.search(span) else span

    text = text.replace("\0", "")
    if "```" in text or "~~~" in text:
        text = _CODE_BLOCK.sub(hide_block, f"\n{text}")
    return _CODE_SPAN_OR_ESCAPE.sub(hide_span, text)


def code_blocks(markdown: str) -> list[tuple[int, int, bool]]:
    """Return the start and stop of each fenced code block, and whether it has a closing fence."""
    return [
        (match.start(), match.end() - 1, bool(match["closing"]))
        for match in _CODE_BLOCK.finditer(f"\n{markdown}")
        if _begins_block(match)
    ]


def _begins_block(fence: re.Match[str]) -> bool:
    """Return whether a fence begins a code block.

    A fence without a partner often ends a block whose beginning was cut off.
    """
    return bool(fence["closing"] or fence["info"] or fence.start() == 0)


def _show_literals(text: str, literals: Sequence[str]) -> str:
    """Decode the entities of a text, and put the literals back."""
    decoded = _ENTITY.sub(_decoded, text) if "&" in text else text
    shown = _HIDDEN.sub(lambda match: literals[int(match[1])], decoded) if literals else decoded
    return shown if decoded is text else strip_invisible(shown)


def _decoded(entity: re.Match[str]) -> str:
    written = entity[0]
    character = unescape(written) if written[1] == "#" else html5.get(written[1:], written)
    return " " if character.isspace() else character


def unescape_markdown(markdown: str) -> str:
    """Decode entities and escapes, and remove inline tags. Code and other markup stay."""
    if not _MARKUP_IN_TOKENS.search(markdown):
        return markdown
    literals = list[str]()
    text = _hide_literals(markdown, literals, as_written=True)
    return _show_literals(_TAG_IN_TOKENS.sub("", text), literals)


# ------------------------------------------------------------------ unseen markup

Markup = tuple[int, int, str]
"""Start and stop of markup that is not seen, and the text that is shown for it, mostly none."""

_CACHED_TEXTS = 64
_OPAQUE = "\1"
_BLOCK_ELEMENT = (
    "(?:address|article|aside|audio|blockquote|br|button|center|col|colgroup|dd|details|div|dl|dt"
    "|figcaption|figure|footer|h[1-6]|header|hr|iframe|img|input|label|li|nav|ol|p|picture|pre"
    "|section|source|span|summary|svg|table|tbody|td|th|thead|tr|ul|video)"
)
_CODE_SHORTCODE = re.compile(  # between the tags of a shortcode for code
    r"(?<=[>%]\}\})(?<!/[>%]\}\})[^{]*+(?:\{(?!\{)[^{]*+)*+"
    r"(?=\{\{[<%]\s*+/\s*+[\w-]*(?:code|highlight)[\w-]*\s*+[>%]\}\})"
)
_IMAGE_FILE = r"\.(?i:png|jpe?g|gif|svg|webp|avif|bmp|mp[34]|m4a|wav|webm|ogg|mov|pdf)"
_OPENS, _CLOSES = r"(?<![^\s\1(\[\"'“‘«—–])", r"(?![^\s\1)\]\"'”’»—–,.;:!?…-])"
_UNSEEN = (  # the group of a pattern is seen, the rest is not
    re.compile(rf"!\[[^\]\[]*\]\(\s*+{LINK_DESTINATION}\s*+\)(?:\{{[^{{}}\n]*\}})?"),
    re.compile(rf"!\[\[[^\]\[|\n]*{_IMAGE_FILE}[^\]\[\n]*\]\]"),
    re.compile(  # a definition of a link
        r"^ {0,3}\[(?!\^)[^\]\[\n]+\]:[ \t]*+(?:<[^<>\n]*>|(?=\S*?(?:[/#:]|\.\w))\S++)"
        r"(?:[ \t]++(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*+$",
        re.M,
    ),
    re.compile(rf"\[([^\]\[]*)\]\(\s*+{LINK_DESTINATION}\s*+\)"),
    re.compile(r"!?\[\[[^\]\[|\n]*\|([^\]\[\n]*)\]\]"),
    re.compile(r"!?\[\[([^\]\[|\n]*)\]\]"),
    re.compile(r"(?<!\w)!?\[(?!\^)([^\]\[]+)\]\[(?!\^)[^\]\[]*\]"),
    _AUTOLINK,
    re.compile(rf"</?(?i:{_INLINE_ELEMENT}|{_BLOCK_ELEMENT})(?=[\s/>])[^<>]{{0,300}}>"),
    re.compile(r"\{\{[<%][^{}]{0,300}[%>]\}\}"),  # a shortcode
    re.compile(r"\*\*(?=[^\s*])([^*\n]++)(?<=\S)\*\*"),
    re.compile(r"(?<!\w)__(?=[^\s_])([^_\n]++)(?<=\S)__(?!\w)"),
    # between spaces or punctuation: not in formulas and addresses
    re.compile(rf"{_OPENS}\*(?=[^\s*])([^*\n]++)(?<=\S)\*{_CLOSES}"),
    re.compile(rf"{_OPENS}_(?=[^\s_])([^_\n]++)(?<=\S)_{_CLOSES}"),
    re.compile(r"==(?=[^\s=])([^=\n]++)(?<=\S)=="),
    re.compile(r"(?<=\S)[ \t]*+\{#[^\s{}]++\}[ \t]*+$", re.M),  # the anchor of a heading
    re.compile(r"(?<=\S)[ \t]++\^[A-Za-z\d-]++[ \t]*+$", re.M),  # the name of a block
    re.compile(r"^([ \t]*+>[ \t>]*+)\[!\w[\w-]*+\][+-]?[ \t]*+", re.M),  # the kind of a callout
    re.compile(r"(?<=\S ) ++(?=\|)|(?<=\| ) ++|(?<=[^-]--)-++(?=:? ?\|)"),  # padding of a table
)


@lru_cache(maxsize=_CACHED_TEXTS)
def hidden_markup(markdown: str) -> Sequence[Markup]:
    """Return the spans of markup that readers do not see, in order. They do not overlap.

    Links are seen as their text. Images, definitions of links, tags and shortcodes are not seen.
    Code, headings, lists, tables and deleted text stay as written.
    """
    hidden: list[Markup] = []

    def opaque(match: re.Match[str]) -> str:
        if match.groupdict().get("escaped") is not None:
            hidden.append((match.start(), match.start() + 1, ""))
        return _OPAQUE * len(match[0]) if match.lastindex else match[0]

    def hide(match: re.Match[str]) -> str:
        start, stop = match.span(1) if match.lastindex else (match.end(), match.end())
        replacement = " " if match[0][:3].lower() == "<br" else ""
        hidden.append((match.start(), start, replacement))
        hidden.append((stop, match.end(), ""))
        shown = match[1] if match.lastindex else ""
        return f"{_OPAQUE * (start - match.start())}{shown}{_OPAQUE * (match.end() - stop)}"

    text = markdown
    for start, stop, _ in code_blocks(markdown):
        text = text[:start] + _OPAQUE * (stop - start) + text[stop:]
    text = _CODE_SPAN_OR_ESCAPE.sub(opaque, text)
    if "{{" in text:
        text = _CODE_SHORTCODE.sub(lambda code: _OPAQUE * len(code[0]), text)
    for pattern in _UNSEEN:
        text = pattern.sub(hide, text)
    for entity in _ENTITY.finditer(text):
        if (decoded := _decoded(entity)) != entity[0]:
            hidden.append((*entity.span(), decoded))
    return sorted(span for span in hidden if span[0] < span[1])


# ------------------------------------------------------------------ text for models

_MAX_HEADING_TOKENS = 85
"""A heading path with more estimated tokens than this is shortened before it is embedded.

The limit is a third of the smallest window.
"""


def embedded_text(heading_path: tuple[str, ...], text: str) -> str:
    """Return the text to embed for a chunk: `Title > H2 > H3`, a blank line, its visible text."""
    return with_heading(heading_path, strip_markup(text))


def with_heading(heading_path: tuple[str, ...], visible: str) -> str:
    """Return the text to embed for a chunk with this visible text."""
    heading = shorten_heading(" > ".join(heading_path))
    return _separate_symbols(f"{heading}\n\n{visible}".strip())


# arrows, technical and other symbols, emoji and their variation selectors
_SYMBOL = "[\u2100-\u2106\u2116\u2122\u2190-\u2bff\U0001f000-\U0001faff\ufe0f\u20e3]"
_HAS_SYMBOL = re.compile(_SYMBOL)
_BESIDE_SYMBOL = re.compile(rf"(?<=[^\W_])(?={_SYMBOL}(?!\u20e3))|(?<={_SYMBOL})(?=[^\W_])")


def _separate_symbols(text: str) -> str:
    """Return a text with a space between words and symbols, as the models' tokenizers need."""
    if text.isascii() or not _HAS_SYMBOL.search(text):
        return text
    return _BESIDE_SYMBOL.sub(" ", text)


def shorten_heading(path: str) -> str:
    """Return a heading path, shortened in the middle if it is too long to embed."""
    if len(path) <= _MAX_HEADING_TOKENS:
        return path
    # estimate: one token per four English letters, and per other character
    costs = [0.25 if c.isascii() and (c.isalpha() or c == " ") else 1.0 for c in path]
    if sum(costs) <= _MAX_HEADING_TOKENS:
        return path
    head = path[: _half_length(costs)]
    tail = path[len(path) - _half_length(costs[::-1]) :]
    return f"{head} … {tail}"


def _half_length(costs: list[float]) -> int:
    """Return how many characters at the start of a heading fit in half of the token limit."""
    spent = 0.0
    for count, cost in enumerate(costs):
        spent += cost
        if spent > (_MAX_HEADING_TOKENS - 3) / 2:
            return count
    return len(costs)
