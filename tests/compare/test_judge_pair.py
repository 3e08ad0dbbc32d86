"""Judgments of pairs, each from both sides: same text, a question for the user, or distinct."""

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.corpora import SHARED, needs_corpora
from thumbindex.compare.differences import judge_pair
from thumbindex.model import BlockKind, Chunk, PairJudgment
from thumbindex.settings import DuplicatesSettings

PAIRS = SHARED / "dups" / "dev" / "pairs.jsonl"
SETTINGS = DuplicatesSettings()

SAME = [
    ("Notes are kept\nin a vault that you choose.", "Notes are kept in a\nvault that you choose."),
    ("- one item here\n- another item", "* one item here\n* another item"),
    ("- [ ] Open it", "- Open it"),
    ("Use **bold** and *italic* text", "Use __bold__ and _italic_ text"),
    ("See [[Guide|the guide]] for it", "See [the guide](guide.md) for it"),
    (
        "See [the guide][1] for it now\n\n[1]: https://a.b/c#d",
        "See [the guide](https://a.b/c#d) for it now",
    ),
    ("See <https://example.com/a> there", "See https://example.com/a there"),
    ("| A | B |\n| --- | --- |\n| x1 | y |", "|A|B|\n|-|-|\n|x1|y|"),
    ("AT&amp;T costs &lt;5&gt; dollars&nbsp;now", "AT&T costs <5> dollars now"),
    ("It’s a “quoted” word – really… well", 'It\'s a "quoted" word - really... well'),
    ("Don't do it", "Do not do it"),
    ("Released on 1 March 2024 as planned", "Released on Mar 1st, 2024 as planned"),
    ("Up to 1,000 users", "Up to 1000 users"),
    ("Wait 5 MB more", "Wait 5MB more"),
    ("```js\nlet a = 1\n```", "~~~js\nlet a = 1\n~~~"),
    ("> Quoted text stands here", "Quoted text stands here"),
    ("Heading\n=======\n\nText of it", "# Heading\n\nText of it"),
    ("Text with a note[^1] here", "Text with a note[^2] here"),
    ("Text here. ^abc123", "Text here."),
    ("Text here <!-- todo -->", "Text here"),
    ("zero\u200bwidth words here", "zerowidth words here"),
    ("    indented code --here", "```\nindented code --here\n```"),
    ("Hello ==marked== text", "Hello marked text"),
]

APART = [
    ("Wait 5 Mb more", "Wait 5 MB more"),
    ("set it to -1 now", "set it to 1 now"),
    ("when x > 5 it stops", "when x < 5 it stops"),
    ("Costs $5 a month", "Costs €5 a month"),
    ("from 5 to 10", "from 10 to 5"),
    ("Alice reports to Bob here", "Bob reports to Alice here"),
    ("Every Monday at noon", "Every Tuesday at noon"),
    ("version 1.4.5", "version 1.4.6"),
    ("all users see it", "some users see it"),
    ("Use --force", "Use --no-force"),
    ("`a == b` holds", "`a != b` holds"),
    ("```\na = b + 1\n```", "```\na = b - 1\n```"),
    ("```python\nif a:\n    b()\nc()\n```", "```python\nif a:\n    b()\n    c()\n```"),
    ("Enter <username> here", "Enter <password> here"),
    ("- [x] Ship it", "- [ ] Ship it"),
    ("~~Supported on Mac~~", "Supported on Mac"),
    ("✅ Works on Mac", "❌ Works on Mac"),
    ("| A | B |\n|---|---|\n| x | |", "| A | B |\n|---|---|\n| | x |"),
    ("| A | B |\n|---|---|\n| x | y |", "| A | C |\n|---|---|\n| x | y |"),
    ("Backups are kept for a year.", "Backups are kept for a year. Guests are exempt."),
    ("https://example.com/v1/x", "https://example.com/v2/x"),
    ("10 KB", "10 KiB"),
    ("a million", "a billion"),
    ("x² grows", "x³ grows"),
    ("Bitte die Datei nicht löschen", "Bitte die Datei löschen"),
]


def chunk(
    text: str,
    kind: BlockKind = BlockKind.PROSE,
    headings: tuple[str, ...] = ("T",),
    language: str = "",
) -> Chunk:
    return Chunk(0, 0, kind, headings, 1, 1, text, language=language)


def judged(first: str, second: str, cosine: float | None = 0.97) -> PairJudgment:
    return judge_pair(chunk(first), chunk(second), cosine, SETTINGS)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_markup_line_breaks_and_typography_do_not_matter(first: str, second: str) -> None:
    assert (judged(first, second).zone, judged(second, first).zone) == ("same", "same")


