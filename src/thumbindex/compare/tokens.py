"""Read a text for comparison: what is visible of it in one typography, cut into tokens that say
what they are.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape

from thumbindex.text import STOP_WORDS, fold, looks_like_code, visible

_DENYING = {
    "en": (
        "not no none never neither nor nothing nobody nowhere without except excluding unless "
        "only hardly rarely seldom"
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
"""What denies, or leaves room for one thing alone, by language."""

_TURNING = {
    "en": "including must should shall may might required optional recommended discouraged "
    "forbidden prohibited permitted mandatory true false yes"
    " before after always sometimes usually often minimum maximum min max least most above below "
    "more less fewer increase decrease enable"
    " disable enabled disabled enables disables allow deny allows denies allowed denied accept "
    "reject accepted rejected deprecated supported"
    " unsupported all any every some few many last next previous latest earliest off out up down "
    "under over inside outside internal external"
    " left right top bottom ascending descending until since during am pm exactly approximately if "
    "almost both either client server",
    "de": "muss müssen soll sollen sollte sollten darf dürfen immer stets manchmal vor nach bevor "
    "nachdem bis seit mehr weniger mindestens"
    " höchstens alle allen aller einige jede jeder jedes erlaubt verboten erforderlich beinahe",
    "fr": "doit doivent devrait devraient toujours parfois avant après jusque depuis plus moins "
    "tous toutes chaque certains certaines personne"
    " ni presque interdit permis autorisé obligatoire",
    "es": "debe deben debería deberían siempre antes después hasta desde más menos todos todas "
    "cada algunos algunas ni casi prohibido permitido"
    " obligatorio",
    "it": (
        "deve devono dovrebbe dovrebbero sempre mai prima dopo fino più meno tutti tutte ogni "
        "alcuni alcune quasi vietato permesso obbligatorio"
    ),
    "pt": (
        "deve devem deveria deveriam sempre antes depois até desde mais menos todos todas cada "
        "alguns algumas quase proibido permitido obrigatório"
    ),
    "nl": "moet moeten altijd soms voordat nadat sinds meer minder minstens hoogstens alle sommige "
    "elke ieder iedere bijna verboden toegestaan"
    " verplicht",
    "sv": (
        "måste alltid ibland före innan efter tills sedan mer mindre minst högst alla varje några "
        "nästan förbjuden tillåten obligatorisk"
    ),
    "da": (
        "må skal altid før efter indtil siden mere mindre mindst højst alle hver nogle næsten "
        "forbudt tilladt påkrævet"
    ),
    "pl": "musi muszą powinien powinna powinno powinny zawsze czasem przed dopóki więcej mniej "
    "wszystkie wszystkich każdy każda każde niektóre nic"
    " prawie zabronione dozwolone wymagane",
    "ru": "должен должна должно должны следует можно всегда иногда после пока больше меньше более "
    "менее все всех каждый каждая каждое некоторые"
    " почти запрещено разрешено обязательно",
}
"""What else turns a sentence round where it is added or left out, by language."""

_ACCENTED = frozenset("né más só må før".split())
"""Without their accents these are other, frequent words."""


def _forms(listed: Iterable[str]) -> frozenset[str]:
    """Return words with case folded, as they are written and as keyboards without accents write
    them.
    """
    found = {word.casefold() for each in listed for word in each.split()}
    return frozenset(found | {fold(word) for word in found - _ACCENTED})


LANGUAGES = frozenset(_DENYING)
"""Languages whose negations are known."""

NEGATIONS = _forms(_DENYING.values())
"""Those that deny where the other text has nothing in their place."""

POLARITY = NEGATIONS | _forms(_TURNING.values())
"""Words that must stand in both texts, at the same place among their like, whatever the language: a
wrong merge loses a fact.
"""

ENGLISH_POLARITY = _forms((_DENYING["en"], _TURNING["en"]))
"""Those that are looked for in code: `sin` and `bis` are names there."""

OTHER_WORDS = {
    language: frozenset(listed.split())
    for language, listed in {
        "en": "sin solo",
        "fr": "solo",
        "it": "ne",
        "pt": "no",
        "nl": "kun",
        "sv": "sin",
    }.items()
}
"""Negations of another language that deny nothing in this one: "in the" is `no` in Portuguese."""

CASED = frozenset("MUST SHOULD SHALL MAY REQUIRED OPTIONAL RECOMMENDED US IT WHO".split())
"""Words that mean another thing in capitals (RFC 8174; names)."""

COUNTS = {
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
"""Numbers in words."""

UNITS = frozenset(
    "b kb mb gb tb pb kib mib gib tib bit bits byte bytes kilobyte kilobytes megabyte megabytes "
    "gigabyte gigabytes terabyte terabytes kbps mbps gbps"
    " ns us µs μs ms s sec secs second seconds min mins minute minutes millisecond milliseconds "
    "microsecond microseconds h hr hrs hour hours day days"
    " week weeks month months quarter quarters year years px em rem pt dpi hz khz mhz ghz mg g kg "
    "lb lbs oz mm cm m km in inch inches ft mile miles"
    " v mv w kw mw ma percent usd eur gbp dollar dollars euro euros cent cents times x "
    "am pm".split()
)

CONTRACTIONS = {
    "cannot": ("can", "not"), "can't": ("can", "not"), "won't": ("will", "not"),
    "shan't": ("shall", "not"), "it's": ("it", "is"), "that's": ("that", "is"),
    "there's": ("there", "is"), "you're": ("you", "are"), "they're": ("they", "are"),
    "we're": ("we", "are"), "you'll": ("you", "will"), "we'll": ("we", "will"),
    "it'll": ("it", "will"), "you've": ("you", "have"), "we've": ("we", "have"), "i'm": ("i", "am"),
    "let's": ("let", "us"),
}  # fmt: skip

_MONTHS = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul",
    "august aug", "september sep sept", "october oct", "november nov", "december dec",
)  # fmt: skip

MONTHS = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}

_DAYS = "monday tuesday wednesday thursday friday saturday sunday"

DAYS_AND_MONTHS = frozenset(_DAYS.split()) | {names.split()[0] for names in _MONTHS} - {
    "may",
    "march",
}
"""Days of the week, and months that are no other word."""

NEGATING = (
    "un",
    "non",
    "in",
    "im",
    "dis",
    "ir",
    "il",
    "de",
    "mis",
    "a",
    "anti",
    "des",
    "dés",
    "nicht",
    "niet",
    "on",
    "o",
    "u",
    "nie",
    "не",
)
"""What makes a word its opposite."""

PHRASES = {
    "every": "each", "such as": "like", "as well as": "and", "as well": "also",
    "prior to": "before", "in order to": "to", "so as to": "to", "in case": "if",
    "make sure": "ensure", "makes sure": "ensures", "making sure": "ensuring", "is able to": "can",
    "are able to": "can", "able to": "can", "for instance": "for example", "e.g.": "for example",
    "i.e.": "that is", "due to": "because of", "a number of": "several",
    "allows you to": "lets you", "allow you to": "let you", "allowing you to": "letting you",
    "permits you to": "lets you", "enables you to": "lets you", "enable you to": "let you",
    "enabling you to": "letting you", "at the moment": "now", "in addition to": "besides",
    "in addition": "also", "with regard to": "about", "whether or not": "whether",
    "until such time as": "until", "at all times": "always", "as soon as": "once",
    "normally": "usually",
}  # fmt: skip
"""What says the same in other words wherever it stands, and how it is read: what turns a sentence
round is among it.
"""

_SYNONYMS = (
    "make create build generate produce", "use utilize employ", "show display present",
    "show appear", "start begin", "open launch start", "get obtain retrieve fetch receive",
    "help assist aid", "also too additionally moreover", "let permit", "select choose pick",
    "need require", "big large", "fast quick quickly rapidly", "simple easy straightforward",
    "simply just easily", "buy purchase", "end finish complete", "near close", "like such",
    "via through using", "about regarding concerning", "however but though although yet",
    "therefore thus hence so consequently", "contain include hold comprise",
    "change modify alter edit adjust", "keep retain preserve", "find locate",
    "give provide supply offer", "go navigate", "want wish like", "person people", "picture image",
    "folder directory", "note remark", "please kindly", "example instance", "explain describe",
    "click press tap hit", "option setting preference", "several multiple various",
    "whole entire full", "remove delete erase", "main primary principal", "specify state indicate",
    "extra additional further", "usual normal typical general common", "probably likely",
    "often frequently", "important essential crucial", "error mistake", "problem issue",
    "app application program", "occur happen", "ask request", "answer reply response respond",
    "check verify confirm", "try attempt", "enough sufficient", "kind type sort",
    "amount number quantity", "quit exit", "save store", "send transmit", "way method manner",
    "goal aim purpose", "because as",
)  # fmt: skip

_GROUPS = [frozenset(group.split()) for group in _SYNONYMS]

SYNONYMS = {
    word: frozenset[str]().union(*(group for group in _GROUPS if word in group))
    for word in frozenset[str]().union(*_GROUPS)
}
"""Words for which another one may stand in a reworded copy: anything else that is replaced is a
replaced subject.
"""

_NAMES = (
    "javascript js node mjs cjs", "typescript ts", "python py python3",
    "bash sh shell zsh console shellsession terminal", "powershell ps1 pwsh ps", "yaml yml",
    "ruby rb", "rust rs", "csharp cs c#", "cpp c++ cc", "markdown md", "golang go", "kotlin kt",
    "html htm", "dockerfile docker",
)  # fmt: skip

FENCE_LANGUAGES = {
    name: group.split()[0] for group in _NAMES for name in group.split()
} | dict.fromkeys(("text", "txt", "plain", "plaintext"), "")
"""One name for each that a code fence's language goes by."""

