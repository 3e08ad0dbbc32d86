"""Decide which notes are private: by a glob, by the key `private` in the front matter, or by a tag.

In case of doubt, a note is private. The key and the tags are searched for in the plain text,
because parsers of YAML, TOML and Markdown fail on text that people still understand.
`tests/corpus/private-forms.md` lists all forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.ignore import (
    PathCache,
    equivalent_paths,
    is_private_by_glob,
    matches_private_globs,
)
from thumbindex.corpus.markdown import closed_fence_lines
from thumbindex.corpus.read import decode, read_bytes
from thumbindex.model import Problem
from thumbindex.settings import CorpusSettings
from thumbindex.text import strip_invisible

# ------------------------------------------------------------- normalization

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd\U000e0000-\U000e0fff]+(#?)"
)
"""A run of invisible or undecodable characters, and the `#` after the run, if any."""

_LINE_END = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LOOKALIKES = (("ï»¿", ""), ("i\u0307", "i"), ("ı", "i"), ("∶", ":"), ("꞉", ":"), ("ː", ":"))
"""(text, replacement) for a misread byte order mark, Turkish i and I, and other scripts' colons."""

_HASH_AFTER_SYMBOL = re.compile(
    "#(?<=[\u20a8\u2100-\u214f\u2460-\u24ff\u3200-\u33ff\U0001f100-\U0001f1ff]#)"
)
"""A `#` directly after a symbol that NFKC turns into letters, such as ™."""

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_DASHES = str.maketrans({"—": "--", "–": "-", "‐": "-", "‑": "-", "‒": "-", "−": "-"})
"""Dashes that editors substitute for hyphens."""


def _plain(text: str) -> str:
    """Fold case and width, remove invisible characters, and end lines with line feeds only."""
    if not text.isascii():
        text = _HASH_AFTER_SYMBOL.sub(" #", text)  # still a tag after NFKC
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        for lookalike, plain in _LOOKALIKES:
            text = text.replace(lookalike, plain)
    # after invisible characters, a `#` begins a tag even inside a word
    text = _INVISIBLE.sub(lambda match: " #" if match[1] else "", text)
    return _LINE_END.sub("\n", text).casefold()


def _unescaped(text: str) -> str:
    r"""Replace escapes such as `\x61` and `\u0061` with their characters."""
    return _ESCAPE.sub(
        lambda match: chr(min(int(match[1] or match[2] or match[3], 16), 0x10FFFF)), text
    )


# ------------------------------------------------------------------ possible front matter

_FENCE = re.compile(r"-{3,}|\+{3,}|(?:--|\+\+|;{3,}|\{)[ \t]*+$")
_KEY_LINE = re.compile(r"[\"'“‘{<&! \t]*+\w[\w .-]*+[\"'”’ \t]*+[:=]|[ \t]*+\?")
_CODE = ("```", "~~~")
_CODE_FENCE = re.compile(r" {0,3}(`{3,}+(?!.*`)|~{3,}+)[ \t]*+")
_COMMENTS = {"<!--": "-->", "%%": "%%", "{/*": "*/}"}


