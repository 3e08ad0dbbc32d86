"""What is one text twice, what its owner is asked about, and what differs: tables of both, each
pair looked at from both sides.
"""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thumbindex.compare.differences import judge
from thumbindex.model import BlockKind, Chunk, Judgment
from thumbindex.settings import DuplicatesSettings

PAIRS = Path(__file__).parents[3] / "shared/eval/dups/dev/pairs.jsonl"
SETTINGS = DuplicatesSettings()

SAME = [
    ("Notes are kept\nin a vault that you choose.", "Notes are kept in a\nvault that you choose."),
    (
        "It was released in\n2019. Then it grew by half.",
        "It was released in 2019. Then\nit grew by half.",
    ),
    ("- one item here\n- another item", "* one item here\n* another item"),
    ("1. Open it\n2. Close it", "1) Open it\n2) Close it"),
    ("1. Open it\n2. Close it", "1. Open it\n1. Close it"),
    ("- [ ] Open it", "- Open it"),
    ("Use **bold** and *italic* text", "Use __bold__ and _italic_ text"),
    ("Use **bold** text now", "Use bold text now"),
    ("See [the guide](https://a.b/c) for it", "See the guide for it"),
    ("See [[Guide|the guide]] for it", "See [the guide](guide.md) for it"),
    ("See [[My guide (new)|the guide]] for it", "See [the guide](<My guide (new).md>) for it"),
    ("See [[My guide (new)|the guide]] for it", "See [the guide](My%20guide%20(new).md) for it"),
    (
        "See [the guide][1] for it now\n\n[1]: https://a.b/c#d",
        "See [the guide](https://a.b/c#d) for it now",
    ),
    ("See [the guide][1] for it", 'See [the guide](x.md "Title") for it'),
    ("See <https://example.com/a> there", "See https://example.com/a there"),
    ("See [https://example.com/a](https://example.com/a) there", "See https://example.com/a there"),
    ("| A | B |\n| --- | --- |\n| x1 | y |", "|A|B|\n|-|-|\n|x1|y|"),
    ("| A | B |\n| --- | --- |\n| x1 | y |", "A | B\n--- | ---\nx1 | y"),
    ("| A | B |\n| :-- | :-: |\n| [[x\\|y]] | y |", "| A | B |\n|---|---|\n| [[x\\|y]] | y |"),
    ("AT&amp;T costs &lt;5&gt; dollars&nbsp;now", "AT&T costs <5> dollars now"),
    ("It’s a “quoted” word – really… well", 'It\'s a "quoted" word - really... well'),
    ('It\'s a "quoted" word', "It’s a «quoted» word"),
    ("A long—dashed—sentence", "A long - dashed - sentence"),
    ("Don't do it when you can't", "Do not do it when you cannot"),
    ("Released on March 1, 2024 as planned", "Released on 2024-03-01 as planned"),
    ("Released on 1 March 2024 as planned", "Released on Mar 1st, 2024 as planned"),
    ("Up to 1,000 users", "Up to 1000 users"),
    ("Wait 5 MB more", "Wait 5MB more"),
    ("a 30-day period", "a 30 day period"),
    ("```js\nlet a = 1\n```", "~~~javascript\nlet a = 1\n~~~"),
    ("```\nlet a = 1\n```", "```js\nlet a = 1\n```"),
    ("> Quoted text stands here", "Quoted text stands here"),
    ("## Heading\n\nText of it", "# Heading #\n\nText of it"),
    ("Heading\n=======\n\nText of it", "# Heading\n\nText of it"),
    ("Text<br>more text", "Text\nmore text"),
    ("Press <kbd>Ctrl</kbd> now", "Press `Ctrl` now"),
    ("Press `<Enter>` now", "Press `Enter` now"),
    ("Text with a note[^1] here", "Text with a note[^2] here"),
    ("> [!note] Title\n> body text", "> [!info] Title\n> body text"),
    ("Text here. ^abc123", "Text here."),
    ("Text here <!-- todo -->", "Text here"),
    ("Text here\r\nmore", "Text here\nmore"),
    ("Café is open", "Café is open"),
    ("zero\u200bwidth words here", "zerowidth words here"),
    ("Text  here   now ", "Text here now"),
    ("\\*not emphasis\\* stays", "*not emphasis* stays"),
    ("![[image.png]]\n\nText", "![[image.png|image.png]]\n\nText"),
    ("    indented code --here", "```\nindented code --here\n```"),
    ("+ plus item", "- plus item"),
    ("***\n\nText here", "---\n\nText here"),
    ("Use `snake_case` now", "Use snake_case now"),
    ("The **`--force`** flag", "The `--force` flag"),
    ("Term  \nwith hard break", "Term\\\nwith hard break"),
    ("Hello ==marked== text", "Hello marked text"),
]