LAYOUT_LANGUAGES = frozenset(
    "python yaml makefile make haskell fsharp sass pug haml coffee coffeescript nim".split()
)
"""Languages in which lines and indentation mean something."""

TAGS = frozenset(
    "a abbr article aside audio b blockquote body br button caption center cite code col colgroup "
    "dd del details dfn div dl dt em embed figcaption"
    " figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd "
    "label li link main mark meta nav ol optgroup p"
    " picture pre q s samp script section select small source span strong style sub summary sup "
    "svg table tbody td textarea tfoot th thead tr tt"
    " u ul var video wbr".split()
)
"""Tags that a reader does not see; anything else in angle brackets is a placeholder."""

READINGS = 512
"""How many texts stay read: more than a query compares with each other, and a few megabytes."""

NUMBER, UNIT, DATE, POLAR, CODE, NAME, STATE, WORD = "n", "u", "d", "p", "c", "m", "s", "w"
"""What a token is; a letter each, so that a reading is small."""

_WRITTEN = {
    "'": "‘’‚‛′",
    '"': "“”„‟″«»",
    "-": "‐‑‒–−",
    " ": "\u00a0\u202f\u2009",
    " - ": "—",
    "": "\u00ad\u200b\u2060\ufeff\r",
}
_TYPOGRAPHY = {ord(sign): plain for plain, signs in _WRITTEN.items() for sign in signs}
_OWN = dict.fromkeys(range(0xE000, 0xE005))
"""Marks of our own, taken out of what others wrote."""

