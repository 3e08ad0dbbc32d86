"""Normalize text for search and display: words, identifiers, citations, URIs."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote, unquote

STOP_WORDS = frozenset(
    "a an the of to in on for and or is are be was were it its this that these those with as by at "
    "from how do does can i my me we you"
    " your what which when why where who if not no there has have had will would should could into "
    "about than then so but any all did been may might must much many most us our they them".split()
)
"""English function words. In a query with other words, they are ignored unless quoted."""

WORD_CACHE_SIZE = 1 << 14
"""Entries in each cache that maps a word to a result. Four times as many would take 90 MB."""

_LINE_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""A run of control characters, Unicode line breaks and direction marks."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""A control character, which could move the cursor or rename the terminal window."""

CJK = (
    # iteration marks, kana, the long vowel; no middle dot
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7af"  # Korean syllables
    # Thai, Lao, Burmese and Khmer, without digits and punctuation
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"
)
"""Letters of Chinese, Japanese and Korean, and of other scripts without spaces between words."""

_PASSWORDS = (
    # up to the last @: a password may contain an unescaped one
    re.compile(r"(\bpostgres(?:ql)?://)\S*(?=@)", re.I),
    re.compile(r"(\b(?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&'\"`]+)", re.I),
)
"""Patterns of a password in a connection string: `postgres://me:secret@`, `password=secret`."""

_PIECE = re.compile(rf"(?P<run>[{CJK}]+)|[^{CJK}]+")
_CJK_RUN = re.compile(rf"[{CJK}]+")
_IGNORED = "\u00ad\u034f\u180b-\u180f\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Characters inside words that do not count: soft hyphens, joiners, variation selectors."""

_NON_JOINER = "\u200c(?![\u0600-\u06ff])"  # in Persian, it ends a part of a word
_WIDE = "\u2e80-\u2fdf\uff01-\uffef"  # half-width, full-width and radical forms
_APOSTROPHES = "‘´ʻʼ׳"  # Hawai‘i, O´Brien, Hawaiʻi, обʼєкт, ג׳ירפה
_MAY_VARY = re.compile(f"[{_IGNORED}{_WIDE}{_APOSTROPHES}\u200c]")
_VARIANTS = re.compile(
    f"(?P<ignored>[{_IGNORED}]|{_NON_JOINER})|(?P<apostrophe>[{_APOSTROPHES}])|[{_WIDE}]+"
)
_ASCII_WORD = re.compile(r"[A-Za-z0-9]++(?:'[A-Za-z0-9]++)*+")
_POSSESSIVE = re.compile(r"(?<=[^\W_])'s(?!'?[^\W_])")  # as _without_possessive does
_CODE_TOKEN = (
    r"--?[A-Za-z][\w-]*"  # --flags
    # dotted.names, kebab-case, a/path, a::b
    r"|[A-Za-z_@$][\w$]*+(?:(?:\.|::|->|-|/)[A-Za-z_$][\w$]*+)++(?:\(\))?"
    r"|v?\d+(?:\.\d+)+(?:[-+.]?[A-Za-z0-9]+)*"  # versions
    r"|[^\W\d][\w$]*%s|\$[\w$]+"  # names
    r"|\d[\w]*"
)
# most words are plain: they end before anything that continues a token
_CODE = re.compile(rf"[A-Za-z]++(?![\w$.:/-])|{_CODE_TOKEN % ''}", re.ASCII)
_MARK_RANGES = (
    *((0x300, 0x3100), (0xA66F, 0xAC00), (0xFB1E, 0xFB1F), (0xFE20, 0xFE30)),
    *((0x101FD, 0x1037B), (0x10A01, 0x12000), (0x16AF0, 0x17000), (0x1BC9D, 0x1E94B)),
)
"""Ranges of characters that contain all combining marks, for speed."""


@lru_cache(maxsize=1)
def combining_mark() -> str:
    """Return the pattern of a combining mark of any script, such as a vowel sign.

    The marks are collected when they are first needed, because that takes milliseconds.
    """
    characters = [chr(code) for block in _MARK_RANGES for code in range(*block)]
    marks = [c for c in characters if unicodedata.category(c) in ("Mn", "Mc")]
    frequent = "".join(c for c in marks if c < "\U00010000")
    rare = "".join(c for c in marks if c >= "\U00010000")
    # `re` takes long for characters that are not in a class with many rare ones
    return rf"(?:[{frequent}]|(?=[\U00010000-\U0001ffff])[{rare}])"