APART = [
    (
        "See [the guide](https://a.b/c#setup) for it",
        "See [the guide](https://a.b/c#removal) for it",
    ),
    ("See [the guide](https://a.b/c#setup) for it", "See [the guide](https://a.b/c) for it"),
    (
        "See [the guide][1] now\n\n[1]: https://a.b/c#d",
        "See [the guide][1] now\n\n[1]: https://a.b/c#e",
    ),
    ("See https://a.b/c#setup for it", "See https://a.b/c#removal for it"),
    ("Wait 5 Mb more", "Wait 5 MB more"),
    ("set it to -1 now", "set it to 1 now"),
    ("when x > 5 it stops", "when x < 5 it stops"),
    ("when x >= 5 it stops", "when x > 5 it stops"),
    ("temperature of −5 °C", "temperature of 5 °C"),
    ("It was so until\n2019. Then it grew.", "It was so until\n2020. Then it grew."),
    ("At 10:30 am", "At 10:30 pm"),
    ("Costs $5 a month", "Costs €5 a month"),
    ("from 5 to 10", "from 10 to 5"),
    ("Alice reports to Bob here", "Bob reports to Alice here"),
    ("Copy files from A to B", "Copy files from B to A"),
    ("Sync from laptop to phone", "Sync to laptop from phone"),
    ("about 5 minutes", "exactly 5 minutes"),
    ("5 minutes", "~5 minutes"),
    ("5+ users", "5 users"),
    ("Released on March 1, 2024", "Released on March 2, 2024"),
    ("Released on 03/04/2024", "Released on 04/03/2024"),
    ("2024-03-01 it is", "2024-03-11 it is"),
    ("Every Monday at noon", "Every Tuesday at noon"),
    ("In January it starts", "In June it starts"),
    ("version 1.4.5", "version 1.4.6"),
    ("v2 of the API", "v3 of the API"),
    ("Python 3.11 needed", "Python 3.12 needed"),
    ("2.0.0-beta.1 is out", "2.0.0-beta.2 is out"),
    ("1.0-rc1 out", "1.0 out"),
    ("You must restart it", "You should restart it"),
    ("You MAY restart it", "You may restart it"),
    ("You can restart it", "You cannot restart it"),
    ("It is supported", "It is unsupported"),
    ("It is secure now", "It is insecure now"),
    ("activate the plugin", "deactivate the plugin"),
    ("Increase the limit", "Decrease the limit"),
    ("turn it on now", "turn it off now"),
    ("scale up first", "scale down first"),
    ("opt-in setting", "opt-out setting"),
    ("a public key", "a private key"),
    ("on the client side", "on the server side"),
    ("Upload the file", "Unload the file"),
    ("all users see it", "some users see it"),
    ("any of them", "all of them"),
    ("users with access", "users without access"),
    ("Use `git push --force` now", "Use `git push` now"),
    ("Use --force", "Use --no-force"),
    ("use `-r` here", "use `-R` here"),
    ("use -o file", "use -O file"),
    ("call `getUser` now", "call `getuser` now"),
    ("`a == b` holds", "`a != b` holds"),
    ("`a && b` holds", "`a || b` holds"),
    ("`[-Name]` given", "`-Name` given"),
    ("```\na = b + 1\n```", "```\na = b - 1\n```"),
    ("```python\nif a:\n    b()\nc()\n```", "```python\nif a:\n    b()\n    c()\n```"),
    ("```sh\nrun # now\nstop\n```", "```sh\nrun # now stop\n```"),
    ("Enter <username> here", "Enter <password> here"),
    ("- [x] Ship it", "- [ ] Ship it"),
    ("~~Supported on Mac~~", "Supported on Mac"),
    ("✅ Works on Mac", "❌ Works on Mac"),
    ("| A | B |\n|---|---|\n| x | |", "| A | B |\n|---|---|\n| | x |"),
    ("| A | B |\n|---|---|\n| x | y |", "| A | C |\n|---|---|\n| x | y |"),
    ("| A | B |\n|---|---|\n| x | y |", "| A | B |\n|---|---|\n| y | x |"),
    ("Backups are kept for a year.", "Backups are kept for a year. Guests are exempt."),
    ("Backups are kept.", "Backups are kept. This does not hold for guests."),
    ("https://example.com/v1/x", "https://example.com/v2/x"),
    ("Port 8080 is used", "Port 8081 is used"),
    ("192.168.0.1 is it", "192.168.0.2 is it"),
    ("error E1001 means", "error E1002 means"),
    ("ISO 27001 holds", "ISO 27002 holds"),
    ("twice a day", "once a day"),
    ("first of all", "third of all"),
    ("three of them", "four of them"),
    ("50% of it", "50 of it"),
    ("5 km away", "5 miles away"),
    ("10 KB", "10 KiB"),
    ("a million", "a billion"),
    ("x² grows", "x³ grows"),
    ("½ cup", "¼ cup"),
    ("1.5 times", "15 times"),
    ("1,5 l", "15 l"),
    ("up to 10", "more than 10"),
    ("before 5", "after 5"),
    ("Enabled by default.", "Disabled by default."),
    ("true by default", "false by default"),
    ("Ask HR about it", "Ask IT about it"),
    ("Contact us there", "Contact US there"),
    ("config.yaml holds it", "config.yml holds it"),
    ("/etc/hosts is read", "/etc/host is read"),
    ("Q1 results", "Q2 results"),
    ("COVID-19 rules", "COVID-20 rules"),
    ("press Ctrl+C", "press Ctrl+V"),
    ("press Ctrl+A", "press Alt+A"),
    ("It fails silently", "It never fails silently"),
    ("No restart is needed", "A restart is needed"),
    ("Bitte die Datei nicht löschen", "Bitte die Datei löschen"),
    ("El archivo no se borra", "El archivo se borra"),
]