_AS_WRITTEN = _TYPOGRAPHY | _OWN

_ENTITY = re.compile(r"&#?\w+;")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d])-[ \t]*\n[ \t>]*(?=[^\W\d_])")
_FENCE = re.compile(
    r"(?ms)^([ \t>]*)(`{3,}+|~{3,}+)([^\n]*+)\n(.*?)(?:^[ \t>]*\2[`~]*+[ \t]*+$|\Z)"
)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_HELD = re.compile("\ue000(\\d+)\ue001")
_CELL, _STRUCK, _DONE = "\ue002", "\ue003", "\ue004"
STATES = {_CELL: "another cell", _STRUCK: "struck out", _DONE: "[x]"}
"""How marks of our own are shown."""

_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->|%%.*?%%", re.S)
_FOOTNOTE = re.compile(r"\[\^[^\]\[\s]+\]:?")
_AUTOLINK = re.compile(r"<((?:[a-z][a-z0-9+.-]+://|mailto:)[^\s<>]+|[^\s<>@/]+@[^\s<>@]+)>", re.I)
_PLACEHOLDER = re.compile(r"<(/?)([A-Za-z][\w-]*)([^<>]{0,300})>")
_LINK = re.compile(
    r"!?\[([^\[\]]*)\]\((?:<([^<>\n]*)>|((?:[^()\s<>]|\([^()\s]*\))*))"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\)"
)
_DEFINITION = re.compile(
    r"(?m)^[ \t>]*\[(?!\^)[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$"
)
"""What reference links mean (CommonMark 4.7): a reader sees none of it."""

