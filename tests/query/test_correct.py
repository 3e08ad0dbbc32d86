import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fakes import FakeEmbedder, MemoryKeywordIndex, document, memory_snapshot
from thumbindex.language import probe_words
from thumbindex.model import Query
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.spellings import closest_word, find_correction
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import correct, correct_text

LEXICON: Mapping[str, int] = {
    "subscription": 9,
    "account": 20,
    "accounts": 3,
    "preview": 7,
    "live": 30,
    "plugin": 40,
    "lumen": 1,
    "sync": 50,
}


def nearest(
    word: str, lexicon: Mapping[str, int], current: Mapping[str, int] | None = None
) -> str | None:
    frequencies = lexicon if current is None else current
    return closest_word(
        word,
        lambda lengths: [word for word in lexicon if len(word) in lengths],
        lambda known: frequencies.get(known, 0),
    )


def corrected(text: str) -> str:
    return correct_text(text, lambda word: None if word in LEXICON else nearest(word, LEXICON))


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("Cancel my subcription?", "Cancel my subscription?"),
        ("(acount)", "(account)"),
        ("pluign settings", "plugin settings"),
        ("--subcription", "--subscription"),
        ("lumen.acount_sync()", "lumen.account_sync()"),
    ],
)
def test_unknown_word_is_corrected_to_nearest_known_word(typed: str, searched: str) -> None:
    assert corrected(typed) == searched


@pytest.mark.parametrize(
    "text", ['"subcription"', "`subcription`", "subcription2", "PLUIGN docs", "syn", "プラグイン"]
)
def test_quotes_codes_acronyms_and_short_words_are_not_corrected(text: str) -> None:
    assert corrected(text) == text


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("l'éccran, d'applicatoin", "l'ecran, d'application"),
        ("HAR-Daeti exportieren", "HAR-datei exportieren"),
        ("«Zwei-Fakktor-Anmeldung»", "«Zwei-faktor-Anmeldung»"),
        ("закладак", "закладка"),
    ],
)
def test_words_with_accents_elisions_or_hyphens_are_corrected(typed: str, searched: str) -> None:
    lexicon = dict.fromkeys(
        (
            "ecran noir application configuracion datei exportieren zwei faktor anmeldung закладка"
        ).split(),
        5,
    )
    assert (
        correct_text(typed, lambda word: None if word in lexicon else nearest(word, lexicon))
        == searched
    )


def test_stems_of_text_headings_and_aliases_are_not_corrected() -> None:
    notes = [
        document(
            "a.md",
            "# Instalación\n\n## Quagga\n\nInstall plugins, quaggy instalacions settelkasten.",
            aliases=("Zettelkasten",),
        )
    ]
    tools = Tools(memory_snapshot(notes))
    assert [
        find_correction(word, tools.snapshot.keyword)
        for word in ("plugin", "quaggas", "instalacion", "zettelkasten", "plgins")
    ] == [None, None, None, None, "plugins"]


@pytest.mark.parametrize("text", ["ﷺ" * 3_000, "".join(map(chr, range(0x4E00, 0x4E00 + 9_999)))])
def test_endless_word_causes_few_lookups(text: str) -> None:
    class Counting(MemoryKeywordIndex):
        asked = 0

        def chunk_frequency(self, word: str) -> int:
            self.asked += 1
            return super().chunk_frequency(word)

    snapshot = memory_snapshot([document("a.md", "# Tea\n\nGreen tea.")])
    keyword = Counting(snapshot.catalog)
    run_pipeline(Query(text), Tools(replace(snapshot, keyword=keyword)), time.perf_counter)
    assert keyword.asked < 1_000


def test_at_most_twenty_words_are_corrected() -> None:
    tools = Tools(memory_snapshot([document("a.md", "Cancel a subscription.")]))
    mistakes = [
        f"{'subscription'[:at]}{letter}{'subscription'[at + 1 :]}"
        for at in range(1, 12)
        for letter in "xyz"
    ]
    text = " ".join(["cancel", *mistakes, "cancel", *mistakes])
    searched = correct(Search(Query(text), text), tools).text.split()
    assert searched == ["cancel", *["subscription"] * 20, *mistakes[20:]] * 2


