"""Text is normalized equally when a chunk is indexed and when a query is read."""

import time

import pytest

from thumbindex.text import fold, identifiers, split_identifier, words, words_with_positions
from thumbindex.visible_text import embedded_text, shorten_heading, strip_markup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't panic", ["don't", "panic"]),
        ("The user’s notes", ["the", "user", "notes"]),
        ("snake_case and CamelCase", ["snake", "case", "and", "camelcase"]),
        ("Müller café Straße", ["muller", "cafe", "strasse"]),
        ("日本語の検索", ["日本", "本語", "語の", "の検", "検索"]),
        ("字", ["字"]),
        (
            "人々はサーバー・ルームへ",
            ["人々", "々は", "はサ", "サー", "ーバ", "バー", "ルー", "ーム", "ムへ"],
        ),
        ("ｻｰﾊﾞ ＡＰＩ", ["サー", "ーバ", "api"]),  # half-width and full-width
        # decomposed, as on macOS
        ("re\u0301sume\u0301 \u1100\u1165\u11b7\u1109\u1162\u11a8", ["resume", "검색"]),
        ("Ærø Łódź cœur", ["aero", "lodz", "coeur"]),
        ("", []),
    ],
)
def test_words_are_folded_and_cjk_runs_become_pairs(text, expected):
    assert words(text) == expected


def test_pair_and_its_characters_share_a_position():
    assert words_with_positions("黒猫 x 字") == (["黒猫", "黒", "猫", "x", "字"], [0, 0, 0, 1, 2])
    assert words_with_positions("日本語") == (["日本", "日", "本語", "本", "語"], [0, 0, 1, 1, 1])


def test_identifier_next_to_cjk_keeps_its_parts():
    assert identifiers("関数getUserByIdと--force選項") == [
        *(("関数", ()), ("getuserbyid", ("get", "user", "by", "id"))),
        *(("と", ()), ("--force", ("force",)), ("選項", ())),
    ]


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("getUserById", ["get", "user", "by", "id"]),
        ("parse_json_data", ["parse", "json", "data"]),
        ("HTTPResponse", ["http", "response"]),
        ("utf8Decode", ["utf", "8", "decode"]),
    ],
)
def test_identifier_is_split_into_parts(identifier, parts):
    assert split_identifier(identifier) == parts
    assert identifiers(identifier) == [(fold(identifier), tuple(parts))]


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("--no-force", "--no-force"),
        ("app.get", "app.get"),
        ("call()", "call"),
        ("v1.5.3", "1.5.3"),
    ],
)
def test_flags_dotted_names_calls_and_versions_are_kept_complete(text, identifier):
    assert identifiers(text)[0][0] == identifier


def test_version_has_no_parts():
    assert identifiers("v1.5.3") == [("1.5.3", ())]


def test_words_of_other_scripts_are_kept_in_code():
    assert [word for word, _ in identifiers("über Привет 検索語")] == [
        "uber",
        "привет",
        "検索",
        "索語",
    ]


@pytest.mark.parametrize(
    ("markdown", "visible"),
    [
        ("[[Note|alias]] and [[Other]]", "alias and Other"),
        ("[text](https://example.org/a) ![alt](b.png)", "text alt"),
        ("> [!note] Title\n> body", "Title\nbody"),
        ("- [x] **done** and ~~gone~~", "done and gone"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "a b\n1 2"),
        ("`code` in <b>html</b>", "code in html"),
        ("```python\nx = 1\n```", "x = 1"),
    ],
)
def test_strip_markup_returns_visible_text(markdown, visible):
    assert strip_markup(markdown) == visible


def test_embedded_text_is_heading_path_and_visible_text():
    assert embedded_text(("Title", "Part"), "See [[x|this]].") == "Title > Part\n\nSee this."


@pytest.mark.parametrize("character", ["語", "a", "7"])
def test_heading_path_takes_at_most_a_third_of_the_window(character):
    path = shorten_heading(character * 5000)
    cost = sum(0.25 if c.isascii() and c.isalpha() else 1 for c in path)
    assert (cost <= 85, path.startswith(character), path.endswith(character)) == (True, True, True)


def seconds(text):
    start = time.process_time()
    strip_markup(text), words(text), identifiers(text)
    return time.process_time() - start


@pytest.mark.parametrize("tail", ["", "](\n```x"])
@pytest.mark.parametrize("worst", ["[", "*", "<", "`", "|-", "[a](", "[[a|", "a'", "字"])
def test_every_input_takes_linear_time(worst, tail):
    small, large = (
        min(seconds(worst * (size + n) + tail) for n in range(2)) for size in (2_000, 16_000)
    )
    # Linear time is 8 times as long, quadratic time 64 times. Clocks are unreliable below 5 ms.
    assert large < 30 * max(small, 0.005)