@lru_cache(maxsize=1)
def tag_name() -> str:
    """Return the pattern of a tag without its `#`: letters, digits, `_-/`, marks and emoji."""
    emoji = r"\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u200d"
    return rf"(?:[\w/\-{emoji}]|{combining_mark()})+"


@lru_cache(maxsize=1)
def _marked_word() -> re.Pattern[str]:
    """Return the pattern of a word with marks, outside the scripts of `CJK`."""
    inside = rf"[{_IGNORED}]|{_NON_JOINER}|['’{_APOSTROPHES}](?=[^\W_])|{combining_mark()}"
    return re.compile(rf"[^\W_]+(?:(?:{inside})+[^\W_]*)*")


@lru_cache(maxsize=1)
def _marked_code() -> re.Pattern[str]:
    return re.compile(_CODE_TOKEN % rf"(?:{combining_mark()}+[\w$]*)*")


_VERSION = re.compile(r"v?\d+\.\d")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_SHAPE = re.compile(
    r"^--?[A-Za-z]|[a-z\d][A-Z]|[A-Z]{2}[a-z]|\w_\w|\w\.\w|::|->|\(\)$"
    r"|^v?\d+(?:\.\d+)+|^[A-Z]+[-_]?\d+$|^[A-Z]{2,}_"
)

_MIN_PLURAL_LETTERS = 4
"""Minimum length of a word whose plural ending is removed."""

_PLURAL_ENDING = re.compile(r"(?<=[^aeiou])ies$|(?<=ss|ch|sh)es$|(?<=x)es$|(?<=[^suio])s$")

_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i"}
    | {"ک": "ك", "ی": "ي", "ى": "ي", "ٱ": "ا"}  # Persian and Arabic keyboards differ
)
"""Letters that Unicode does not decompose, and their usual form."""

_OTHER_DIGIT = re.compile(r"[^\x00-\x7f\D]")
_OPTIONAL = re.compile(
    f"[{_IGNORED}"
    "\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    # Arabic points and the tatweel, which stretches a word
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0898-\u089f\u08ca-\u08e1\u08e3-\u08ff"
    "\u0711\u0730-\u074a\u07eb-\u07f3\u093c\u0951-\u0954\u135d-\u135f"  # and of other scripts
    "]+"
)
"""Marks that a word may be written without. Vowel signs and dakuten make another word."""


def fold_line(text: str) -> str:
    """Fold case, accents, digits and compatibility forms of a name, path or line."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", _fold_letters(text))


def _fold_letters(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).casefold().translate(_LETTERS)
    letters = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), letters)
    # й is a letter of its own, not и with an accent
    return _OPTIONAL.sub("", letters.replace("и\u0306", "й"))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def fold(word: str) -> str:
    """Fold a word as `fold_line` does; the most recent words are cached."""
    return fold_line(word)


_REMOVE_ASCII_SIGNS = {
    code: None for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"
}
_NON_WORDS = re.compile(r"[^\w\n]+")


def name_key(name: str) -> str:
    """Return the folded letters and digits of a name, to compare it with other names."""
    return name_keys([name])[0]


def name_keys(names: Sequence[str]) -> list[str]:
    """Return the `name_key` of each name, ten times faster than with separate calls."""
    if not names:
        return []
    lines = "\n".join(name.replace("\n", " ") for name in names)
    if lines.isascii():
        return lines.lower().translate(_REMOVE_ASCII_SIGNS).split("\n")
    lines = _fold_letters(lines).translate(_REMOVE_ASCII_SIGNS)
    return unicodedata.normalize("NFC", _NON_WORDS.sub(_combining_marks, lines)).split("\n")


def _combining_marks(signs: re.Match[str]) -> str:
    return "".join(c for c in signs[0] if unicodedata.category(c) in ("Mn", "Mc"))


def normalize_letters(text: str) -> str:
    """Return a text in NFC, in the usual width, and without characters that do not count."""
    if text.isascii():
        return text
    if _MAY_VARY.search(text):
        text = _VARIANTS.sub(_usual, text)
    return unicodedata.normalize("NFC", text)


def _usual(variant: re.Match[str]) -> str:
    if variant["ignored"]:
        return ""
    return "’" if variant["apostrophe"] else unicodedata.normalize("NFKC", variant[0])


def words(text: str) -> list[str]:
    """Return the folded words of a text in order. CJK runs become overlapping character pairs."""
    text = normalize_letters(text)
    if has_cjk(text):
        return [
            word
            for piece in _PIECE.finditer(text)
            for word in (_pairs(piece[0]) if piece["run"] else _marked_words(piece[0]))
        ]
    if text.isascii():
        return _ASCII_WORD.findall((_POSSESSIVE.sub("", text) if "'s" in text else text).lower())
    return _marked_words(text)


def _marked_words(text: str) -> list[str]:
    matches = _marked_word().findall(text)
    if "'" in text or "’" in text:
        matches = [_without_possessive(word) for word in matches]
    return [word.lower() if word.isascii() else fold(word) for word in matches]


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


@lru_cache(maxsize=WORD_CACHE_SIZE)
def form_key(text: str) -> str:
    """Return a name's folded words without the plural ending of the last word."""
    parts = words(text)
    if parts and len(parts[-1]) >= _MIN_PLURAL_LETTERS:
        parts[-1] = _PLURAL_ENDING.sub(lambda match: "y" if match[0] == "ies" else "", parts[-1])
    return " ".join(parts)


