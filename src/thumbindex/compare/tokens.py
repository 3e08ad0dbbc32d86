"""Tokenize a text for comparison: words, numbers, dates, names, negations, code and symbols."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape

from thumbindex.dates import find_dates
from thumbindex.language import FUNCTION_WORDS, language_of
from thumbindex.text import CJK, STOP_WORDS, fold, looks_like_code
from thumbindex.visible_text import strip_markup

_NEGATION_WORDS = {
    "en": (
        "not cannot no none never neither nor nothing nobody nowhere without except excluding "
        "unless only hardly rarely seldom"
    ),
    "de": "nicht nichts kein keine keinen keinem keiner keines keinerlei keinesfalls keineswegs "
    "nie niemals niemand niemanden niemandem nirgends"
    " nirgendwo ohne weder außer ausgenommen nur kaum selten",
    "fr": (
        "ne pas jamais rien aucun aucune nul nulle sans sauf excepté hormis guère seulement "
        "uniquement rarement"
    ),
    "es": (
        "no nunca jamás nada nadie ningún ninguno ninguna ningunos ningunas tampoco sin excepto "
        "salvo sólo solo solamente únicamente apenas"
    ),
    "it": (
        "non no né niente nulla nessun nessuno nessuna neanche nemmeno neppure senza tranne "
        "eccetto salvo solo soltanto solamente raramente"
    ),
    "pt": (
        "não nunca jamais nada ninguém nenhum nenhuma nenhuns nenhumas nem tampouco sem exceto "
        "salvo só somente apenas raramente"
    ),
    "nl": (
        "niet niets geen nooit niemand nergens zonder behalve tenzij alleen slechts nauwelijks "
        "zelden"
    ),
    "sv": (
        "inte icke ej aldrig ingen inget inga ingenting ingenstans varken utan förutom bara "
        "endast enbart knappt sällan"
    ),
    "da": "ikke ej aldrig ingen intet ingenting ingensteder hverken uden undtagen kun sjældent",
    "pl": (
        "nie nigdy nikt nikogo nikomu nigdzie żaden żadna żadne żadnego żadnej żadnych żadnym "
        "żadnymi ani bez oprócz tylko jedynie rzadko"
    ),
    "ru": "не нет нельзя ни никогда никто никого никому ничто ничего ничему нигде никуда никак "
    "никакой никакая никакое никакие никаких без кроме"
    " только лишь едва редко",
}
"""Words that negate or restrict (`only`), by language."""

_ACCENTED = frozenset("né só".split())
"""Negations that become other frequent words without their accents."""


def _forms(listed: Iterable[str]) -> frozenset[str]:
    """Return the words in lower case, and those not in `_ACCENTED` also without accents."""
    forms = {word.casefold() for line in listed for word in line.split()}
    return frozenset(forms | {fold(word) for word in forms - _ACCENTED})


NEGATIONS = {language: _forms([listed]) for language, listed in _NEGATION_WORDS.items()}
"""Maps a language to its negations in lower case, also spelled without accents."""

_NEGATIONS = frozenset[str]().union(*NEGATIONS.values())

_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate((
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen"
    ).split())
} | {
    "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70",
    "eighty": "80", "ninety": "90", "hundred": "hundred", "thousand": "thousand",
    "million": "million", "billion": "billion", "half": "half", "once": "once", "twice": "twice",
    "thrice": "thrice", "double": "double", "triple": "triple", "first": "1st", "second": "2nd",
    "third": "3rd", "dozen": "dozen",
}  # fmt: skip
"""Maps a number written as a word to its token: `twenty` to `20`."""

_UNITS = frozenset(
    "b kb mb gb tb pb kib mib gib tib bit bits byte bytes kilobyte kilobytes megabyte megabytes "
    "gigabyte gigabytes terabyte terabytes kbps mbps gbps"
    " ns us µs μs ms s sec secs second seconds min mins minute minutes millisecond milliseconds "
    "microsecond microseconds h hr hrs hour hours day days"
    " week weeks month months quarter quarters year years px em rem pt dpi hz khz mhz ghz mg g kg "
    "lb lbs oz mm cm m km in inch inches ft mile miles"
    " v mv w kw mw ma % ° °c °f percent usd eur gbp dollar dollars euro euros cent cents times x "
    "am pm".split()
)

_DAYS_AND_MONTHS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february april june july "
    "august september october november december"
    " montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar juni juli oktober "
    "dezember lundi mardi mercredi jeudi vendredi samedi dimanche janvier fevrier avril juin "
    "juillet septembre octobre novembre decembre lunes martes miercoles jueves viernes sabado "
    "domingo enero febrero abril junio julio agosto septiembre octubre noviembre diciembre".split()
)
"""Weekdays, and months that are not also other words, without accents."""

_MONTH_NAMES = frozenset(("May", "March"))
"""Months that are other words in lower case or at the start of a sentence."""

_TEXT_CACHE_SIZE = 512
"""Entries in the cache of tokenized texts. A single query compares fewer texts."""

NUMBER, DATE, NEGATION, CODE, NAME, SYMBOL, FUNCTION, WORD = "ndpcmsfw"
"""Kinds of tokens, one letter each to save memory. NUMBER includes the unit."""

_TYPOGRAPHY = {
    ord(variant): plain
    for plain, variants in {
        "'": "‘’‚‛′",
        '"': "“”„‟″«»",
        "-": "‐‑‒–−",
        " ": "\u00a0\u202f\u2009",
        " - ": "—",
        "": "\u00ad\u200b\u2060\ufeff\r",
    }.items()
    for variant in variants
}

FENCE = re.compile(r"(?ms)^([ \t>]*)(`{3,}+|~{3,}+)([^\n]*+)\n(.*?)(?:^[ \t>]*\2[`~]*+[ \t]*+$|\Z)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)

_CELL, _STRUCK_OUT, _DONE, _ITEM = "¦", "⊘", "☑", "№"
"""Symbols for the markup of table cells, struck-out text, done tasks and numbered items."""

_MARKUP = (
    (re.compile(r"(?s)<!--(?:(?!<!--).)*?-->"), ""),
    (re.compile(r"(?m)^[ \t>]*\[(?!\^)[^\[\]\n]+\]:[ \t]*\S+[^\n]*$"), ""),  # link definitions
    (re.compile(r"(?m)^([ \t>]*)(\d{1,9}[.)])(?=[ \t])"), rf"\1{_ITEM}\2"),
    (re.compile(r"(?m)^([ \t>]*(?:[-*+]|№\d+[.)])[ \t]+)\[[xX]\][ \t]"), rf"\1{_DONE} "),
    (re.compile(r"(?<!~)~~(?!~)"), f" {_STRUCK_OUT} "),
    # emphasis, whose underscores would be parts of names
    (re.compile(r"(?<![\w`])_(?=[^\W_])([^_`\n]+(?:\n[^_`\n]+)*)_(?![\w`(])"), r"\1"),
    (re.compile(r"(\[\[[^\[\]\n]*\]\])|\|"), lambda match: match[1] or f" {_CELL} "),
    (re.compile(r"<(/?[A-Za-z][^<>]{0,300})>"), r" \1 "),  # may be a placeholder: <name>
    (re.compile(r"(?m)\[\^[^\]\[\s]+\]:?|(?:^|[ \t])\^[\w-]+$"), ""),  # footnotes, block ids
)
_BROKEN_WORD = re.compile(r"(?<=[^\W\d])-[ \t]*\n[ \t>]*(?=[^\W\d_])")
_ESCAPE = re.compile(r"\\(?=[_\W])")
_AFTER_CJK = re.compile(rf"(?<=[{CJK}])(?=\d)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")

_TOKEN = re.compile(
    r"(?P<symbol>№\d+|[¦⊘☑✓✔✗✘✅❌☒☐⚠👍👎≤≥≠→←↔⇒⇐]"
    r"|(?<!\S)(?:[<>]=?(?!\s*[$€£¥]?\d)|[=!]==?|<?->|<-)(?!\S))"
    r"|(?P<date>\d{4}-\d\d-\d\d)(?!\d)"
    r"|\bv(?P<version>\d+(?:\.\w+)*(?:[-+]\w+(?:\.\w+)*)?)"
    r"|(?P<number>(?:(?:<=|>=|!=|[<>≈~±])[ ]?)?(?:(?<![\w)\]])[-+])?[$€£¥]?\d+(?:[.,:/]\d+)*\+?)"
    r"(?P<unit>[ -]?(?:%|°[CF]?|[^\W\d_]+(?!\w)))?"
    r"|(?P<flag>(?<![\w-])--?[A-Za-z][\w-]*)"
    r"|(?P<word>(?:(?<![\w.)\]])\.(?=[a-z]))?[^\W\d][\w$]*(?:\+\+|\#(?!\w))?"
    r"(?:(?:\.|::|->|-|/|')[^\W\d_][\w$]*)*(?:\(\))?)"
)
_NAME_BEFORE = re.compile(r"[a-z,;] \Z")

_ARTICLES = frozenset(("a", "an", "the"))

_ENDINGS = ("ing", "ed", "es", "ly", "s", "d", "e")

_STEM_CACHE_SIZE = 20_000
"""Entries in the cache of stems. The candidates of two queries share most of their words."""

Token = tuple[str, str]
"""(kind, text). The text is in lower case, except for identifiers and short units."""


# no slots: cached properties need a __dict__, and a query compares each text with many others
@dataclass(frozen=True)
class TokenizedText:
    """The tokens and the code of a text."""

    tokens: tuple[Token, ...]
    spans: tuple[str, ...]  # inline code, white space folded
    blocks: tuple[tuple[str, str], ...]  # code blocks: language and code
    code: frozenset[str]  # tokens of inline code

    @cached_property
    def stems(self) -> tuple[Token, ...]:
        """The tokens without articles, and with words cut to their stems."""
        return tuple(
            (kind, cut_suffix(token) if kind in (WORD, NAME) else token)
            for kind, token in self.tokens
            if token not in _ARTICLES
        )

    @cached_property
    def subjects(self) -> Counter[str]:
        """How often each stem of a word, name or identifier occurs."""
        return Counter(stem for kind, stem in self.stems if kind in (WORD, NAME, CODE))


@lru_cache(maxsize=_TEXT_CACHE_SIZE)
def tokenize(markdown: str) -> TokenizedText:
    """Return the tokens and the code of a Markdown text."""
    text = unescape(unicodedata.normalize("NFC", markdown)).translate(_TYPOGRAPHY)
    text = _BROKEN_WORD.sub("-", text)
    blocks = tuple(
        (fence_language(match[3]), _dedented(match[4])) for match in FENCE.finditer(text)
    )
    spans = tuple(_span_code(match[2]) for match in _SPAN.finditer(FENCE.sub("", text)))
    code = frozenset(token for span in spans for _, token in _tokens(span))
    return TokenizedText(tuple(_tokens(_visible_line(text))), spans, blocks, code)


def without_code(markdown: str) -> str:
    """Return a text without code blocks and code spans."""
    return _SPAN.sub(" ", FENCE.sub("", markdown))


@lru_cache(maxsize=512)
def language_of_text(markdown: str) -> str:
    """Return the natural language of a text without its code; empty if unknown."""
    return language_of(without_code(markdown))


def quoted(tokens: Sequence[str]) -> str:
    """Return the tokens as code, or `nothing`."""
    return f"`{' '.join(tokens)}`" if tokens else "nothing"


def fence_language(info: str) -> str:
    """Return the language of a code fence in lower case; empty if there is none."""
    return re.split(r"[\s{},:]+", info.strip(" \t`~{.").casefold())[0]


@lru_cache(maxsize=_STEM_CACHE_SIZE)
def cut_suffix(word: str) -> str:
    """Return a word without its suffix. Function words stay unchanged."""
    ending = next(
        (suffix for suffix in _ENDINGS if word.endswith(suffix) and len(word) - len(suffix) > 2), ""
    )
    return word.removesuffix(ending) if word not in STOP_WORDS else word


def _visible_line(text: str) -> str:
    """Return the visible text on one line, with symbols in place of meaningful markup."""
    # drop table separators and horizontal rules
    lines = (line for line in text.split("\n") if "-" not in line or line.strip(" \t>|:-"))
    text = "\n".join(lines)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return _normalize_numbers(_ESCAPE.sub("", " ".join(strip_markup(text).split())))


def _normalize_numbers(text: str) -> str:
    """Rewrite dates in ISO format, and numbers as separate words without thousands separators."""
    if not any(c.isdigit() for c in text):
        return text
    lowered = text.lower()
    if len(lowered) == len(text):  # otherwise, offsets differ
        for match, day in reversed(list(find_dates(lowered))):
            text = f"{text[: match.start()]}{day.isoformat()}{text[match.end() :]}"
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    return _AFTER_CJK.sub(" ", text)


def _tokens(text: str) -> Iterable[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "symbol":
            yield SYMBOL, match[0]
        elif kind == "date":
            yield DATE, match[0]
        elif kind == "version":
            yield NUMBER, sys.intern(match["version"])
        elif match["number"]:
            yield from _number(match["number"].replace(" ", ""), match["unit"] or "")
        elif kind == "flag":
            yield CODE, match[0]
        else:
            before = text[max(0, match.start() - 2) : match.start()]
            yield from _word(match[0], _NAME_BEFORE.match(before) is not None)


def _number(number: str, suffix: str) -> Iterable[Token]:
    """Return the token of a number with a unit, or the tokens of a number and the next word."""
    unit = suffix.lstrip(" -")
    if not unit:
        return ((NUMBER, number),)
    if suffix[0] in " -" and fold(unit) not in _UNITS:
        return (NUMBER, number), *_word(unit, False)
    # short units keep their case: Mb, MB
    return ((NUMBER, f"{number} {fold(unit).removesuffix('s') if len(unit) > 3 else unit}"),)


@lru_cache(maxsize=8192)
def _word(token: str, in_sentence: bool) -> tuple[Token, ...]:
    bare = token.removesuffix("()").removesuffix("'s").strip("_")
    folded = fold(bare)
    if folded.endswith("n't"):
        return ((WORD, folded[:-3]), (NEGATION, "not"))
    if folded in _NUMBER_WORDS:
        return ((NUMBER, _NUMBER_WORDS[folded]),)
    negation = next((form for form in (bare.casefold(), folded) if form in _NEGATIONS), None)
    if negation:
        return ((NEGATION, negation),)
    if folded in _DAYS_AND_MONTHS or (in_sentence and token in _MONTH_NAMES):
        return ((DATE, folded),)
    if looks_like_code(token) or not (token[0].isalnum() and token[-1].isalnum()):
        return ((CODE, bare),)
    # keeps accents: schon is not schön
    plain = unicodedata.normalize("NFKC", bare).casefold().replace("-", "")
    pieces = plain.split("'")
    if len(pieces) > 1 and pieces[0] == "n":  # elided: n'est is ne and est
        pieces[0] = "ne"
    is_name = token[0].isupper() and in_sentence
    return tuple((_word_kind(piece, is_name), sys.intern(piece)) for piece in pieces)


def _word_kind(word: str, is_name: bool) -> str:
    if word in _NEGATIONS:
        return NEGATION
    if fold(word) in FUNCTION_WORDS:
        return FUNCTION
    return NAME if is_name else WORD


def _span_code(span: str) -> str:
    """Return inline code without the `<>` around a placeholder or the `()` after a function."""
    code = " ".join(span.replace("\\|", "|").split())
    inner = re.fullmatch(r"<([\w -]+)>", code)
    return (inner[1] if inner else code).removesuffix("()")


def _dedented(code: str) -> str:
    """Return code without blank lines, common indentation and trailing spaces."""
    lines = [line.expandtabs(4).rstrip() for line in code.splitlines() if line.strip(" \t>")]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[margin:] for line in lines)