def test_words_of_deleted_chunks_are_not_suggested() -> None:
    current = {"tables": 2, "plugin": 4, "settings": 9}
    lexicon = {**current, "table": 90, "label": 90, "plugin": 90}
    assert [nearest(word, lexicon, current) for word in ("tablee", "labell")] == ["tables", None]


def test_word_known_to_the_model_is_not_corrected() -> None:
    snapshot = memory_snapshot([document("a.md", "The infant was awake, said babby.")])
    search = Search(Query("was the baby awake"), "was the baby awake")
    texts = [
        correct(search, Tools(snapshot, embedder=embedder)).text
        for embedder in (FakeEmbedder(), FakeEmbedder(known=["baby"]))
    ]
    assert texts == ["was the babby awake", "was the baby awake"]


def test_model_for_another_language_does_not_prevent_corrections() -> None:
    english = FakeEmbedder(known=[*probe_words("en"), "walter"])
    notes = [document("a.md", "Wo ist der Walzer", language=language) for language in ("de", "en")]
    texts = [
        correct(
            Search(Query("walter"), "walter"), Tools(memory_snapshot([note]), embedder=english)
        ).text
        for note in notes
    ]
    assert texts == ["walzer", "walter"]


def test_function_words_of_query_language_are_not_corrected(ask) -> None:
    notes = [
        document("brot.md", "# Brot\n\nEs steigt warm im Ofen.", language="de"),
        document("other.md", "# Laden\n\nDas Brot ist teuer."),
    ]
    assert ask(notes, "warum steigt das Brot")[0].text == "warum steigt das Brot"


NOTES = [
    document("plan.md", "# Plan\n\nRead the timetable over coffee, and give the form back."),
    document("links.md", "# Permalinks\n\nConfigure permalinks in the site settings."),
    document("treni.md", "# Casa\n\nGli orari dei negozi sono questi.", language="it"),
    document("altro.md", "# Libri\n\nTieni i libri nella borsa, per la scuola.", language="it"),
]


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("hwo to configre permalinks", "hwo to configure permalinks"),
        ("configure permolinks", "configure permalinks"),
        ("settigns", "settings"),
        ("stie settings", "site settings"),
        ("tsie settings", "tsie settings"),
        # slips in code
        ("site.permalniks", "site.permalinks"),
        ("setPermalniks", "setPermalniks"),
        ("site.permalings", "site.permalings"),
        ("Configre Permalinks", "configure Permalinks"),
        # a language that no note is in
        ("wie lese ich das timetabel", "wie lese ich das timetabel"),
        # function words of any language
        ("over mich", "over mich"),
        # no note has both words
        ("orari dei treni", "orari dei treni"),
        ("configure timotable", "configure timotable"),
        # short words with another letter, and names
        ("Ömer", "Ömer"),
        ("coffee with Fred", "coffee with Fred"),
        ("with (Timatable)?", "with (Timatable)?"),
        ("with Timatable’s?", "with Timatable’s?"),
        # all words are unknown
        ("unbekannte settinge", "unbekannte settinge"),
    ],
)
def test_word_is_corrected_only_if_the_rest_of_the_question_supports_it(
    typed: str, searched: str
) -> None:
    snapshot = memory_snapshot(NOTES)
    assert correct(Search(Query(typed), typed), Tools(snapshot)).text == searched


def test_verbatim_query_is_searched_as_typed(ask) -> None:
    notes = [document("a.md", "# Money\n\nCancel a subscription, and don't wait.")]
    texts = [
        (search.text, search.other_forms != ())
        for verbatim in (False, True)
        for search, _ in [ask(notes, Query("subcription dont", verbatim=verbatim))]
    ]
    assert texts == [("subscription dont", True), ("subcription dont", False)]
