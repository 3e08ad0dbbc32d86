"""Statements that contradict each other, and pairs that only look like it."""

import pytest

from thumbindex.compare.contradictions import contradiction
from thumbindex.model import BlockKind, Chunk

LINUX, BSD = ("Install on Linux", "Install on BSD")


def told(
    first: str, second: str, headings: tuple[str, str] = ("T", "T"), kind: BlockKind | None = None
) -> str:
    """Return the contradiction of two texts, and check that it is the same from both sides."""
    one, other = (
        Chunk(0, 0, kind or BlockKind.PROSE, tuple(path.split(" > ")), 1, 1, text)
        for path, text in zip(headings, (first, second), strict=True)
    )
    differs = contradiction(one, other)
    swapped = ", ".join(" vs. ".join(reversed(part.split(" vs. "))) for part in differs.split(", "))
    assert contradiction(other, one) == swapped
    return differs


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ("Logs are kept for 30 days.", "Logs are kept for 90 days.", "`30 day` vs. `90 day`"),
        ("Out on 1 May 2024.", "Out on 2024-05-02.", "`2024-05-01` vs. `2024-05-02`"),
        ("The server supports TLS.", "The server does not support TLS.", "nothing vs. `not`"),
        (
            "Standup is on Monday at 9:30.",
            "Standup is on Tuesday at 9:30.",
            "`monday` vs. `tuesday`",
        ),
        ("The launch is in May.", "The launch is in June.", "`may` vs. `june`"),
        ("Das Treffen ist am Montag.", "Das Treffen ist am Freitag.", "`montag` vs. `freitag`"),
        ("It needs Node 18.2 or later.", "It needs Node 20.0 or later.", "`18.2` vs. `20.0`"),
        ("The plan costs $9 a month.", "The plan costs $12 a month.", "`$9` vs. `$12`"),
        ("It costs 1.000 euros.", "It costs 1.500 euros.", "`1.000 euro` vs. `1.500 euro`"),
        ("Members get 10 % off.", "Members get **15%** off.", "`10 %` vs. `15 %`"),
        ("We run three replicas.", "We run five replicas.", "`3` vs. `5`"),
        ("- Role: engineer\n- Desk: 12", "- Role: engineer\n- Desk: 14", "`12` vs. `14`"),
        (
            "1. Open the lid.\n2. Wait 5 minutes.",
            "1. Open the lid.\n2. Wait 10 minutes.",
            "`5 minute` vs. `10 minute`",
        ),
        ("The [wiki](a.md) keeps 30 drafts.", "The wiki keeps 50 drafts.", "`30` vs. `50`"),
        (
            "Logs are kept for 30 days. Bo reads them.",
            "Logs are kept\nfor 90 days.",
            "`30 day` vs. `90 day`",
        ),
        (
            "Use `a1` for it. It is kept for 5 years.",
            "Use `a1` for it. It is kept for 6 years.",
            "`5 year` vs. `6 year`",
        ),
        (
            "Die Akten werden 30 Tage aufbewahrt.",
            "Die Akten werden 90 Tage aufbewahrt.",
            "`30` vs. `90`",
        ),
        ("La clé est dans le coffre.", "La clé n’est pas dans le coffre.", "nothing vs. `ne pas`"),
        (
            "La caja está en el sótano y se abre con llave.",
            "La caja no está en el sótano y se abre con llave.",
            "nothing vs. `no`",
        ),
        ("日志在服务器上保留30天。", "日志在服务器上保留90天。", "`30 天` vs. `90 天`"),
    ],
)
def test_equal_statements_with_another_value_or_a_negation_contradict(
    first: str, second: str, differs: str
) -> None:
    assert told(first, second) == differs


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Logs are kept for 30 days.", "Mails are kept for 90 days."),
        ("The key is public.", "The key is private."),
        ("It is supported.", "It is unsupported."),
        (
            "Get the page after this one: the last of them.",
            "Get the page after this one: the next of them.",
        ),
        ("- [x] Ship it today", "- [ ] Ship it today"),
        ("1. Open the door", "2. Open the door"),
        ("Step 2: Save the file.", "Step 3: Save the file."),
        ("Read the first of the pages.", "Read the second of the pages."),
        ("- Heading 1 size", "- Heading 2 size"),
        ("- All logs for 9 days\n- All logs for 8 days", "- All logs for 7 days"),
        ("- Size of level 1\n- Size of level 2", "- Size of level 1\n- Size of level 3"),
        ("How to do it in 5 minutes?", "How to do it in 6 minutes?"),
        ("If the page is found in the menu:", "If the page is not found in the menu:"),
        ("If you include a file extension:", "Do not include a file extension."),
        ("The file has 5 MB of text.", "The file has 5 GB of text."),
        ("It takes 60 minutes of time.", "It takes 1 hour of time."),
        ("Il pacco è di 1,5 kg.", "Il pacco è di 1.5 kg."),
        ("The machine is 1.000 euros.", "The machine is 1,000 euros."),
        ("The grant is $1.250.000 for it.", "The grant is $1250000 for it."),
        ("It is at https://a.example/v1/x for all.", "It is at https://a.example/v2/x for all."),
        (
            "See [it](obsidian://open?file=00%20a%20b).",
            "See [it](obsidian://open?file=02%20a%20b).",
        ),
        ("The note is 00%20Contribute%20to%20it.", "The note is 02%20Contribute%20to%20it."),
        ("The server is on `localhost:8080` now.", "The server is on `localhost:9090` now."),
        ("Set `not x` for the server.", "Set `x` for the server."),
        ("It is in [release 1.2](a.md) of it.", "It is in [release 1.3](a.md) of it."),
        ("We met in [[2024-05-01]] for it.", "We met in [[2024-05-02]] for it."),
        ("It is as wide as <img width=30> here.", "It is as wide as <img width=40> here."),
        ("It is new {{< new-in 0.1.2 >}} in it.", "It is new {{< new-in 0.1.3 >}} in it."),
        ("The fault is fixed by #120 for all.", "The fault is fixed by #340 for all."),
        ("Run this:\n\n```\nwait for 5 days.\n```", "Run this:\n\n```\nwait for 6 days.\n```"),
        ("| Days of the plan | 30 |\n| --- | --- |", "| Days of the plan | 90 |\n| --- | --- |"),
        ("Keep it for 30 days. Ask Ada for it.", "Keep it for 90 days. Ask Bo for it."),
        ("Il écrit une copie ici.", "Il n’écrit pas de copie ici."),  # unknown language
        (
            "Clique no botão para gravar a cópia que está na cave.",
            "Clique em botão para gravar a cópia que está na cave.",
        ),
    ],
)
def test_names_series_and_other_statements_do_not_contradict(first: str, second: str) -> None:
    assert told(first, second) == ""


@pytest.mark.parametrize(
    ("first", "second", "contradict"),
    [
        ("Backups", "Backups", True),
        ("Backups", "Rules of the house", True),
        ("Backups > Logs", "Old backups > All logs", True),
        (LINUX, BSD, False),
        ("Plans > Free", "Plans > Team", False),
        ("Changes > 1.2.0", "Changes > 1.3.0", False),
    ],
)
def test_headings_that_name_two_subjects_do_not_contradict(
    first: str, second: str, contradict: bool
) -> None:
    texts = [f"The server keeps all logs for {days} days." for days in (30, 90)]
    assert bool(told(*texts, headings=(first, second))) is contradict


def test_short_statement_needs_the_same_headings() -> None:
    texts = "- Joined: 2019\n- Desk: 12", "- Joined: 2019\n- Desk: 14"
    assert told(*texts, headings=("Ada", "Ada")) == "`12` vs. `14`"
    assert told(*texts, headings=("Ada", "Bob")) == ""


@pytest.mark.parametrize("kind", [BlockKind.CODE, BlockKind.TABLE])
def test_code_and_tables_do_not_contradict(kind: BlockKind) -> None:
    assert told("Logs are kept for 30 days.", "Logs are kept for 90 days.", kind=kind) == ""