def _head_blocks(text: str, below_title: bool) -> Iterator[tuple[str, bool]]:
    """Yield each block that may be meant as front matter, and whether the block is fenced.

    The blocks are the comments and fenced blocks at the start of a text, then the first paragraph.
    """
    lines = text.split("\n")
    position = 0
    open_comments: set[str] = set()  # opening marks of unclosed comments
    while position < len(lines):
        line = lines[position].strip()
        dashed = line.translate(_DASHES)
        fence = _FENCE.match(dashed)
        opening = next((comment for comment in _COMMENTS if line.startswith(comment)), "")
        if opening and opening not in open_comments:
            close = _COMMENTS[opening]
            below = (n for n in range(position + 1, len(lines)) if close in lines[n])
            last = position if close in line[len(opening) :] else next(below, -1)
            if last < 0:
                open_comments.add(opening)
                last = position
            yield "\n".join(lines[position : last + 1]), False
        elif not line or line.startswith(("#", "%", "<!--", "-->")):
            below_title, last = below_title or line.startswith("#"), position
            if line.startswith("%"):
                yield line, False
        elif fence is None:
            if line.startswith(_CODE):
                return
            underline = lines[position + 1].strip() if position + 1 < len(lines) else ""
            is_title = bool(underline) and not (underline.strip("=") and underline.strip("-"))
            ends = (n for n in range(position + 1, len(lines)) if _ends_paragraph(lines[n]))
            last = position if is_title else next(ends, len(lines)) - 1
            yield "\n".join(lines[position : last + 1]), False
            if not is_title and not line.startswith(("import ", "export ")):
                return
            below_title, last = True, last + (is_title and underline.startswith("="))
        elif below_title and not any(
            map(_KEY_LINE.match, (dashed[fence.end() :], _next_line(lines, position)))
        ):
            last = position  # a fence below a title, without a key, is a horizontal rule
        else:
            indent = lines[position][: len(lines[position]) - len(lines[position].lstrip())]
            mark = fence[0].rstrip().replace("{", "}")
            last = position + 1
            while last < len(lines):  # a block without a closing fence extends to the end
                if lines[last].rstrip().translate(_DASHES) in (mark, indent + mark):
                    break
                last += 1
            yield (
                "\n".join(
                    _outside_code(lines[position:last]) if below_title else lines[position:last]
                ),
                True,
            )
            below_title = True
        position = last + 1


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(_CODE) or _FENCE.match(line) is not None


def _next_line(lines: Sequence[str], position: int) -> str:
    return next((lines[n] for n in range(position + 1, len(lines)) if lines[n].strip()), "")


def _outside_code(lines: Sequence[str]) -> list[str]:
    """Return the lines that are outside closed code blocks."""
    outside: list[str] = []
    opened, mark = -1, ""  # start of the open code block in `outside`, and its fence
    for line in lines:
        outside.append(line)
        fence = _CODE_FENCE.match(line)
        if fence and opened < 0:
            opened, mark = len(outside) - 1, fence[1]
        elif fence and fence[1].startswith(mark) and fence.end() == len(line):
            del outside[opened:]
            opened = -1
    return outside


def _paragraphs_below_fences(text: str) -> str:
    """Return the paragraphs directly below any `---` or `+++` line. Other lines become blank."""
    paragraphs, is_below = [""], False
    for line in text.split("\n"):
        fence = line.strip() in ("---", "+++")
        is_below = fence or (is_below and bool(line.strip()))
        paragraphs.append(line if is_below and not fence else "")
    return "\n".join(paragraphs)


# ------------------------------------------------------------------ the key

_QUOTE = "[\"'`“”‘’]"
_NO = (
    rf"[^\S\n]*+{_QUOTE}*+(?:no|false|off|0|none|null|~){_QUOTE}*+"
    rf"(?:[^\S\n]*+[,;}})\]]*+[^\S\n]*+(?:(?:-->|%%|\*/\}})[^\S\n]*+)?$"
    r"(?!\n[ \t]++(?:[^\s\#:=]++[ \t]++[^\s:=]|\w[^\s\#:=]*+[ \t]*+$))"
    r"|[^\S\n]++\#"
    rf"|(?=[^\S\n]*+,[^\S\n]*+{_QUOTE}*+[\w-]++{_QUOTE}*+[^\S\n]*+[:=]))"
)
"""A value that means no, followed at most by a comment, a bracket or another key."""

_PROPERTY = re.compile(r"(?:^|(?<=[\s{\[,]))[&!](?!private\b)[^\s,{}\[\]]*+[ \t]++", re.M)
"""A YAML anchor (`&name`) or a type tag (`!!str`) before a key or value."""