@pytest.mark.parametrize(("first", "second"), APART)
def test_different_statements_are_for_the_owner_to_decide(first: str, second: str) -> None:
    assert (judged(first, second).zone, judged(second, first).zone) == ("grey", "grey")


@needs_corpora
def test_labeled_duplicates_are_all_found_and_nothing_else_is_merged() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    zones = {row["id"]: judged(row["a"], row["b"]).zone for row in rows}
    assert {zones[row["id"]] for row in rows if row["label"] == "duplicate"} == {"same"}
    assert {zones[row["id"]] for row in rows if row["label"] == "distinct-but-similar"} == {
        "grey",
        "distinct",
    }


def test_unicode_form_does_not_matter() -> None:
    text = (
        "Die Schlüssel für größere Räume hängen über der Tür, und wer früher kommt, möchte sie "
        "schön zurücklegen können."
    )
    assert judged(text, unicodedata.normalize("NFD", text)) == PairJudgment(
        "same", "identical except for markup"
    )


def test_short_equal_texts_under_different_headings_are_grey() -> None:
    first, second = (
        chunk("Optional, 30 by default.", headings=("A", "timeout")),
        chunk("Optional, 30 by default.", headings=("B", "retries")),
    )
    assert judge_pair(first, second, 0.99, SETTINGS) == PairJudgment(
        "grey", "short texts under different headings: `A > timeout` and `B > retries`"
    )
    assert (
        judge_pair(first, replace(second, heading_path=("A", "Timeout")), 0.99, SETTINGS).zone
        == "same"
    )


def test_short_texts_with_different_values_and_headings_are_distinct() -> None:
    first, second = (
        chunk("Released on 2021/04/01.", headings=("v0.11.12",)),
        chunk("Released on 2021/04/04.", headings=("v0.11.13",)),
    )
    assert judge_pair(first, second, 0.95, SETTINGS).zone == "distinct"
    assert (
        judge_pair(first, replace(second, heading_path=("v0.11.12",)), 0.95, SETTINGS).differs
        == "`2021-04-01` vs. `2021-04-04`"
    )


def test_blocks_of_different_kinds_are_grey() -> None:
    assert judge_pair(
        chunk("same text"), chunk("same text", BlockKind.LIST), 1.0, SETTINGS
    ) == PairJudgment("grey", "prose vs. list")


@pytest.mark.parametrize(
    ("first", "second", "zone"),
    [
        ("python", "js", "distinct"),
        ("js", "js", "same"),
        ("", "python", "same"),
        ("yaml", "json", "distinct"),
    ],
)
def test_code_in_different_languages_is_distinct(first: str, second: str, zone: str) -> None:
    pair = [
        chunk(f"```{name}\nx = 1\n```", BlockKind.CODE, language=name) for name in (first, second)
    ]
    assert judge_pair(pair[0], pair[1], 1.0, SETTINGS).zone == zone


def test_translation_is_distinct() -> None:
    english = "The file is deleted and it is not kept in the vault."
    german = "Die Datei wird gelöscht und ist nicht mehr in der Ablage, auch wenn du sie brauchst."
    assert (
        judged(english, german)
        == judged(english, german, None)
        == PairJudgment("distinct", "different languages: en vs. de")
    )


def test_cosine_decides_if_texts_share_few_words() -> None:
    first, second = (
        "Notes of the day are written here each morning.",
        "Journals can be filled at dawn by whoever likes to.",
    )
    assert [judged(first, second, cosine).zone for cosine in (0.99, 0.83, 0.81, None)] == [
        "grey",
        "grey",
        "distinct",
        "distinct",
    ]


def test_text_with_an_added_sentence_is_never_merged() -> None:
    text = (
        "Backups are kept for a year in two places that are far away from each other, and they "
        "are read once a month."
    )
    assert judged(text, f"{text} Guests are exempt.").rule.endswith(
        "but only one contains `are guests exempt`"
    )


PIECES = st.sampled_from(
    [
        "a",
        "The file",
        " ",
        "\n",
        "\n\n",
        "|",
        "| - |",
        "`x`",
        "```\n",
        "~~",
        "<b>",
        "&#xe000;",
        "\ue0000\ue001",
        "n't",
        "1.",
        "- [x] ",
        "**",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, TEXTS)
def test_judgment_is_symmetric(first: str, second: str) -> None:
    assert judged(first, second).zone == judged(second, first).zone
    assert judged(first, first).zone == "same"