def words_with_positions(text: str) -> tuple[list[str], Sequence[int]]:
    """Return the words to index and their positions.

    Each character of a CJK pair is a word too, at the position of the pair.
    """
    indexed = words(text)
    if text.isascii() or not any(map(has_cjk, indexed)):
        return indexed, range(len(indexed))
    entries = [
        (character, position)
        for position, pair in enumerate(zip(indexed, (*indexed[1:], ""), strict=True))
        for character in _with_characters(*pair)
    ]
    return [word for word, _ in entries], [position for _, position in entries]


def word_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word that `words` returns, with its start and end offset in the text."""
    for match in _raw_words(text):
        parts, is_split = _split_raw_word(match[0])
        start, end = match.span()
        for at, word in enumerate(parts):
            yield (word, start + at, start + at + len(word)) if is_split else (word, start, end)


def _raw_words(text: str) -> Iterator[re.Match[str]]:
    if text.isascii():
        return _ASCII_WORD.finditer(text)
    return chain.from_iterable(
        (piece,) if piece["run"] else _marked_word().finditer(text, *piece.span())
        for piece in _PIECE.finditer(text)
    )


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _split_raw_word(text: str) -> tuple[tuple[str, ...], bool]:
    """Split a text that has no spaces into words. The flag is True if the words are CJK pairs."""
    parts = tuple(words(text))
    return parts, has_cjk(text) and len(parts) == max(1, len(text) - 1)


def _with_characters(word: str, following: str) -> tuple[str, ...]:
    """Return a word and, if the word is a CJK pair, the characters of the pair.

    The second character is left out if the next word, `following`, begins with it.
    """
    if len(word) == 1 or not has_cjk(word):
        return (word,)
    # if the next word begins with the second character, the character is returned there
    return (word, word[0], *(() if following.startswith(word[1]) else word[1]))


def has_cjk(text: str) -> bool:
    """Return whether a text contains letters of `CJK`."""
    return not text.isascii() and _CJK_RUN.search(text) is not None


def space_cjk(text: str) -> str:
    """Return a text with spaces around its runs of letters of `CJK`."""
    text = normalize_letters(text)
    return _CJK_RUN.sub(r" \g<0> ", text) if has_cjk(text) else text


def _without_possessive(word: str) -> str:
    return word.replace("’", "'").removesuffix("'s")


def split_identifier(identifier: str) -> list[str]:
    """Return the folded parts of an identifier.

    `HTTPResponse` gives http, response; `parse_json` gives parse, json.
    """
    return [fold(part) for part in _CAMEL.findall(identifier)]


def looks_like_code(token: str) -> bool:
    """Return whether a token looks like an identifier, flag, dotted name, error code or version."""
    return bool(_SHAPE.search(token))


def identifiers(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the folded words and code-like tokens of a text in order, each with its parts.

    A plain word has no parts, and is spelled as in the result of `words`.
    """
    return [identifier for token in code_tokens(text) for identifier in token_parts(token)]


def code_tokens(text: str) -> list[str]:
    """Return the words of a text in order, unfolded. Code-like tokens such as paths stay whole."""
    pattern = _CODE if text.isascii() else _marked_code()
    tokens: list[str] = pattern.findall(space_cjk(text))
    return tokens


def token_parts(token: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the folded names in a token (usually one), each with its parts."""
    if not token.isascii():
        return tuple((word, ()) for word in words(token))
    if token.isalpha() and token[1:].islower():
        return ((token.lower(), ()),)
    if _VERSION.match(token):
        return ((fold(token.removeprefix("v")), ()),)  # parts of a version mean nothing alone
    if looks_like_code(token) or "-" in token[1:] or "/" in token:
        parts = tuple(split_identifier(token))
        return (
            (
                fold(token.removesuffix("()")),
                parts if len(parts) > 1 or parts[:1] != (fold(token),) else (),
            ),
        )
    return ((fold(token), ()),)


def text_key(text: str) -> bytes:
    """Return the digest that identifies a text in the vector cache and in stored decisions."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# ------------------------------------------------------------------ invisible characters

MAY_BE_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)