_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^#]*#(.+)")
_CHECKED = re.compile(r"(?m)^([ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+)\[[xX]\][ \t]")
_STRIKE = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~", re.S)
_UNDERLINED = re.compile(r"(?<![\w\\])_(?=[^\s_])([^_]+?)(?<=\S)_(?!\w)")
_NUMBERED = re.compile(r"^([ \t>]*)(\d{1,9})([.)])(?=[ \t])")
_ITEM = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_ESCAPE = re.compile(r"\\(?=[_\W])")
_BLOCK_ID = re.compile(r"(?m)(?:^|[ \t])\^[\w-]+$")
_DELIMITER = re.compile(
    r"^[ \t>]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$"
)
_BAR = re.compile(r"(?<!\\)\|")

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY_MONTH = re.compile(
    rf"(?i)\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\.?,?\s+(\d{{4}})\b"
)
_MONTH_DAY = re.compile(rf"(?i)\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b")
_YEAR_FIRST = re.compile(r"(?<![\d./-])(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?![\d/.-]*\d)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")

_TOKEN = re.compile(
    r"(?P<state>[✓✔✗✘✅❌☑☒☐⚠👍👎\ue002-\ue004])"
    r"|(?P<sign>(?<!\S)(?:[<>]=?(?!\s*[$€£¥]?\d)|[=!]==?|<?->|<-)(?!\S)|[≤≥≠→←↔⇒⇐])"
    r"|(?P<date>\d{4}-\d\d-\d\d)(?!\d)"
    r"|(?P<version>\bv\d+(?:\.\w+)*(?:[-+]\w+(?:\.\w+)*)?)"
    r"|(?P<number>(?:(?:<=|>=|!=|[<>≤≥≠≈~±])[ ]?)?(?:(?<![\w)\]])[-+])?[$€£¥]?\d+(?:[.,:/]\d+)*\+?)"
    r"(?P<unit>[ -]?(?:%|°[CF]?|[^\W\d_]+(?!\w)))?"
    r"|(?P<flag>(?<![\w-])--?[A-Za-z][\w-]*)"
    r"|(?P<word>(?:(?<![\w.)\]])\.(?=[a-z]))?[^\W\d][\w$]*(?:\+\+|\#(?!\w))?"
    r"(?:(?:\.|::|->|-|/|'|’)[^\W\d_][\w$]*)*(?:\(\))?)"
)
_ANY_PHRASE = "|".join(sorted(map(re.escape, PHRASES), key=len, reverse=True))
_PHRASE = re.compile(rf"(?i)\b(?:{_ANY_PHRASE})(?!\w)")
_NAME_BEFORE = re.compile(r"[a-z,;] \Z")


