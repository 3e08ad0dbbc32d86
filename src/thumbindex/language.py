"""Detect a text's natural language by script and function words, without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from thumbindex.text import STOP_WORDS, has_cjk, normalize_letters, words

ENGLISH = "en"

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),  # before Chinese, whose characters Japanese uses too
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
)

_FUNCTION_WORDS = {
    language: frozenset(listed.split())
    for language, listed in {
        "en": (
            "the of and to is in that it for on with as are this be by not or from at an you your "
            "can will if when which has have was their"
        ),
        "de": (
            "der die das und ist nicht ein eine einen einem einer mit auf fur von zu im den dem "
            "des sich auch wird werden sie du oder wenn bei als"
        ),
        "fr": (
            "le la les des et est une un du dans pour pas que qui sur avec vous votre ce cette "
            "sont par au aux ou en ne se nous il elle"
        ),
        "es": (
            "el la los las y es una un del en para no que por con su al se lo como mas este esta "
            "son o tu puede cuando sin"
        ),
        "it": (
            "il lo la gli le e di che un una per non con del della dei delle nel nella sono si "
            "come questo questa da al alla o tuo puo"
        ),
        "pt": (
            "o a os as e um uma do da dos das em no na para nao que por com seu sua se como mais "
            "este esta sao ao ou voce quando"
        ),
        "nl": (
            "de het een en van is niet op te dat voor met zijn aan in je door ook als of naar "
            "wordt worden deze dit bij uit kan maar"
        ),
        "pl": (
            "i w na z nie do sie jest to ze jak po przez dla oraz lub od jego tym sa moze ktory "
            "ktore byc ten za"
        ),
        "sv": (
            "och att det som en ett pa ar av for med till den har inte om kan eller du din fran "
            "vid sig nar"
        ),
    }.items()
}

_QUESTION_WORDS = {
    language: frozenset(listed.split())
    for language, listed in {
        "de": "wie was wo wann warum wieso weshalb wer wen wem welche welcher welches welchen "
        "womit wofur wohin ich man mich mir mein meine meinen"
        " meinem meiner wir uns kann konnen soll muss gibt es hat habe haben am zum zur aus nach "
        "um so wurde sind war ihr ihre sein seine er",
        "fr": "comment pourquoi quand quoi quel quelle quels quelles combien je j me mon ma mes on "
        "faut peut puis dois fait a d l de y c s qu sont"
        " son sa ses leur leurs plus si",
        "es": (
            "cual cuales cuanto cuantos donde quien quienes porque yo me mi mis de a le les hay "
            "puedo debo hace ser si ya muy sus unos unas nos"
        ),
        "it": "quale quali quanto quanti quando dove perche chi cosa io mi mio mia miei i a in "
        "posso devo fa ho ha c l d su ai agli alle dal dalla"
        " nei negli ma anche",
        "pt": (
            "qual quais quanto quantos onde quem porque eu me meu minha meus de posso devo faz ha "
            "pelo pela nos nas aos tem ser mas ele ela"
        ),
        "nl": (
            "hoe wat waar wanneer waarom wie welke welk ik mijn mij we wij ons moet kun kunt er "
            "om tot hun haar hij ze zij over heeft heb hebben"
        ),
        "sv": (
            "hur vad var varfor vem vilken vilket vilka jag min mitt mina man mig vi oss ska "
            "maste i de dem ut upp hon han"
        ),
    }.items()
}
"""Function words in questions, by language.

They are rare in notes, so without this list a query would give them a high weight.
"""

FUNCTION_WORDS = STOP_WORDS.union(*_FUNCTION_WORDS.values(), *_QUESTION_WORDS.values())
"""Function words of all supported languages."""

INFLECTED_LANGUAGES = frozenset(_QUESTION_WORDS)
"""Languages besides English that have a stemmer and question words."""

_STOP_WORDS_OF = {
    language: _FUNCTION_WORDS[language] | question_words
    for language, question_words in _QUESTION_WORDS.items()
}

UNCERTAIN_WEIGHT = 0.25
"""Weight of probable function words, such as a character pair with part of a Chinese one."""

PARTICLE_WEIGHT = 0.5
"""Weight of a character pair that contains part of a Japanese particle or ending."""

_MIN_FUNCTION_WORDS = 3
"""A language is detected only if a text has at least this many of its function words."""

_MIN_LEAD = 1.3
"""A language is detected only if its function words outnumber the next language's by this factor.