_KEY_AND_VALUE = re.compile(
    r"(?<![^\w\n])(?P<before>[^\w\n]*+)(?<!\w)private(?!\w)[^\w\n:=]*+(?:\n[^\w\n:=]*+)?[:=]++"
    rf"(?:(?P<no>{_NO})"
    rf"|(?P<empty>[^\S\n]*+{_QUOTE}*+[^\S\n]*+(?:\#(?!\S)[^\n]*+)?$)"
    rf"|(?P<word>[^\S\n]*+{_QUOTE}*+[\w.-]++{_QUOTE}*+[^\S\n]*+(?:$|[,;}})\]\#])))?",
    re.M,
)
"""The key, a `:` or `=`, and the value in one of the named groups `no`, `empty` and `word`."""

_KEY_ALONE = re.compile(
    r"^(?![ \t]*\#\s)[^\w\n]*+private[^\w\n]*+(?:(?:true|yes|on|1|y)\b[^\n]*+)?$", re.M
)
"""A line with only the key, or with the key and a yes: `private`, `private true`."""

_KEY_IN_PROSE = re.compile(
    r"^(?:<!---*+|\{/\*|[ \t_]|\*(?![ \t])|[^\w\s\#+*-])*+"
    rf"private(?:{_QUOTE}|[ \t*_\]])*+[:=]++[*_]*+(?!{_NO})",
    re.M,
)
"""A line of prose (not a list item) that begins with the key: `**private**: yes`."""

_KEY_IN_BRACES = re.compile(
    r"^(?:export\b[^\n{]*+)?[ \t\[]*+\{(?:[^\n]*[{,])?"
    rf"[ \t]*+{_QUOTE}*+private{_QUOTE}*+[ \t]*+[:=](?!{_NO})",
    re.M,
)
"""A line that begins an object and has the key in it: `{"id": 1, "private": true}`."""

_KEY_ON_LINE = re.compile(r"(?<!\w)private(?!\w)[^\w\n:=]*+[:=]")

_OPENS = re.compile(r":[ \t]*+(?:[|>][-+0-9]*+)?$")
"""The end of a line whose value is on the lines below: `key:`, `key: |`."""

_NO_VALUES = frozenset({"", "false", "no", "off", "0", "none", "null"})


def _has_key(block: str) -> bool:
    """Return whether an invalid block has a `private` key whose value does not mean no."""
    block = _PROPERTY.sub("", block)
    for match in _KEY_AND_VALUE.finditer(block):
        before = match["before"]
        begins = match.start() == 0 or block[match.start() - 1] == "\n"
        if not (match["no"] or re.search(r"#\s", before)) and (
            begins or match["word"] or any(character in before for character in "{[(,;?&*!")
        ):
            return True
    return _KEY_ALONE.search(block) is not None


def _has_top_level_key(block: str) -> bool:
    """Return whether a valid block has a top-level `private` key whose value does not mean no."""
    lines = _PROPERTY.sub("", block).split("\n")[1:]
    content_lines = (line for line in map(str.lstrip, lines) if line and not line.startswith("#"))
    if next(content_lines, "").startswith("{"):
        return _has_key(block)
    open_indent: int | None = None  # indentation of the key whose value is the next lines
    for line in lines:
        indent = len(line) - len(line.lstrip())
        # a list item may be indented as far as its key
        if open_indent is not None and indent + line.startswith("-", indent) > open_indent:
            continue
        is_open = _OPENS.search(line.partition(" #")[0].rstrip())
        open_indent = len(line) - len(line.lstrip(" \t-")) if is_open else None
        match = _KEY_AND_VALUE.match(line)
        if (
            match
            and not match["before"].strip(" \t\"'`“”‘’?{(-")
            and match["empty"] is None
            and not match["no"]
        ):
            return True
    return False


