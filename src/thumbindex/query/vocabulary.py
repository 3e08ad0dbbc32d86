"""Words that guards know: what turns a sentence round, counts, units, dates, other names of one thing, and tags of HTML."""

from __future__ import annotations

POLARITY = frozenset(
    "not no none never neither nor nothing nobody nowhere without except excluding including unless only must should shall may might"
    " required optional recommended discouraged forbidden prohibited permitted mandatory true false yes before after always sometimes"
    " rarely usually seldom often hardly minimum maximum min max least most above below more less fewer increase decrease enable disable"
    " enabled disabled enables disables allow deny allows denies allowed denied accept reject accepted rejected deprecated supported"
    " unsupported all any every some few many last next previous latest earliest off out up down under over inside outside internal"
    " external left right top bottom ascending descending until since during am pm exactly approximately if almost both either client"
    " server".split()
)
"""Words that must stand in both texts, at the same place among their like."""

NEGATIONS = POLARITY & frozenset(
    "not no none never neither nor nothing nobody nowhere without except excluding unless only hardly rarely seldom nicht kein keine keinen nie"
    " niemals ohne pas jamais sans nunca sin jamas non senza nao sem niet geen nooit zonder bez inte не нет нельзя без".split()
)
"""Those that deny where the other text has nothing in their place."""

CASED = frozenset("MUST SHOULD SHALL MAY REQUIRED OPTIONAL RECOMMENDED US IT WHO".split())
"""Words that mean another thing in capitals (RFC 8174; names)."""

COUNTS = {
    word: str(n)
    for n, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split())
} | {
    "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
    "hundred": "hundred", "thousand": "thousand", "million": "million", "billion": "billion", "half": "half", "once": "once", "twice": "twice",
    "thrice": "thrice", "double": "double", "triple": "triple", "first": "1st", "second": "2nd", "third": "3rd", "dozen": "dozen",
}  # fmt: skip
"""Numbers in words."""

UNITS = frozenset(
    "b kb mb gb tb pb kib mib gib tib bit bits byte bytes kilobyte kilobytes megabyte megabytes gigabyte gigabytes terabyte terabytes kbps mbps gbps"
    " ns us µs μs ms s sec secs second seconds min mins minute minutes millisecond milliseconds microsecond microseconds h hr hrs hour hours day days"
    " week weeks month months quarter quarters year years px em rem pt dpi hz khz mhz ghz mg g kg lb lbs oz mm cm m km in inch inches ft mile miles"
    " v mv w kw mw ma percent usd eur gbp dollar dollars euro euros cent cents times x am pm".split()
)

CONTRACTIONS = {
    "cannot": ("can", "not"), "can't": ("can", "not"), "won't": ("will", "not"), "shan't": ("shall", "not"),
    "it's": ("it", "is"), "that's": ("that", "is"), "there's": ("there", "is"), "you're": ("you", "are"), "they're": ("they", "are"),
    "we're": ("we", "are"), "you'll": ("you", "will"), "we'll": ("we", "will"), "it'll": ("it", "will"), "you've": ("you", "have"),
    "we've": ("we", "have"), "i'm": ("i", "am"), "let's": ("let", "us"),
}  # fmt: skip

_MONTHS = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug", "september sep sept", "october oct",
    "november nov", "december dec",
)  # fmt: skip

MONTHS = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}

_DAYS = "monday tuesday wednesday thursday friday saturday sunday"

DAYS_AND_MONTHS = frozenset(_DAYS.split()) | {names.split()[0] for names in _MONTHS} - {"may", "march"}
"""Days of the week, and months that are no other word."""

NEGATING = ("un", "non", "in", "im", "dis", "ir", "il", "de", "mis", "a", "anti")
"""What makes a word its opposite."""

PHRASES = {
    "every": "each", "such as": "like", "as well as": "and", "as well": "also", "prior to": "before", "in order to": "to", "so as to": "to",
    "in case": "if",
    "make sure": "ensure", "makes sure": "ensures", "making sure": "ensuring", "is able to": "can", "are able to": "can", "able to": "can",
    "for instance": "for example", "e.g.": "for example", "i.e.": "that is", "due to": "because of", "a number of": "several",
    "allows you to": "lets you", "allow you to": "let you", "allowing you to": "letting you",
    "permits you to": "lets you", "enables you to": "lets you", "enable you to": "let you", "enabling you to": "letting you",
    "at the moment": "now", "in addition to": "besides", "in addition": "also", "with regard to": "about", "whether or not": "whether",
    "until such time as": "until", "at all times": "always", "as soon as": "once",
}  # fmt: skip
"""What says the same in other words wherever it stands, and how it is read: what turns a sentence round is among it."""

_SYNONYMS = (
    "make create build generate produce", "use utilize employ", "show display present", "show appear", "start begin", "open launch start",
    "get obtain retrieve fetch receive", "help assist aid", "also too additionally moreover", "let permit", "select choose pick", "need require",
    "big large", "fast quick quickly rapidly", "simple easy straightforward", "simply just easily", "buy purchase", "end finish complete",
    "near close", "like such", "via through using", "about regarding concerning", "however but though although yet",
    "therefore thus hence so consequently", "contain include hold comprise", "change modify alter edit adjust", "keep retain preserve",
    "find locate", "give provide supply offer", "go navigate", "want wish like", "person people", "picture image", "folder directory",
    "note remark", "please kindly", "example instance", "explain describe", "click press tap hit", "option setting preference",
    "several multiple various", "whole entire full", "remove delete erase", "main primary principal", "specify state indicate",
    "extra additional further", "usual normal typical general common", "probably likely", "often frequently", "important essential crucial",
    "error mistake", "problem issue", "app application program", "occur happen", "ask request", "answer reply response respond",
    "check verify confirm", "try attempt", "enough sufficient", "kind type sort", "amount number quantity", "quit exit", "save store",
    "send transmit", "way method manner", "goal aim purpose", "because as",
)  # fmt: skip

_GROUPS = [frozenset(group.split()) for group in _SYNONYMS]

SYNONYMS = {word: frozenset[str]().union(*(group for group in _GROUPS if word in group)) for word in frozenset[str]().union(*_GROUPS)}
"""Words for which another one may stand in a reworded copy: anything else that is replaced is a replaced subject."""

_NAMES = (
    "javascript js node mjs cjs", "typescript ts", "python py python3", "bash sh shell zsh console shellsession terminal", "powershell ps1 pwsh ps",
    "yaml yml", "ruby rb", "rust rs", "csharp cs c#", "cpp c++ cc", "markdown md", "golang go", "kotlin kt", "html htm", "dockerfile docker",
)  # fmt: skip

FENCE_LANGUAGES = {name: group.split()[0] for group in _NAMES for name in group.split()} | dict.fromkeys(("text", "txt", "plain", "plaintext"), "")
"""One name for each that a code fence's language goes by."""

LAYOUT_LANGUAGES = frozenset("python yaml makefile make haskell fsharp sass pug haml coffee coffeescript nim".split())
"""Languages in which lines and indentation mean something."""

TAGS = frozenset(
    "a abbr article aside audio b blockquote body br button caption center cite code col colgroup dd del details dfn div dl dt em embed figcaption"
    " figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label li link main mark meta nav ol optgroup p"
    " picture pre q s samp script section select small source span strong style sub summary sup svg table tbody td textarea tfoot th thead tr tt"
    " u ul var video wbr".split()
)
"""Tags that a reader does not see; anything else in angle brackets is a placeholder."""
