"""Words that the comparison of two texts knows: negations, counts, units, dates, synonyms, and tags of HTML."""

from __future__ import annotations

from collections.abc import Iterable

from thumbindex.text import fold

_DENYING = {
    "en": "not no none never neither nor nothing nobody nowhere without except excluding unless only hardly rarely seldom",
    "de": "nicht nichts kein keine keinen keinem keiner keines keinerlei keinesfalls keineswegs nie niemals niemand niemanden niemandem nirgends"
    " nirgendwo ohne weder außer ausgenommen nur kaum selten",
    "fr": "ne pas jamais rien aucun aucune nul nulle sans sauf excepté hormis guère seulement uniquement rarement",
    "es": "no nunca jamás nada nadie ningún ninguno ninguna ningunos ningunas tampoco sin excepto salvo sólo solo solamente únicamente apenas",
    "it": "non no né niente nulla nessun nessuno nessuna neanche nemmeno neppure senza tranne eccetto salvo solo soltanto solamente raramente",
    "pt": "não nunca jamais nada ninguém nenhum nenhuma nenhuns nenhumas nem tampouco sem exceto salvo só somente apenas raramente",
    "nl": "niet niets geen nooit niemand nergens zonder behalve tenzij alleen slechts nauwelijks zelden",
    "sv": "inte icke ej aldrig ingen inget inga ingenting ingenstans varken utan förutom bara endast enbart knappt sällan",
    "da": "ikke ej aldrig ingen intet ingenting ingensteder hverken uden undtagen kun sjældent",
    "pl": "nie nigdy nikt nikogo nikomu nigdzie żaden żadna żadne żadnego żadnej żadnych żadnym żadnymi ani bez oprócz tylko jedynie rzadko",
    "ru": "не нет нельзя ни никогда никто никого никому ничто ничего ничему нигде никуда никак никакой никакая никакое никакие никаких без кроме"
    " только лишь едва редко",
}
"""What denies, or leaves room for one thing alone, by language."""

_TURNING = {
    "en": "including must should shall may might required optional recommended discouraged forbidden prohibited permitted mandatory true false yes"
    " before after always sometimes usually often minimum maximum min max least most above below more less fewer increase decrease enable"
    " disable enabled disabled enables disables allow deny allows denies allowed denied accept reject accepted rejected deprecated supported"
    " unsupported all any every some few many last next previous latest earliest off out up down under over inside outside internal external"
    " left right top bottom ascending descending until since during am pm exactly approximately if almost both either client server",
    "de": "muss müssen soll sollen sollte sollten darf dürfen immer stets manchmal vor nach bevor nachdem bis seit mehr weniger mindestens"
    " höchstens alle allen aller einige jede jeder jedes erlaubt verboten erforderlich beinahe",
    "fr": "doit doivent devrait devraient toujours parfois avant après jusque depuis plus moins tous toutes chaque certains certaines personne"
    " ni presque interdit permis autorisé obligatoire",
    "es": "debe deben debería deberían siempre antes después hasta desde más menos todos todas cada algunos algunas ni casi prohibido permitido"
    " obligatorio",
    "it": "deve devono dovrebbe dovrebbero sempre mai prima dopo fino più meno tutti tutte ogni alcuni alcune quasi vietato permesso obbligatorio",
    "pt": "deve devem deveria deveriam sempre antes depois até desde mais menos todos todas cada alguns algumas quase proibido permitido obrigatório",
    "nl": "moet moeten altijd soms voordat nadat sinds meer minder minstens hoogstens alle sommige elke ieder iedere bijna verboden toegestaan"
    " verplicht",
    "sv": "måste alltid ibland före innan efter tills sedan mer mindre minst högst alla varje några nästan förbjuden tillåten obligatorisk",
    "da": "må skal altid før efter indtil siden mere mindre mindst højst alle hver nogle næsten forbudt tilladt påkrævet",
    "pl": "musi muszą powinien powinna powinno powinny zawsze czasem przed dopóki więcej mniej wszystkie wszystkich każdy każda każde niektóre nic"
    " prawie zabronione dozwolone wymagane",
    "ru": "должен должна должно должны следует можно всегда иногда после пока больше меньше более менее все всех каждый каждая каждое некоторые"
    " почти запрещено разрешено обязательно",
}
"""What else turns a sentence round where it is added or left out, by language."""

_ACCENTED = frozenset("né más só må før".split())
"""Without their accents these are other, frequent words."""


def _forms(listed: Iterable[str]) -> frozenset[str]:
    """Return words with case folded, as they are written and as keyboards without accents write them."""
    found = {word.casefold() for each in listed for word in each.split()}
    return frozenset(found | {fold(word) for word in found - _ACCENTED})


LANGUAGES = frozenset(_DENYING)
"""Languages whose negations are known."""

NEGATIONS = _forms(_DENYING.values())
"""Those that deny where the other text has nothing in their place."""

POLARITY = NEGATIONS | _forms(_TURNING.values())
"""Words that must stand in both texts, at the same place among their like, whatever the language: a wrong merge loses a fact."""

ENGLISH_POLARITY = _forms((_DENYING["en"], _TURNING["en"]))
"""Those that are looked for in code: `sin` and `bis` are names there."""

OTHER_WORDS = {
    language: frozenset(listed.split())
    for language, listed in {"en": "sin solo", "fr": "solo", "it": "ne", "pt": "no", "nl": "kun", "sv": "sin"}.items()
}
"""Negations of another language that deny nothing in this one: "in the" is `no` in Portuguese."""

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

NEGATING = ("un", "non", "in", "im", "dis", "ir", "il", "de", "mis", "a", "anti", "des", "dés", "nicht", "niet", "on", "o", "u", "nie", "не")
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