INVISIBLE = re.compile(
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e007a]{2,8}\U000e007f)"  # England, Scotland, Wales
    # tag characters, which no font shows
    "|(?P<tags>[\U000e0000-\U000e007f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]+)"
    "|(?P<selectors>[\ufe00-\ufe0f\U000e0100-\U000e01ef]+)"
    "|(?P<turned>[\u202d\u202e]+)"  # direction overrides
    "|(?P<joined>[\u200b-\u200d\u2060-\u2064\ufeff]+)"
    "|(?P<rest>[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u180e\u202a-\u202c\u2065-\u206f])"
)

MAX_JOINERS = 3
"""No writing system has more selectors or joiners in a row. A longer run hides text."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
    "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
"""A letter of Thai, Khmer or another script in which a zero-width space ends a word."""

_DIRECTION_CONTEXT = 100
"""Characters on each side of a direction mark that are searched for right-to-left letters."""

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


def strip_invisible(text: str) -> str:
    """Remove invisible characters that no emoji or writing system needs."""
    if text.isascii() and text.isprintable():
        return text
    return INVISIBLE.sub(_required_characters, text) if MAY_BE_INVISIBLE.search(text) else text


def _required_characters(match: re.Match[str]) -> str:
    characters, kind, text = match[0], match.lastgroup, match.string
    if kind == "flag":
        return characters
    if kind == "selectors":
        return characters[0] if characters[0] < "\U000e0100" or len(characters) == 1 else ""
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    # needed between joining letters; a zero-width space ends a word in unspaced scripts
    if kind == "joined":
        if len(characters) > MAX_JOINERS or characters[0] in "\u2060\u2061\u2062\u2063\u2064\ufeff":
            return ""
        if characters[0] == "\u200b":
            return characters[0] if _UNSPACED.match(before) or _UNSPACED.match(after) else ""
        return characters[0] if before and not (before.isascii() or before.isspace()) else ""
    if kind == "rest" and characters in "\u202a\u202b\u202c\u2066\u2067\u2068\u2069":
        if _RIGHT_TO_LEFT.search(
            text, max(0, match.start() - _DIRECTION_CONTEXT), match.end() + _DIRECTION_CONTEXT
        ):
            return characters
        return ""
    return ""


# ------------------------------------------------------------------ characters

_EXTENDING = re.compile(
    "[\u200c\u200d"  # joiners
    "\u1160-\u11ff\ud7b0-\ud7ff\udc00-\udfff"  # ends of Korean syllables, low surrogates
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"  # parts of emoji
)
_VIRAMA = 9  # combining class of the sign that joins two letters in the scripts of India
_MAX_CHARACTER = 40  # a character of more code points may be cut


def character_start(text: str, start: int, offset: int) -> int:
    """Return the last offset up to `offset` that is not inside a character as users see it."""
    if text.isascii():
        return offset
    earliest = max(start, offset - _MAX_CHARACTER)
    offsets = range(offset, earliest, -1)
    return next((cut for cut in offsets if not _is_in_character(text, start, cut)), offset)


def _is_in_character(text: str, start: int, offset: int) -> bool:
    before, after = text[offset - 1], text[offset]
    if unicodedata.category(after)[0] == "M" or _EXTENDING.match(after):
        return True
    if before == "\u200d" or unicodedata.combining(before) == _VIRAMA:
        return True
    before_flag = offset
    while before_flag > start and "\U0001f1e6" <= text[before_flag - 1] <= "\U0001f1ff":
        before_flag -= 1
    is_flag_letter = "\U0001f1e6" <= after <= "\U0001f1ff"
    return is_flag_letter and (offset - before_flag) % 2 == 1


# ------------------------------------------------------------------ text for display


_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace surrogates (undecodable bytes) with U+FFFD, so that UTF-8 can encode the text."""
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Return a name, heading or reason on one line, without invisible or direction characters."""
    if text.isascii() and text.isprintable():
        return text
    return strip_invisible(_LINE_BREAKS.sub(" ", text))


def printable_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return strip_controls(one_line(text))


def strip_controls(text: str) -> str:
    """Return a text without control characters; line breaks and tabs stay."""
    return _CONTROL.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8"))


def escape_breaks(text: str) -> str:
    """Escape line breaks, control characters and direction marks as in JSON."""
    return _LINE_BREAKS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def redact_passwords(text: str) -> str:
    """Remove user names and passwords from the database connection strings in a message."""
    for pattern in _PASSWORDS:
        text = pattern.sub(r"\1…", text)
    return text


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: `1 note`, `2,000 notes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_IN_BACKTICKS = re.compile(r"`[^`]*+`")


def wrap_words(text: str, columns: int) -> str:
    """Break a line between words, but never inside `code`, which is there to be copied."""
    if len(text) <= columns:
        return text
    whole = _IN_BACKTICKS.sub(lambda code: code[0].replace(" ", "\0"), text)
    indent = whole[: len(whole) - len(whole.lstrip())]
    rows = textwrap.wrap(
        whole, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(rows).replace("\0", " ")


def line_range(first: int, last: int) -> str:
    """Return `line 11` or `lines 11-14`."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