# no slots: what is worked out of a text is kept with it, since a question compares each with many
# others
@dataclass(frozen=True)
class Reading:
    """A text as guards see it; tokens and sorts go together."""

    tokens: tuple[str, ...]  # folded, but for code
    sorts: str  # a letter a token
    spans: tuple[str, ...]  # inline code, white space folded
    blocks: tuple[str, ...]  # code blocks, laid out as far as that matters
    languages: tuple[str, ...]  # of the code blocks
    tables: tuple[tuple[int, int], ...]  # rows and columns of each
    anchors: tuple[str, ...]  # of the URLs that links lead to, sorted

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The tokens with code folded too: what stands in backticks in one text may stand in none
        in the other.
        """
        return tuple(fold(token) for token in self.tokens)

    @cached_property
    def opposites(self) -> frozenset[str]:
        """What words would be without what makes them the opposite."""
        negated = (token for token in self.tokens if token.startswith(NEGATING))
        return frozenset(
            token.removeprefix(prefix)
            for token in negated
            for prefix in NEGATING
            if token.startswith(prefix)
        )

    @cached_property
    def content(self) -> Counter[str]:
        """The words that carry a subject, counted."""
        return Counter(
            t
            for t, sort in zip(self.tokens, self.sorts, strict=True)
            if sort in (WORD, NAME) and t not in STOP_WORDS
        )


@lru_cache(maxsize=READINGS)
def reading(markdown: str) -> Reading:
    """Read a text: what is visible of it, code as it stands, quotes and broken words mended."""
    text, spans, blocks, anchors = _normalized(markdown)
    held = (*spans, *(code for _, code in blocks))
    found: list[tuple[str, str]] = []
    for at, piece in enumerate(_HELD.split(text)):
        found += _tokens(held[int(piece)], True) if at % 2 else _tokens(piece, False)
    return Reading(
        tuple(sys.intern(token) for _, token in found),
        "".join(sort for sort, _ in found),
        tuple(_bare(span) for span in spans),
        tuple(_laid_out(language, code) for language, code in blocks),
        tuple(language for language, _ in blocks),
        tables_in(markdown),
        anchors,
    )


@lru_cache(maxsize=READINGS)
def comparable(markdown: str) -> tuple[str, tuple[str, ...]]:
    """Return the visible text with code verbatim in it, and the pieces of code."""
    return with_code(markdown)


def with_code(markdown: str) -> tuple[str, tuple[str, ...]]:
    """Return the same of a text of any length, of which nothing is kept."""
    text, spans, blocks, _ = _normalized(markdown)
    code = (*spans, *(each for _, each in blocks))
    unmarked = re.sub(f"[{_CELL}{_STRUCK}{_DONE}]", " ", text)
    return _HELD.sub(lambda match: code[int(match[1])], unmarked), code


def without_code(markdown: str) -> str:
    """Return a text without its code blocks and spans, whose words are of no natural language."""
    return _SPAN.sub(" ", _FENCE.sub("", markdown))


def tables_in(markdown: str) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of each table in a text; a table has a row of dashes."""
    lines = markdown.splitlines()
    found = []
    for at, line in enumerate(lines):
        if at and "|" in line and _DELIMITER.match(line):
            rows = next(
                (n for n, each in enumerate(lines[at + 1 :]) if "|" not in each),
                len(lines) - at - 1,
            )
            found.append((rows + 1, len(cells(line))))
    return tuple(found)


def cells(row: str) -> list[str]:
    """Return the cells of a table's row."""
    return _BAR.split(row.strip(" \t>").removeprefix("|").removesuffix("|"))


def fence_language(info: str) -> str:
    """Return the language of a code fence by one of its names: `js` and `javascript` are one."""
    name = re.split(r"[\s{},:]+", info.strip(" \t`~{.").casefold())[0]
    return FENCE_LANGUAGES.get(name, name)