CONTRADICTIONS = [
    ("Logs are kept for 30 days.", "Logs are kept for 90 days.", "`30 day` against `90 day`"),
    ("Up to 50mb in size.", "Up to 500mb in size.", "`50 mb` against `500 mb`"),
    (
        "Released on March 1, 2024 at noon.",
        "Released on 2024-03-02 at noon.",
        "`2024-03-01` against `2024-03-02`",
    ),
    ("Needs version 1.4.5 of it.", "Needs version 1.4.6 of it.", "`1.4.5` against `1.4.6`"),
    ("The server supports TLS.", "The server does not support TLS.", "nothing against `not`"),
    (
        "Streaming is supported here.",
        "Streaming is unsupported here.",
        "`supported` against `unsupported`",
    ),
    ("It runs every Monday.", "It runs every Tuesday.", "`monday` against `tuesday`"),
    ("- [x] Ship the release", "- [ ] Ship the release", "`[x]` against nothing"),
]

NO_CONTRADICTIONS = [
    ("Call `open` with 3 files.", "Call `close` with 4 files."),  # another identifier
    ("New notes take 3 seconds here.", "New attachments take 4 seconds here."),  # another subject
    ("It is open.", "It is open. That does not hold for guests of any kind."),  # a sentence more
    ("Copy files from A to B", "Copy files from B to A"),
    ("The limit is high and it is kept.", "Nothing of this is alike at 30 days."),
]


def chunk(
    text: str,
    kind: BlockKind = BlockKind.PROSE,
    headings: tuple[str, ...] = ("T",),
    language: str = "",
) -> Chunk:
    return Chunk(0, 0, kind, headings, 1, 1, text, language=language)


def judged(first: str, second: str, cosine: float | None = 0.97) -> Judgment:
    return judge(chunk(first), chunk(second), cosine, SETTINGS)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_markup_line_breaks_and_typography_leave_a_text_the_same(first: str, second: str) -> None:
    assert (judged(first, second).zone, judged(second, first).zone) == ("same", "same")


@pytest.mark.parametrize(("first", "second"), APART)
def test_what_says_another_thing_is_for_the_owner_to_decide(first: str, second: str) -> None:
    assert (judged(first, second).zone, judged(second, first).zone) == ("grey", "grey")


@pytest.mark.parametrize(("first", "second", "differs"), CONTRADICTIONS)
def test_a_contradiction_is_named(first: str, second: str, differs: str) -> None:
    assert judged(first, second).differs == differs
    assert judged(second, first).differs == " against ".join(reversed(differs.split(" against ")))


@pytest.mark.parametrize(("first", "second"), NO_CONTRADICTIONS)
def test_texts_of_other_things_contradict_each_other_in_nothing(first: str, second: str) -> None:
    assert (judged(first, second).differs, judged(second, first).differs) == ("", "")


@pytest.mark.skipif(not PAIRS.is_file(), reason="the labeled pairs are not part of the repository")
def test_of_labeled_pairs_all_duplicates_are_found_and_no_other_text_is_merged() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    zones = {row["id"]: judged(row["a"], row["b"]).zone for row in rows}
    assert {zones[row["id"]] for row in rows if row["label"] == "duplicate"} == {"same"}
    assert {zones[row["id"]] for row in rows if row["label"] == "distinct-but-similar"} == {
        "grey",
        "distinct",
    }