class Lines(NamedTuple):
    """A range of lines, from 1. It may begin at a character of its first line, also from 1."""

    first: int
    last: int
    character: int = 1

    @property
    def first_place(self) -> int | str:
        """The first line, as `3:2001` if the range begins inside that line."""
        return self.first if self.character == 1 else f"{self.first}:{self.character}"


_CITATION = re.compile(r"(.+?) \(lines? ([1-9]\d{0,8})()(?:[-–]([1-9]\d{0,8}))?\)", re.S)
_PLACE = re.compile(
    r"(.+\.\w+)(?::|\(|,? lines? )([1-9]\d{0,8})"
    r"(?:[:,]([1-9]\d{0,8}))?(?:[-–]([1-9]\d{0,8})(?::\d{1,9})?)?[:)]?",
    re.S,
)
"""A place as editors and compilers write it: `x.md:11`, `x.md:11:5-14:1`, `x.md(11,5)`."""


def parse_citation(citation: str) -> tuple[str, Lines | None]:
    """Split `x.md#Heading (lines 11-14)`, `x.md:11` or `x.md:11:5` into a name and lines.

    The lines are None if the citation has none.
    """
    match = _CITATION.fullmatch(citation) or _PLACE.fullmatch(citation)
    if match is None or int(match[4] or match[2]) < int(match[2]):
        return citation, None
    return match[1], Lines(int(match[2]), int(match[4] or match[2]), int(match[3] or 1))


# ------------------------------------------------------------------ addresses

SCHEME = "thumbindex://"

_DIGEST_LENGTH = 8
"""Hex digits of a text's digest in the URI of a passage or the id of a query."""

_DIGEST_PARAMETER = "is="

_PLAIN_IN_HEADINGS = "/:@,;=$+!*&"
"""Punctuation that is not percent-encoded in the heading of a URI.

Quotes and brackets are encoded, because they would end a URI in prose.
"""


class PassageAddress(NamedTuple):
    """The parts of the URI of a note or passage.

    For a passage, `digest` is that of its text. For a note, `heading` and `digest` are empty.
    """

    folder: str
    path: str
    heading: str = ""
    digest: str = ""


def text_digest(text: str) -> str:
    """Return the short digest of a text."""
    return text_key(text).hex()[:_DIGEST_LENGTH]


def query_id(query: str) -> str:
    """Return a digest of a query, ignoring case and spacing."""
    return text_digest(" ".join(query.casefold().split()))


def format_address(folder: str, path: str, heading: str = "", digest: str = "") -> str:
    """Return a URI such as `thumbindex://notes/plans.md?is=1a2b3c4d#Budget`."""
    base = f"{SCHEME}{quote(folder, safe='')}/{quote(path, safe='/')}"
    query = f"?{_DIGEST_PARAMETER}{digest}" if digest else ""
    fragment = f"#{quote(one_line(heading), safe=_PLAIN_IN_HEADINGS)}" if heading else ""
    return f"{base}{query}{fragment}"


def parse_address(address: str) -> PassageAddress | None:
    """Parse `address`; return None if it is not a `thumbindex://` URI with a folder and a path."""
    base, _, heading = address.removeprefix(SCHEME).partition("#")
    location, _, query = base.partition("?")
    folder, _, path = location.partition("/")
    if not address.startswith(SCHEME) or not folder or not path:
        return None
    digest = next(
        (
            part.removeprefix(_DIGEST_PARAMETER)
            for part in query.split("&")
            if part.startswith(_DIGEST_PARAMETER)
        ),
        "",
    )
    return PassageAddress(unquote(folder), unquote(path), unquote(heading), digest)