Related languages share many function words.
"""

_MIN_SCRIPT_SHARE = 0.3
"""The script decides the language if more than this fraction of letters matches `_SCRIPTS`."""

_MIN_WORD_SHARE = 0.12
"""A language is detected in prose if at least this fraction of words are its function words."""

_HIRAGANA = re.compile("[\u3041-\u309f]+")
_JAPANESE_ENDING = re.compile(
    "(?:する|すれ|した|して|しま|しな|され|させ|せる|でき|きる|ます|ませ|ない|なく|なけ|なる|なり"
    "|なっ|たい|たく|いる|いま|いて|ある|あり|れる|れば|られ|える|です|でし|だけ|など|から|まで"
    "|より|には|では|とは|にも|でも|ので|のに|とき|こと|もの|ため|よう|ほう|どう|どれ|どこ|どの"
    "|いつ|なぜ|なに|この|その|もっと|について|とって|ください|ながら"
    "|[をがはにのとでもへやかねよたてるいうくきしすりれえけめせ])++"
)
"""A run of Japanese particles, auxiliaries and verb endings."""

_OKURIGANA = 2
"""A hiragana run of at most this length always counts as an ending or a particle."""

_CHINESE_FUNCTION_WORDS = re.compile(
    "为什么|為什麼|怎么样|怎么办|怎么|怎麼|怎样|如何|什么|甚麼|什麼|为何|哪些|哪个|哪里|哪儿|多少"
    "|是否|是不是|有没有|能不能|可不可以|可以|能够|能否|才能|需要|应该|应当|之后|以后|之前|以前"
    "|的时候|一个|一些|这个|那个|这些|那些|我们|你们|他们|以及|或者|还是|而且|但是|因为|所以|如果"
    "|没有|不能|无法|已经|关于|对于|有什么|[的吗呢吧把给与與我你您太很]|和(?!平)|了(?!解)"
)
"""A Chinese question word or function word, except characters that are common in longer words."""

_SPAN = re.compile(r"`[^`\n]*`")
_MAX_CHARACTERS = 2000
"""Maximum characters of prose that are examined to detect its language."""

_PROBE_LETTERS = 4
"""Minimum letters of a probe word. English vocabularies have shorter ones as parts of words."""

_PROBE_CHARACTERS = {
    "zh": "这说对还没经过时样给问让为个设开关么请该应们",
    "ja": "使設表選択必要変更動作説確認次直際",
}
"""Probe words of scripts without spaces: common characters that an English vocabulary lacks."""

_MIN_PROBE_SHARE = 0.75
"""A vocabulary supports a language if it has at least this fraction of the probe words."""


_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _listed in _FUNCTION_WORDS.items():
    for _word in _listed:
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
_LONG_FUNCTION_WORDS = frozenset(word for word in _LANGUAGES_OF if len(word) > 1)


def language_of(text: str) -> str:
    """Return the code of a text's language, such as "en", or an empty string if unclear."""
    return _language_by_script(text) or _language_by_words(Counter(words(text)))[0]


def _language_by_script(text: str) -> str:
    if text.isascii():
        return ""
    scripts = [(len(pattern.findall(text)), language) for language, pattern in _SCRIPTS]
    total = sum(count for count, _ in scripts)
    if total and total > sum(map(str.isalpha, text)) * _MIN_SCRIPT_SHARE:
        return "ja" if scripts[0][0] else max(scripts)[1]
    return ""


def language_of_prose(texts: Iterable[str]) -> str:
    """Return the language of prose, ignoring code spans; an empty string if unclear.

    Stricter than `language_of`: several function words of two letters or more are required.
    """
    text = _SPAN.sub(" ", "\n".join(_truncated(texts)))
    if language := _language_by_script(text):
        return language
    all_words = words(text)
    if not text.isascii() and not _language_by_words(Counter(all_words))[0]:
        return ""
    function_words = Counter(filter(_LONG_FUNCTION_WORDS.__contains__, all_words))
    if len(function_words) < _MIN_FUNCTION_WORDS:
        return ""
    language, count = _language_by_words(function_words)
    distinct = sum(language in _LANGUAGES_OF[word] for word in function_words)
    if distinct >= _MIN_FUNCTION_WORDS and count >= _MIN_WORD_SHARE * len(all_words):
        return language
    return ""


def _truncated(texts: Iterable[str]) -> Iterator[str]:
    remaining = _MAX_CHARACTERS
    for text in texts:
        yield text[:remaining]
        remaining -= len(text)
        if remaining <= 0:
            return


def _language_by_words(text_words: Mapping[str, int]) -> tuple[str, int]:
    """Return the language with most function words, and their number, from counts of words."""
    counts: dict[str, int] = {}
    for word, count in text_words.items():
        for language in _LANGUAGES_OF.get(word, ()):
            counts[language] = counts.get(language, 0) + count
    most, next_most = (*sorted(counts.values(), reverse=True), 0, 0)[:2]
    if most >= _MIN_FUNCTION_WORDS and most > _MIN_LEAD * next_most:
        return max(counts, key=counts.__getitem__), most
    return ("", 0)