def _has_field(fields: Mapping[str, Any]) -> bool:
    """Return whether parsed fields have a `private` key whose value does not mean no.

    Fields that YAML merges with `<<` are searched too.
    """
    for key, value in fields.items():
        if key == "<<":
            merged = value if isinstance(value, list) else [value]
            if any(isinstance(mapping, Mapping) and _has_field(mapping) for mapping in merged):
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
    # not after a letter or digit, except in scripts without spaces between words
    "#(?<![^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]#)"
    r"(?<![/&\\]#)"
    r"(?:\[\[([^\[\]\n|]++)|([\w/#-]++))"
)
"""A tag that does not begin inside a word, path, escape or entity: `#private`, `#[[private]]`."""

# a backtick after a letter is an apostrophe
_CODE_SPAN = re.compile(r"`(?<![`\\a-z0-9]`)(`*+)[^`\n]++`\1(?!`)")

_LINK_OR_ANCHOR = re.compile(
    r"\[\[[^\s\[\]|#]*+#(?:[^\[\]\n|#]|(?<!\s)#)*+(?=\||\]\])"  # [[note#heading]]
    r"|\](?<!\]\])\([^\s()]*+(?=\)|\s++[\"'(])"  # [text](page.md#heading)
    r"|h(?<!\wh)ref\s*+=\s*+[\"']?#[^\s\"'>]*+"
    r"|\{[ \t]*+:?(?:[ \t]*+[#.][\w:-]++)++[^{}\n#]*+\}"  # an anchor: {#heading}
)
"""A link to a heading or an anchor, or an anchor itself. A `#` in these does not begin a tag."""


def _tags_in(text: str) -> Iterator[str]:
    """Yield possible tags in `text`, outside code spans."""
    text = _LINK_OR_ANCHOR.sub(" ", _CODE_SPAN.sub(" ", text))
    for match in _HASH.finditer(text):
        yield from (match[1] or match[2]).split("#")


def _tags_listed(head: str) -> Iterator[str]:
    """Yield possible tags under the key `tags` or `tag` of the block `head`."""
    inside = False
    for line in head.split("\n"):
        match = _TAGS_KEY.search(line)
        inside = bool(match) or (inside and not _OTHER_KEY.match(line) and not line[:1].isalnum())
        yield from _NAME.findall(line, match.end() if match else 0) if inside else ()


# ------------------------------------------------------------------ a note


def is_private(
    root: Path,
    path: str,
    settings: CorpusSettings,
    data: bytes | Problem | None = None,
    cache: PathCache | None = None,
) -> bool:
    """Return whether a file is private now, because of a glob or its content.

    A private glob may match any of the paths to the file. `data` is the content of the file. If
    `data` is omitted, the file is read. If the file cannot be read, only the globs decide. `root`
    is a real path. `cache` is shared between calls.
    """
    if is_private_by_glob(str(root), path, settings, {} if cache is None else cache):
        return True
    if data is None and path.lower().endswith(settings.extensions):
        data = read_bytes(root, path, settings)
    if not data or isinstance(data, Problem):
        return False
    return is_private_text(path, decode(path, data)[0], settings)


def is_private_text(path: str, text: str, settings: CorpusSettings) -> bool:
    """Return whether a file's text marks it as private."""
    return bool(private_marker(text, read_front_matter(path, strip_invisible(text)), settings))


def why_private(
    root: Path, path: str, settings: CorpusSettings, cache: PathCache
) -> tuple[str, int] | None:
    """Return why `is_private` hides a file, and the marker's line; None for a public file.

    The line is 0 if it is unknown. `cache` is shared between calls.
    """
    if is_private_by_glob(str(root), path, settings, cache):
        names = equivalent_paths(str(root), path, cache)
        globs = (
            glob
            for glob in settings.private.globs
            if any(matches_private_globs(name, (glob,)) for name in names)
        )
        return f"the glob {next(globs, settings.private.globs[0])}", 0
    data = read_bytes(root, path, settings)
    if not data or isinstance(data, Problem):
        return None
    text = decode(path, data)[0]
    front = read_front_matter(path, strip_invisible(text))
    marker = private_marker(text, front, settings)
    return (marker, _marker_line(text, front, marker)) if marker else None


