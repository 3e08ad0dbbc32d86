"""Languages are detected by function words, which sets stems, query weights and probe words."""

from __future__ import annotations

import pytest

from thumbindex.index.analysis import stems
from thumbindex.language import (
    INFLECTED_LANGUAGES,
    blank_function_words,
    function_word_weights,
    language_of,
    language_of_prose,
    probe_words,
)
from thumbindex.query.understand import keyword_terms, stop_weights

GERMAN = (
    "Schalte das Gerät ein und verbinde es über das Menü mit dem Netz, danach erscheint es in der "
    "Liste."
)
ENGLISH = "Switch the device on and connect it to the network, then it is in the list."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GERMAN, "de"),
        (ENGLISH, "en"),
        (
            (
                f"{GERMAN} `for each in the list of all, it is the one that is not in it: if you "
                "can, use it`"
            ),
            "de",
        ),
        # few distinct words
        ("Vector (as a sender and as a receiver) e o a as com", ""),
        ("die der das " + "word " * 40, ""),  # a title in a long list
        ("ファイルを復元する", "ja"),
    ],
)
def test_language_of_prose_is_detected_only_if_certain(text: str, expected: str) -> None:
    assert language_of_prose((text,)) == expected


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("de", "buch bucher buchern buches"),
        ("fr", "supprimer supprime supprimee supprimees"),
        ("fr", "eau l'eau d'eau"),
        ("es", "configuracion configuraciones configurar"),
        ("it", "isola dell'isola isole"),
        ("pt", "configuracao configuracoes configurar"),
        ("nl", "huis huizen"),
        ("sv", "installning installningar installningarna"),
    ],
)
def test_unaccented_forms_of_a_word_have_one_stem(language: str, forms: str) -> None:
    assert len({stems(form, [language])[1] for form in forms.split()}) == 1


@pytest.mark.parametrize(
    ("query", "languages", "expected"),
    [
        ("wie andere ich das passwort", ["de"], {"wie": 0.0, "ich": 0.0, "das": 0.0}),
        ("wie andere ich das passwort", [], {}),  # no text is German
        ("mit license", ["de"], {"mit": 0.25}),  # a single one may be a name
        ("how do i change the mit license", ["de"], {"how": 0.0, "do": 0.0, "i": 0.0, "the": 0.0}),
        ("che cos'e un deadlock", ["it"], {"che": 0.0, "cos'e": 0.0, "un": 0.0}),
        ("qu'est dell'acqua", ["fr", "it"], {"qu'est": 0.25}),
        ("pourquoi est ma page vide", ["de", "fr"], {"pourquoi": 0.0, "est": 0.0, "ma": 0.0}),
        ("it doesn't say we'll o'hare", ["fr"], {"it": 0.0, "doesn't": 0.0, "we'll": 0.0}),
    ],
)
def test_function_words_are_those_of_the_query_language(
    query: str, languages: list[str], expected: dict[str, float]
) -> None:
    assert function_word_weights(query, languages) == expected


@pytest.mark.parametrize(
    ("query", "subject"),
    [
        ("怎么开启两步验证", "开启两步验证"),
        ("二要素認証を有効にするには", "二要素認証 有効"),
        ("りんごの皮", "りんごの皮"),  # a word in hiragana is not an ending
        ("데이터를 백업", "데이터를 백업"),
        ("reset the password", "reset the password"),
    ],
)
def test_blanking_function_words_leaves_the_subject(query: str, subject: str) -> None:
    assert blank_function_words(query).split() == subject.split()


def test_pairs_with_function_words_weigh_less_unless_alone() -> None:
    assert function_word_weights("怎么开启", []) == {"怎么": 0.25, "么开": 0.25}
    assert function_word_weights("有効にする", []) == {"効に": 0.5, "にす": 0.5, "する": 0.5}
    assert function_word_weights("する", []) == {}


def test_unknown_pairs_between_known_words_are_dropped() -> None:
    frequencies = {"屏幕": 3, "禁止": 2, "应用": 9}
    queries = [
        keyword_terms(text, stop_weights(text, (), lambda pair: frequencies.get(pair, 0)))
        for text in ("屏幕禁止应用", "兰花换盆")
    ]
    assert [[term.text for term in terms] for terms in queries] == [
        ["屏幕", "禁止", "应用"],
        ["兰花", "花换", "换盆"],
    ]


def test_every_inflected_language_has_probe_words() -> None:
    probes = {language: probe_words(language) for language in INFLECTED_LANGUAGES}
    assert all(len(probe) >= 4 for probe in probes.values())
    assert {language: language_of(" ".join(probe)) for language, probe in probes.items()} == {
        language: language for language in INFLECTED_LANGUAGES
    }