def _normalized(
    markdown: str,
) -> tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the visible text with a mark for each piece of code, the spans, the blocks with their
    languages, and the anchors; spans count first.
    """
    blocks: list[tuple[str, str]] = []
    spans: list[str] = []
    anchors: list[str] = []

    def without_target(match: re.Match[str]) -> str:
        *seen, bracketed, bare = match.groups()
        if anchor := _ANCHOR.fullmatch(bracketed or bare or ""):
            anchors.append(anchor[1])
        return seen[0] if seen else ""

    def hold_block(match: re.Match[str]) -> str:
        blocks.append((fence_language(match[3]), match[4]))
        return f"{match[1]}\ue000b{len(blocks) - 1}\ue001\n"

    def hold_span(match: re.Match[str]) -> str:
        spans.append(" ".join(match[2].replace("\\|", "|").split()))
        return f"\ue000{len(spans) - 1}\ue001"

    text = unicodedata.normalize("NFC", _BROKEN_WORD.sub("-", markdown.translate(_AS_WRITTEN)))
    text = _SPAN.sub(hold_span, _FENCE.sub(hold_block, text))
    if "](" in text or "]:" in text:
        text = _LINK.sub(without_target, _DEFINITION.sub(without_target, text))
    text = re.sub(
        "\ue000b(\\d+)\ue001", lambda match: f"\ue000{len(spans) + int(match[1])}\ue001", text
    )
    seen = visible(_marked_up(text))
    return (
        _ESCAPE.sub(
            "", _ENTITY.sub(_unescaped, _UNDERLINED.sub(r"\1", _BLOCK_ID.sub("", seen)))
        ).translate(_TYPOGRAPHY),
        tuple(spans),
        tuple(blocks),
        tuple(sorted(anchors)),
    )


def _unescaped(entity: re.Match[str]) -> str:
    return unescape(entity[0]).translate(_OWN)


def _marked_up(text: str) -> str:
    """Keep what the visible text loses and a reader does not: cells, ticks, strikes, placeholders,
    numbers that begin a line of prose.
    """
    if "<" in text or "%%" in text:
        text = _AUTOLINK.sub(r"\1", _COMMENT.sub("", text))
        text = _PLACEHOLDER.sub(
            lambda match: match[0] if match[2].casefold() in TAGS else f" {match[2]}{match[3]} ",
            text,
        )
    text = _STRIKE.sub(
        f"{_STRUCK} \\1 {_STRUCK}", _CHECKED.sub(f"\\1{_DONE} ", _FOOTNOTE.sub("", text))
    )
    lines = text.split("\n")
    tables = any("|" in line and _DELIMITER.match(line) for line in lines)
    return "\n".join(
        _line(line, lines[at - 1] if at else "", tables) for at, line in enumerate(lines)
    )


def _line(line: str, before: str, tables: bool) -> str:
    number = _NUMBERED.match(line)
    # a paragraph's line may begin with a number by chance: only 1 begins a list there (CommonMark
    # 5.2)
    if (
        number
        and number[2] != "1"
        and before.strip(" \t>")
        and not _ITEM.match(before)
        and not before.startswith((" ", "\t"))
    ):
        return f"{number[1]}{number[2]}\\{line[number.end(2) :]}"
    if tables and "|" in line and "[[" not in line:
        return line if _DELIMITER.match(line) else f" {_CELL} ".join(cells(line))
    if tables and "|" in line:
        return f" {_CELL} ".join(
            cells(re.sub(r"(\[\[[^\]\[|]*?)\\?\|([^\]\[]*\]\])", r"\1\\|\2", line))
        )
    return line


def _tokens(text: str, in_code: bool) -> list[tuple[str, str]]:
    text = " ".join(text.split())
    if not in_code:
        text = _PHRASE.sub(lambda match: PHRASES[match[0].casefold()], text)
    if any(c.isdigit() for c in text):
        text = _without_separators(text) if in_code else _dated(text)
    found: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(text):
        found += _sorted(match, in_code)
    return found


def _dated(text: str) -> str:
    """Write dates in one way; days before months and months before days stay as they are: nobody
    knows which is which.
    """
    text = _MONTH_DAY.sub(lambda m: f"{m[3]}-{MONTHS[m[1].casefold()]:02}-{int(m[2]):02}", text)
    text = _DAY_MONTH.sub(lambda m: f"{m[3]}-{MONTHS[m[2].casefold()]:02}-{int(m[1]):02}", text)
    text = _YEAR_FIRST.sub(lambda m: f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}", text)
    return _without_separators(text)


def _without_separators(text: str) -> str:
    """Take the commas out of large numbers."""
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)


def _sorted(match: re.Match[str], in_code: bool) -> list[tuple[str, str]]:
    """Return a token, or a number and its unit, with what each is."""
    token = match[0]
    if match["state"] or match["sign"]:
        return [(STATE, token)]
    if match["date"]:
        return [(DATE, token)]
    if match["version"]:
        return [(NUMBER, token.removeprefix("v") if "." in token else token)]
    if match["number"]:
        number, rest = match["number"].replace(" ", ""), (match["unit"] or "").lstrip(" -")
        attached = match["unit"] is not None and match["unit"][0] not in " -"
        if not rest:
            return [(NUMBER, number)]
        if attached or fold(rest) in UNITS:
            return [(NUMBER, number), (UNIT, _unit(rest))]
        return [(NUMBER, number), *_word(rest, in_code, False)]
    if match["flag"]:
        return [(CODE, token)]
    return list(
        _word(
            token,
            in_code,
            bool(_NAME_BEFORE.match(match.string, max(0, match.start() - 2), match.start())),
        )
    )


def _unit(written: str) -> str:
    """Return a unit as it is compared: short ones with their case (Mb, MB), long ones in the
    singular.
    """
    folded = fold(written)
    if len(folded) > 3:
        return folded.removesuffix("s")
    return written[:-1] if folded in ("mins", "hrs", "lbs") else written


@lru_cache(maxsize=8192)
def _word(token: str, in_code: bool, inside: bool) -> tuple[tuple[str, str], ...]:
    bare = token.removesuffix("()").removesuffix("'s").removesuffix("’s")
    folded = fold(bare)
    if folded in CONTRACTIONS:
        return tuple((POLAR if part in POLARITY else WORD, part) for part in CONTRACTIONS[folded])
    if folded.endswith("n't"):
        return ((WORD, folded[:-3]), (POLAR, "not"))
    if bare in CASED:
        return ((POLAR, bare),)
    if folded in COUNTS:
        return ((NUMBER, COUNTS[folded]),)
    turning = next(
        (
            form
            for form in (bare.casefold(), folded)
            if form in (ENGLISH_POLARITY if in_code else POLARITY)
        ),
        None,
    )
    if turning:
        return ((POLAR, turning),)
    if folded in DAYS_AND_MONTHS:
        return ((DATE, folded),)
    if in_code or looks_like_code(token) or not (token[0].isalnum() and token[-1].isalnum()):
        return ((CODE, bare),)
    # accents stay: schon is not schön
    plain = unicodedata.normalize("NFKC", bare).casefold().replace("-", "").replace("’", "'")
    sort, pieces = NAME if token[0].isupper() and inside else WORD, plain.split("'")
    if len(pieces) > 1 and pieces[0] == "n":  # elided: n'est is ne and est
        pieces[0] = "ne"
    return tuple(
        (POLAR if len(pieces) > 1 and piece in POLARITY else sort, piece) for piece in pieces
    )


def _bare(span: str) -> str:
    """Return inline code without the brackets around a key's name or a placeholder, and without a
    call's.
    """
    inner = re.fullmatch(r"<([\w -]+)>", span)
    return (inner[1] if inner else span).removesuffix("()")


def _laid_out(language: str, code: str) -> str:
    """Return a code block with its lines where they mean something, else its tokens alone."""
    lines = [line.expandtabs(4).rstrip() for line in code.splitlines() if line.strip(" \t>")]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    if language in LAYOUT_LANGUAGES or any(
        line.endswith(":") or re.search(r"(?:^|\s)(?:#|//)", line) for line in lines
    ):
        return "\n".join(line[margin:] for line in lines)
    return " ".join(" ".join(lines).split())