def test_another_form_of_unicode_leaves_a_text_the_same() -> None:
    text = (
        "Die Schlüssel für größere Räume hängen über der Tür, und wer früher kommt, möchte sie "
        "schön zurücklegen können."
    )
    assert judged(text, unicodedata.normalize("NFD", text)) == Judgment(
        "same", "equal but for markup"
    )


def test_a_copy_is_found_under_other_headings_and_without_a_vector() -> None:
    text = "Page preview lets you preview a page when you hover the cursor over a link in a note."
    first, second = chunk(text, headings=("A", "Setup")), chunk(text, headings=("B", "Links"))
    assert (
        judge(first, second, 0.74, SETTINGS)
        == judge(first, second, None, SETTINGS)
        == Judgment("same", "equal text")
    )


def test_a_short_text_under_another_heading_speaks_of_another_thing() -> None:
    first, second = (
        chunk("Optional, 30 by default.", headings=("A", "timeout")),
        chunk("Optional, 30 by default.", headings=("B", "retries")),
    )
    assert judge(first, second, 0.99, SETTINGS) == Judgment(
        "grey", "a short text under `A > timeout` and under `B > retries`"
    )
    assert (
        judge(first, replace(second, heading_path=("A", "Timeout")), 0.99, SETTINGS).zone == "same"
    )


def test_short_texts_with_values_of_other_things_are_not_even_listed() -> None:
    first, second = (
        chunk("Released on 2021/04/01.", headings=("v0.11.12",)),
        chunk("Released on 2021/04/04.", headings=("v0.11.13",)),
    )
    assert judge(first, second, 0.95, SETTINGS).zone == "distinct"
    assert (
        judge(first, replace(second, heading_path=("v0.11.12",)), 0.95, SETTINGS).differs
        == "`2021-04-01` against `2021-04-04`"
    )


def test_values_under_headings_without_a_word_in_common_are_no_contradiction() -> None:
    text = (
        "Storage is {} GB a vault, files may take some of it, versions are kept, and what was "
        "deleted comes back for a year."
    )
    first, second = (
        chunk(text.format(10), headings=("A", "Plus")),
        chunk(text.format(1), headings=("A", "Standard")),
    )
    assert (
        judge(first, second, 0.99, SETTINGS).zone,
        judge(first, second, 0.99, SETTINGS).differs,
    ) == ("grey", "")
    assert (
        judge(first, replace(second, heading_path=("B", "Plus")), 0.99, SETTINGS).differs
        == "`10 GB` against `1 GB`"
    )


def test_blocks_of_different_kinds_are_for_the_owner_to_decide() -> None:
    assert judge(chunk("same text"), chunk("same text", BlockKind.LIST), 1.0, SETTINGS) == Judgment(
        "grey", "prose against list"
    )


def test_tables_of_another_shape_are_for_the_owner_to_decide() -> None:
    rows = "| Plan | Price |\n| --- | --- |\n| Free | none |"
    shorter, longer = (
        chunk(rows, BlockKind.TABLE),
        chunk(f"{rows}\n| Free | none |", BlockKind.TABLE),
    )
    assert judge(shorter, longer, 0.99, SETTINGS).zone == "grey"
    assert judge(shorter, longer, 0.99, SETTINGS).rule.endswith("tables of another shape")


@pytest.mark.parametrize(
    ("first", "second", "zone"),
    [
        ("python", "js", "distinct"),
        ("js", "javascript", "same"),
        ("", "python", "same"),
        ("bash", "console", "same"),
        ("yaml", "json", "distinct"),
    ],
)
def test_code_in_another_language_is_not_even_grey(first: str, second: str, zone: str) -> None:
    ends = [
        chunk(f"```{name}\nx = 1\n```", BlockKind.CODE, language=name) for name in (first, second)
    ]
    assert judge(ends[0], ends[1], 1.0, SETTINGS).zone == zone


def test_a_translation_is_not_even_grey() -> None:
    english = "The file is deleted and it is not kept in the vault."
    german = "Die Datei wird gelöscht und ist nicht mehr in der Ablage, auch wenn du sie brauchst."
    assert (
        judged(english, german)
        == judged(english, german, None)
        == Judgment("distinct", "another language: en against de")
    )


def test_the_cosine_decides_between_grey_and_distinct_where_texts_are_not_alike() -> None:
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


def test_an_added_sentence_is_never_merged() -> None:
    text = (
        "Backups are kept for a year in two places that are far away from each other, and they "
        "are read once a month."
    )
    assert judged(text, f"{text} Guests are exempt.").rule.endswith(
        "but only one says `are guests exempt`"
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
def test_any_two_texts_are_judged_the_same_from_both_sides(first: str, second: str) -> None:
    assert judged(first, second).zone == judged(second, first).zone
    assert judged(first, first).zone == "same"
