import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fakes import FakeEmbedder, MemoryKeywordIndex, document, memory_snapshot
from thumbindex.language import probe_words
from thumbindex.model import Query
from thumbindex.query.pipeline import run_pipeline
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import closest_word, correct, correct_text, find_correction

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
    word: str, lexicon: Mapping[str, int], now: Mapping[str, int] | None = None
) -> str | None:
    held = lexicon if now is None else now
    return closest_word(
        word,
        lambda lengths: [each for each in lexicon if len(each) in lengths],
        lambda known: held.get(known, 0),
    )


def corrected(text: str) -> str:
    return correct_text(text, lambda word: None if word in LEXICON else nearest(word, LEXICON))


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("Cancel my subcription?", "Cancel my subscription?"),
        ("(acount)", "(account)"),
        ("pluign settings", "plugin settings"),
    ],
)
def test_an_unknown_word_becomes_the_closest_known_one(asked: str, searched: str) -> None:
    assert corrected(asked) == searched


@pytest.mark.parametrize(
    "text", ['"subcription"', "`subcription`", "--subcription", "PLUIGN docs", "syn", "プラグイン"]
)
def test_quoted_code_like_and_short_words_are_left_alone(text: str) -> None:
    assert corrected(text) == text


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("l'éccran, d'applicatoin", "l'ecran, d'application"),
        ("HAR-Daeti exportieren", "HAR-datei exportieren"),
        ("«Zwei-Fakktor-Anmeldung»", "«Zwei-faktor-Anmeldung»"),
        ("закладак", "закладка"),
    ],
)
def test_accents_elisions_hyphens_and_marks_of_other_languages_hide_no_misspelt_word(
    asked: str, searched: str
) -> None:
    lexicon = dict.fromkeys(
        (
            "ecran noir application configuracion datei exportieren zwei faktor anmeldung закладка"
        ).split(),
        5,
    )
    assert (
        correct_text(asked, lambda word: None if word in lexicon else nearest(word, lexicon))
        == searched
    )


def test_a_word_of_a_text_heading_title_or_alias_is_right_in_its_plural_too() -> None:
    notes = [
        document(
            "a.md",
            "# Instalación\n\n## Quagga\n\nInstall plugins, quaggy instalacions settelkasten.",
            aliases=("Zettelkasten",),
        )
    ]
    tools = Tools(memory_snapshot(notes))
    assert [
        find_correction(word, tools)
        for word in ("plugin", "quaggas", "instalacion", "zettelkasten", "plgins")
    ] == [None, None, None, None, "plugins"]


@pytest.mark.parametrize("text", ["ﷺ" * 3_000, "".join(map(chr, range(0x4E00, 0x4E00 + 9_999)))])
def test_a_question_that_is_one_endless_word_asks_the_index_little(text: str) -> None:
    class Counting(MemoryKeywordIndex):
        asked = 0

        def chunk_frequency(self, word: str) -> int:
            self.asked += 1
            return super().chunk_frequency(word)

    snapshot = memory_snapshot([document("a.md", "# Tea\n\nGreen tea.")])
    keyword = Counting(snapshot.catalog)
    run_pipeline(Query(text), Tools(replace(snapshot, keyword=keyword)), time.perf_counter)
    assert keyword.asked < 1_000


def test_endings_are_no_mistakes_and_suffixes_no_words() -> None:
    lexicon = {"strange": 9, "stranded": 1, "less": 50, "end": 50, "sends": 9}
    assert [nearest(word, lexicon) for word in ("strangers", "endless")] == [None, None]


def test_no_more_than_twenty_unknown_words_are_corrected() -> None:
    tools = Tools(memory_snapshot([document("a.md", "Cancel a subscription.")]))
    mistakes = [
        f"{'subscription'[:at]}{letter}{'subscription'[at + 1 :]}"
        for at in range(1, 12)
        for letter in "xyz"
    ]
    text = " ".join(["cancel", *mistakes, "cancel", *mistakes])
    searched = correct(Search(Query(text), text), tools).text.split()
    assert searched == ["cancel", *["subscription"] * 20, *mistakes[20:]] * 2


def test_words_that_are_counted_and_that_nothing_holds_any_more_are_no_corrections() -> None:
    now = {"tables": 2, "plugin": 4, "settings": 9}
    lexicon = {**now, "table": 90, "label": 90, "plugin": 90}
    assert [nearest(word, lexicon, now) for word in ("tablee", "labell")] == ["tables", None]


def test_a_word_that_the_model_knows_is_spelled_right_though_no_text_holds_it() -> None:
    snapshot = memory_snapshot([document("a.md", "The infant slept, said baba.")])
    asked = Search(Query("was the baby awake"), "was the baby awake")
    found = [
        correct(asked, Tools(snapshot, embedder=embedder)).text
        for embedder in (FakeEmbedder(), FakeEmbedder(known=["baby"]))
    ]
    assert found == ["was the baba awake", "was the baby awake"]


def test_a_model_that_does_not_read_the_notes_says_nothing_about_their_spelling() -> None:
    english = FakeEmbedder(known=[*probe_words("en"), "walk"])
    notes = [document("a.md", "Wo ist der Wald", language=language) for language in ("de", "en")]
    found = [
        correct(
            Search(Query("walk"), "walk"), Tools(memory_snapshot([note]), embedder=english)
        ).text
        for note in notes
    ]
    assert found == ["wald", "walk"]


def test_a_function_word_of_the_language_that_is_asked_in_is_no_mistake(ask) -> None:
    notes = [
        document("brot.md", "# Brot\n\nEs steigt warm im Ofen.", language="de"),
        document("other.md", "# Laden\n\nDas Brot ist teuer."),
    ]
    assert ask(notes, "warum steigt das Brot")[0].text == "warum steigt das Brot"