def blank_function_words(text: str) -> str:
    """Replace Chinese and Japanese function words, particles and verb endings with spaces."""
    if not has_cjk(text):
        return text
    if not _SCRIPTS[0][1].search(text):
        return _CHINESE_FUNCTION_WORDS.sub(" ", text)
    return _HIRAGANA.sub(
        lambda match: (
            " " if len(match[0]) <= _OKURIGANA or _JAPANESE_ENDING.fullmatch(match[0]) else match[0]
        ),
        normalize_letters(text),
    )


def function_word_weights(text: str, languages: Collection[str]) -> Mapping[str, float]:
    """Return the weight of each function word in a query.

    Function words of English and of the query's language have the weight 0. The query's language is
    the one of `languages` with the most function words in the query, if English has fewer.
    Uncertain function words have a low weight.
    """
    query_words = dict.fromkeys(words(text))
    content_words = (
        frozenset(words(blank_function_words(text))) if has_cjk(text) else frozenset[str]()
    )
    # pairs with part of a function word or an ending, if the query has other pairs
    pairs = (
        [word for word in query_words if has_cjk(word) and word not in content_words]
        if any(map(has_cjk, content_words))
        else []
    )
    language, most = _language_of_question(query_words, languages)
    function_words = [word for word in query_words if _is_function_word(word, language)]
    pair_weight = PARTICLE_WEIGHT if _SCRIPTS[0][1].search(text) else UNCERTAIN_WEIGHT
    weights = {
        **dict.fromkeys(pairs, pair_weight),
        # a query's only function word may be another word: German `mit`, or the name MIT
        **dict.fromkeys(function_words, 0.0 if most > 1 else UNCERTAIN_WEIGHT),
    }
    return {**weights, **dict.fromkeys(filter(_is_english_function_word, query_words), 0.0)}


def _is_english_function_word(word: str) -> bool:
    """Return whether a word is a function word, or a contraction of one: doesn't, can't, we'll."""
    first, apostrophe, ending = word.partition("'")
    bare = first.removesuffix("n") if ending == "t" else first
    if not apostrophe:
        return word in STOP_WORDS
    return ending in _CONTRACTED and not STOP_WORDS.isdisjoint((first, bare))


_CONTRACTED = frozenset("t ll re ve d m".split())
"""Endings of English contractions. `words` removes the ending `'s`."""


def question_language(text: str) -> str:
    """Return the language, other than English, that a question has most function words of.

    An empty string if it has fewer than two, or as many of English.
    """
    long_words = {word for word in words(text) if len(word) > 1}
    language, count = _language_of_question(long_words, INFLECTED_LANGUAGES)
    return language if count > 1 else ""


def _language_of_question(
    query_words: Collection[str], languages: Collection[str]
) -> tuple[str, int]:
    """Return the language with most function words in a query, and their number.

    Return ("", 0) if English has as many.
    """
    english = sum(word in STOP_WORDS or word in _FUNCTION_WORDS[ENGLISH] for word in query_words)
    counts = (
        (sum(_is_function_word(word, code) for word in query_words), code) for code in languages
    )
    most, language = max(counts, default=(0, ""))
    return (language, most) if most > english else ("", 0)


def _is_function_word(word: str, language: str) -> bool:
    """Return whether a word, or each of two words that an apostrophe joins, is a function word.

    The first may lack its last vowel: cos'è, qu'est.
    """
    listed = _STOP_WORDS_OF.get(language, frozenset())
    first, apostrophe, second = word.partition("'")
    if not apostrophe:
        return word in listed
    return second in listed and any(first + vowel in listed for vowel in ("", *"aeiou"))


def probe_words(language: str) -> tuple[str, ...]:
    """Return words of a language to look up in a model's vocabulary; none if unsupported."""
    return tuple(
        sorted(
            _PROBE_CHARACTERS.get(language)
            or (word for word in _FUNCTION_WORDS.get(language, ()) if len(word) >= _PROBE_LETTERS)
        )
    )


def reads_language(language: str, knows: Callable[[str], bool]) -> bool:
    """Return whether a model supports a language: its vocabulary has most of the probe words.

    `knows` returns whether the vocabulary has a word. English and an unknown language ("") count as
    supported. If the vocabulary lacks the English words too, all languages count as supported.
    """
    return (
        language in ("", ENGLISH)
        or _has_probe_words(language, knows)
        or not _has_probe_words(ENGLISH, knows)
    )


def _has_probe_words(language: str, knows: Callable[[str], bool]) -> bool:
    probes = probe_words(language)
    return sum(map(knows, probes)) >= _MIN_PROBE_SHARE * len(probes)