def _marker_line(text: str, front: FrontMatter, marker: str) -> int:
    """Return the first line with a marker outside code, or 0."""
    head, body = _cut_after(text, front.lines)
    lines = [*head.split("\n")[: front.lines], *_without_code(body).split("\n")]
    for number, line in enumerate(map(_plain, map(_unescaped, lines)), 1):
        if marker == _KEY_MARKER:
            is_marked = bool(_KEY_ON_LINE.search(line) or _KEY_ALONE.search(line))
        else:
            tags = [*_tags_in(line), *(_NAME.findall(line) if number <= front.lines else ())]
            is_marked = any(marker == _TAG_MARKER + _tag(tag) for tag in tags)
        if is_marked:
            return number
    return 0


_KEY_MARKER, _TAG_MARKER = "the key `private`", "the tag #"


def private_marker(text: str, front: FrontMatter, settings: CorpusSettings) -> str:
    """Return the key or tag that marks a file as private, or ""."""
    private_tags = tuple(filter(None, map(_tag, settings.private.tags)))
    head_lines = front.lines if front.size and not front.problems else 0
    block, remainder = map(_plain, map(_unescaped, _cut_after(text, head_lines)))
    if _has_field(front.fields):
        return _KEY_MARKER
    if marker := _tag_marker(front.tags, private_tags):
        return marker
    if not any(word in part for word in ("private", *private_tags) for part in (block, remainder)):
        return ""
    heads = [*_head_blocks(remainder, below_title=bool(head_lines))]
    if _has_top_level_key(block):
        return _KEY_MARKER
    if any(_has_key(head) if fenced else _prose_has_key(head) for head, fenced in heads):
        return _KEY_MARKER
    listed_tags = (tag for head, _ in ((block, True), *heads) for tag in _tags_listed(head))
    tags = (
        *listed_tags,
        *(tag for head, fenced in ((block, True), *heads) if fenced for tag in _tags_in(head)),
    )
    if marker := _tag_marker(tags, private_tags):
        return marker
    _, body = _cut_after(text, front.lines)
    # finding code is slow, so the body is first searched with its code
    return _body_marker(body, private_tags) and _body_marker(_without_code(body), private_tags)


def _cut_after(text: str, count: int) -> tuple[str, str]:
    """Split a text after `count` lines."""
    first = text.split("\n", count)
    return "\n".join(first[:count]), "".join(first[count:])


def _prose_has_key(text: str) -> bool:
    return bool(_KEY_IN_PROSE.search(text) or _KEY_IN_BRACES.search(text))


def _body_marker(body: str, private_tags: tuple[str, ...]) -> str:
    body = _plain(body)
    if _prose_has_key(_paragraphs_below_fences(body)):
        return _KEY_MARKER
    return _tag_marker(_tags_in(body), private_tags)


def _without_code(body: str) -> str:
    """Replace closed fenced code blocks with blank lines.

    Indented blocks are kept, because MkDocs indents the text of admonitions and tabs.
    """
    lines = body.split("\n")
    visible = strip_invisible(body)
    code = set(closed_fence_lines(visible))
    if visible != body:  # an invisible character may invalidate a fence
        code.intersection_update(closed_fence_lines(body))
    for first, last in code:
        lines[first:last] = [""] * (last - first)
    return "\n".join(lines)


def _tag_marker(names: Iterable[str], private_tags: tuple[str, ...]) -> str:
    """Return the first name that is a private tag or a nested tag below it, as a marker."""
    for name in map(_tag, names):
        if any(name == parent or name.startswith(f"{parent}/") for parent in private_tags):
            return _TAG_MARKER + name
    return ""


def _tag(tag: str) -> str:
    return _plain(tag).lstrip("#").strip("/_- ")
