"""Decide which notes are private: by a glob, by the key `private` at their head, or by a tag.

If in doubt, a note is private. The key and the tags are searched in the plain text, because parsers
of YAML, TOML and Markdown fail on text that a person still understands.
`tests/corpus/private-forms.md` lists all forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.ignore import PathCache, is_private_by_glob
from thumbindex.corpus.markdown import code_lines
from thumbindex.corpus.read import decode, read_bytes
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings
from thumbindex.text import strip_invisible

# ------------------------------------------------------------- a text as a careless writer means it

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd\U000e0000-\U000e0fff]+(#?)"
)
"""Characters that nobody sees, and what could not be decoded: UTF-16 without its mark has one a
letter.

One before a tag parts it from a word.
"""

_LINE_END = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LOOKALIKES = (("ï»¿", ""), ("i\u0307", "i"), ("ı", "i"), ("∶", ":"), ("꞉", ":"), ("ː", ":"))
"""What stands for a plain character: Turkish writes the small letter of I and the capital of i in
its own way.

The first is a byte order mark.
"""

_SYMBOL_BEFORE_TAG = re.compile(
    "(?<=[\u20a8\u2100-\u214f\u2460-\u24ff\u3200-\u33ff\U0001f100-\U0001f1ff])#"
)
"""Symbols that NFKC makes letters of, such as ™: a tag behind one is no part of a word."""

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_DASHES = str.maketrans({"—": "--", "–": "-", "‐": "-", "‑": "-", "‒": "-", "−": "-"})
"""Editors make one sign of several."""


def _plain(text: str) -> str:
    """Return a text in one case and width, its lines ended by line feeds alone, without what nobody
    sees.
    """
    if not text.isascii():
        text = _SYMBOL_BEFORE_TAG.sub(" #", text)
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        for written, meant in _LOOKALIKES:
            text = text.replace(written, meant)
    text = _INVISIBLE.sub(lambda match: " #" if match[1] else "", text)
    return _LINE_END.sub("\n", text).casefold()


def _unescaped(text: str) -> str:
    r"""Return a text in which `\x61` and `\u0061` are the characters that they stand for."""
    return _ESCAPE.sub(
        lambda match: chr(min(int(match[1] or match[2] or match[3], 16), 0x10FFFF)), text
    )


# ------------------------------------------------------------------ what could be meant as a head

_FENCE = re.compile(r"-{3,}|\+{3,}|(?:--|\+\+|;{3,}|\{)[ \t]*+$")
_KEY_LINE = re.compile(r"[\"'“‘{<&! \t]*+\w[\w .-]*+[\"'”’ \t]*+[:=]|[ \t]*+\?")
_CODE = ("```", "~~~")
_CODE_FENCE = re.compile(r" {0,3}(`{3,}+(?!.*`)|~{3,}+)[ \t]*+")
_COMMENTS = {"<!--": "-->", "%%": "%%", "{/*": "*/}"}


def _head_blocks(text: str, late: bool) -> Iterator[tuple[str, bool]]:
    """Yield what a text begins with as far as it could be meant as a head, and whether fences say
    so: blocks, comments, then the first paragraph.

    A fence below a title, `late`, may be a rule: it opens a block where a key is next. What is
    never closed is all the rest.
    """
    lines = text.split("\n")
    at = 0
    open_comments: set[str] = set()  # signs of comments that are never closed
    while at < len(lines):
        line = lines[at].strip()
        dashed = line.translate(_DASHES)
        fence = _FENCE.match(dashed)
        sign = next((comment for comment in _COMMENTS if line.startswith(comment)), "")
        if sign and sign not in open_comments:
            close = _COMMENTS[sign]
            below = (n for n in range(at + 1, len(lines)) if close in lines[n])
            end = at if close in line[len(sign) :] else next(below, -1)
            if end < 0:
                open_comments.add(sign)
                end = at
            yield "\n".join(lines[at : end + 1]), False
        elif not line or line.startswith(("#", "%", "<!--", "-->")):
            late, end = late or line.startswith("#"), at
            if line.startswith("%"):
                yield line, False
        elif fence is None:
            if line.startswith(_CODE):
                return
            underline = lines[at + 1].strip() if at + 1 < len(lines) else ""
            is_title = bool(underline) and not (underline.strip("=") and underline.strip("-"))
            ends = (n for n in range(at + 1, len(lines)) if _ends_paragraph(lines[n]))
            end = at if is_title else next(ends, len(lines)) - 1
            yield "\n".join(lines[at : end + 1]), False
            if not is_title and not line.startswith(("import ", "export ")):
                return
            late, end = True, end + (is_title and underline.startswith("="))
        elif late and not any(map(_KEY_LINE.match, (dashed[fence.end() :], _next_line(lines, at)))):
            end = at
        else:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            mark = fence[0].rstrip().replace("{", "}")
            end = at + 1
            while end < len(lines):
                if lines[end].rstrip().translate(_DASHES) in (mark, indent + mark):
                    break
                end += 1
            yield "\n".join(_uncoded(lines[at:end]) if late else lines[at:end]), True
            late = True
        at = end + 1


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(_CODE) or _FENCE.match(line) is not None


def _next_line(lines: Sequence[str], at: int) -> str:
    return next((lines[n] for n in range(at + 1, len(lines)) if lines[n].strip()), "")


def _uncoded(lines: Sequence[str]) -> list[str]:
    """Return lines without blocks of code that are closed."""
    kept: list[str] = []
    opened, mark = -1, ""  # where in the kept lines a block of code began, and its fence
    for line in lines:
        kept.append(line)
        found = _CODE_FENCE.match(line)
        if found and opened < 0:
            opened, mark = len(kept) - 1, found[1]
        elif found and found[1].startswith(mark) and found.end() == len(line):
            del kept[opened:]
            opened = -1
    return kept


def _paragraphs_below_fences(text: str) -> str:
    """Return the paragraphs that stand right below a fence, wherever that is."""
    found, below = [""], False
    for line in text.split("\n"):
        fence = line.strip() in ("---", "+++")
        below = fence or (below and bool(line.strip()))
        found.append(line if below and not fence else "")
    return "\n".join(found)


# ------------------------------------------------------------------ the key

_QUOTE = "[\"'`“”‘’]"
_NO = (
    rf"[^\S\n]*+{_QUOTE}*+(?:no|false|off|0|none|null|~){_QUOTE}*+"
    rf"(?:[^\S\n]*+[,;}})\]]*+[^\S\n]*+(?:(?:-->|%%|\*/\}})[^\S\n]*+)?$"
    r"(?!\n[ \t]++(?:[^\s\#:=]++[ \t]++[^\s:=]|\w[^\s\#:=]*+[ \t]*+$))"
    r"|[^\S\n]++\#"
    rf"|(?=[^\S\n]*+,[^\S\n]*+{_QUOTE}*+[\w-]++{_QUOTE}*+[^\S\n]*+[:=]))"
)
"""A clear no, and nothing behind it but a comment, a bracket or another key."""

_PROPERTY = re.compile(r"(?:^|(?<=[\s{\[,]))[&!](?!private\b)[^\s,{}\[\]]*+[ \t]++", re.M)
"""An anchor or a tag of YAML."""

_KEY_AND_VALUE = re.compile(
    r"(?<![^\w\n])(?P<before>[^\w\n]*+)(?<!\w)private(?!\w)[^\w\n:=]*+(?:\n[^\w\n:=]*+)?[:=]++"
    rf"(?:(?P<no>{_NO})"
    rf"|(?P<empty>[^\S\n]*+{_QUOTE}*+[^\S\n]*+(?:\#(?!\S)[^\n]*+)?$)"
    rf"|(?P<word>[^\S\n]*+{_QUOTE}*+[\w.-]++{_QUOTE}*+[^\S\n]*+(?:$|[,;}})\]\#])))?",
    re.M,
)
"""The key with a colon or an equals sign, and what kind of value follows."""

_KEY_ALONE = re.compile(
    r"^(?![ \t]*\#\s)[^\w\n]*+private[^\w\n]*+(?:(?:true|yes|on|1|y)\b[^\n]*+)?$", re.M
)
"""The key alone on its line, or with a yes and without a colon."""

_KEY_IN_PROSE = re.compile(
    r"^(?:<!---*+|\{/\*|[ \t_]|\*(?![ \t])|[^\w\s\#+*-])*+"
    rf"private(?:{_QUOTE}|[ \t*_\]])*+[:=]++[*_]*+(?!{_NO})",
    re.M,
)
"""The key at the beginning of a line of prose, emphasized or not, which is no item of a list."""

_KEY_IN_BRACES = re.compile(
    r"^(?:export\b[^\n{]*+)?[ \t\[]*+\{(?:[^\n]*[{,])?"
    rf"[ \t]*+{_QUOTE}*+private{_QUOTE}*+[ \t]*+[:=](?!{_NO})",
    re.M,
)
"""The key in braces that begin a line, alone or behind another one: JSON, or an object of JSX."""

_OPENS = re.compile(r":[ \t]*+(?:[|>][-+0-9]*+)?$")
"""The end of a line below which what is indented belongs to its key."""

_NO_VALUES = frozenset({"", "false", "no", "off", "0", "none", "null"})


def _has_key(block: str) -> bool:
    """Return whether an unparsable block contains the key `private` with any value but no."""
    block = _PROPERTY.sub("", block)
    for match in _KEY_AND_VALUE.finditer(block):
        before = match["before"]
        begins = match.start() == 0 or block[match.start() - 1] == "\n"
        if not (match["no"] or re.search(r"#\s", before)) and (
            begins or match["word"] or any(sign in before for sign in "{[(,;?&*!")
        ):
            return True
    return _KEY_ALONE.search(block) is not None


def _has_top_level_key(block: str) -> bool:
    """Return whether a parsable block has the key `private` with a value at its top level."""
    lines = _PROPERTY.sub("", block).split("\n")[1:]
    stated = (line for line in map(str.lstrip, lines) if line and not line.startswith("#"))
    if next(stated, "").startswith("{"):
        return _has_key(block)
    opened: int | None = None  # how far the key is indented that the lines below it belong to
    for line in lines:
        indent = len(line) - len(line.lstrip())
        # an item belongs to a key that is indented as far
        if opened is not None and indent + line.startswith("-", indent) > opened:
            continue
        is_open = _OPENS.search(line.partition(" #")[0].rstrip())
        opened = len(line) - len(line.lstrip(" \t-")) if is_open else None
        found = _KEY_AND_VALUE.match(line)
        if (
            found
            and not found["before"].strip(" \t\"'`“”‘’?{(-")
            and found["empty"] is None
            and not found["no"]
        ):
            return True
    return False


def _has_field(fields: Mapping[str, Any]) -> bool:
    """Return whether parsed fields, merged ones too, have the key with a value other than no."""
    for key, value in fields.items():
        if key == "<<":
            merged = value if isinstance(value, list) else [value]
            if any(isinstance(each, Mapping) and _has_field(each) for each in merged):
                return True
        if (
            re.sub(r"^\W+|\W+$", "", _plain(_unescaped(key))) == "private"
            and _plain(str(value)).strip() not in _NO_VALUES
        ):
            return True
    return False


# ------------------------------------------------------------------ tags

_TAGS_KEY = re.compile(rf"(?<!\w)tags?(?:{_QUOTE}|[ \t])*+[:=]")
_OTHER_KEY = re.compile(rf"{_QUOTE}*+\w[\w -]*+{_QUOTE}*+[ \t]*+[:=]")
_NAME = re.compile(r"[\w/-]+")
_HASH = re.compile(
    "(?<![^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
    r"(?<![/&\\])"
    r"#(?:\[\[([^\[\]\n|]++)|([\w/#-]++))"
)
"""A tag stands behind anything that is no letter, digit, slash or `&`; Chinese, Japanese, Thai and
others put no space before it.
"""

_SPAN = re.compile(r"(?<![`\\a-z0-9])(`++)[^`\n]++\1(?!`)")
"""A span of code in one line; a backtick behind a letter is an apostrophe."""

_PLACE = re.compile(
    r"\[\[[^\s\[\]|#]*+#(?:[^\[\]\n|#]|(?<!\s)#)*+(?=\||\]\])"  # [[note#heading]]
    r"|(?<!\])\]\([^\s()]*+(?=\)|\s++[\"'(])"  # [text](page.md#heading)
    r"|(?<!\w)href\s*+=\s*+[\"']?#[^\s\"'>]*+"
    r"|\{[ \t]*+:?(?:[ \t]*+[#.][\w:-]++)++[^{}\n#]*+\}"  # what a heading is called by: {#heading}
)
"""What leads to a place in a page, or names one."""


def _tags_in(text: str) -> Iterator[str]:
    """Yield what could be meant as a tag in a text without code."""
    text = _PLACE.sub(" ", _SPAN.sub(" ", text))
    for match in _HASH.finditer(text):
        yield from (match[1] or match[2]).split("#")


def _tags_listed(head: str) -> Iterator[str]:
    """Yield what stands under the key `tags` of a head, whatever comes between."""
    inside = False
    for line in head.split("\n"):
        found = _TAGS_KEY.search(line)
        inside = bool(found) or (inside and not _OTHER_KEY.match(line) and not line[:1].isalnum())
        yield from _NAME.findall(line, found.end() if found else 0) if inside else ()


# ------------------------------------------------------------------ a note


def is_private(
    root: Path,
    path: str,
    settings: CorpusSettings,
    data: bytes | Problem | None = None,
    cache: PathCache | None = None,
) -> bool:
    """Return whether a file is private as it is now: by a glob, under any name that leads to it, or
    by what it says.

    `data` is what was read of it, if it was. A file that cannot be read says nothing. `root` is a
    real path; `cache` saves work for the next path.
    """
    if is_private_by_glob(str(root), path, settings, {} if cache is None else cache):
        return True
    if data is None and path.lower().endswith(settings.extensions):
        data = read_bytes(root, path, settings)
    if not data or isinstance(data, Problem):
        return False
    return is_private_text(path, decode(path, data)[0], settings)


def is_private_text(path: str, text: str, settings: CorpusSettings) -> bool:
    """Return whether a decoded file is marked as private."""
    return has_private_marker(text, read_front_matter(path, strip_invisible(text)), settings)


def has_private_marker(text: str, front: FrontMatter, settings: CorpusSettings) -> bool:
    """Return whether a file with this front matter is marked as private, by its head or a tag."""
    wanted = tuple(filter(None, map(_tag, settings.private.tags)))
    read = front.lines if front.size and not front.problems else 0
    block, rest = map(_plain, map(_unescaped, _cut_after(text, read)))
    if _has_field(front.fields) or any(_is_tag_or_child(tag, wanted) for tag in front.tags):
        return True
    if not any(word in part for word in ("private", *wanted) for part in (block, rest)):
        return False
    heads = [*_head_blocks(rest, late=bool(read))]
    if _has_top_level_key(block):
        return True
    if any(_has_key(head) if fenced else _prose_has_key(head) for head, fenced in heads):
        return True
    listed = (tag for head, _ in ((block, True), *heads) for tag in _tags_listed(head))
    tags = (
        *listed,
        *(tag for head, fenced in ((block, True), *heads) if fenced for tag in _tags_in(head)),
    )
    if any(_is_tag_or_child(tag, wanted) for tag in tags):
        return True
    _, body = _cut_after(text, front.lines)
    # code is looked for only where it matters
    return _body_is_private(body, wanted) and _body_is_private(_without_code(body), wanted)


def _cut_after(text: str, count: int) -> tuple[str, str]:
    """Return the first lines of a text, and the others: to split ten million of them takes more
    memory than all else that is done with a note.
    """
    first = text.split("\n", count)
    return "\n".join(first[:count]), "".join(first[count:])


def _prose_has_key(text: str) -> bool:
    return bool(_KEY_IN_PROSE.search(text) or _KEY_IN_BRACES.search(text))


def _body_is_private(body: str, wanted: tuple[str, ...]) -> bool:
    body = _plain(body)
    return _prose_has_key(_paragraphs_below_fences(body)) or any(
        _is_tag_or_child(tag, wanted) for tag in _tags_in(body)
    )


def _without_code(body: str) -> str:
    """Return a text with blank lines in place of blocks of code between two fences.

    An indented block may be no code: MkDocs indents the text of admonitions and tabs.
    """
    lines = body.split("\n")
    visible = strip_invisible(body)
    code = set(code_lines(visible, fenced=True))
    if visible != body:  # a character that nobody sees may keep a fence from being one
        code.intersection_update(code_lines(body, fenced=True))
    for first, last in code:
        lines[first:last] = [""] * (last - first)
    return "\n".join(lines)


def _is_tag_or_child(tag: str, wanted: tuple[str, ...]) -> bool:
    name = _tag(tag)
    return any(name == each or name.startswith(f"{each}/") for each in wanted)


def _tag(written: str) -> str:
    return _plain(written).lstrip("#").strip("/_- ")
