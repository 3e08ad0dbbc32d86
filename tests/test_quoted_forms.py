"""`verify` compares a quotation in every common form, and says if it compared nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.library import Library

HARBOR = "the users' notes say that Ada's crew don't paint the harbor at 5' 6\" depth"
NOTES = {
    "a.md": (
        "# Plan\n\nFirst item: call the mayor about the permit.\n\n"
        f"We know that {HARBOR}. He said that it is good 'n' ready, and rock 'n' roll.\n\n"
        "市長が港を全部払った。 Мэр заплатил за порт.\n"
    ),
    "conf.md": (
        "# Retries\n\nRun `make backup now` daily; it calls `open('notes.db', retries=3)`.\n\n"
        "```sh\nthumbindex index --folder notes\nsync --all\n```\n\nThe sum is $a^2 + b^2$.\n"
    ),
}
TRUE, FALSE = "call the mayor about the permit", "the mayor paid for the whole harbor"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with open_library(write_notes(tmp_path / "notes", NOTES)) as library:
        library.index(complete=False)
        yield library


FORMS = [
    "“{}” (a.md:3)",
    "„{}“ (a.md:3)",
    "„{}” (a.md:3)",
    "«{}» (a.md:3)",
    "« {} » (a.md:3)",
    "»{}« (a.md:3)",
    "‘{}’ (a.md:3)",
    "'{}' (a.md:3)",
    "'{}.' (a.md:3)",
    '"{}" (a.md:3)',
    "「{}」（a.md:3）",
    "『{}』(a.md:3)",
    '„{}" (a.md:3)',
    "‘{}' (a.md:3)",
    "''{}'' (a.md:3)",
    "*“{}”* (a.md:3)",
    "**“{}” (a.md:3)**",
    "_'{}' (a.md:3)_",
    '"{} (a.md:3)"',
    "**Permit** (with ‘more’): '{}' ([a.md:3](thumbindex://notes/a.md))",
    "“{}”\n\n— a.md:3",
    "`{}` (a.md:3)",
    "*{}* (a.md:3)",
    "_{}_ (a.md:3)",
    "**{}** (a.md:3)",
    "*{}*\n\n— a.md:3",
    "“{}” [source](a.md:3)",
    "[“{}”](a.md:3)",
    "| '{}' | a.md:3 |",
    "- 'unlike' the rest: '{}' (`a.md:3`)",
    "> {}\n> — a.md:3",
    "> *{}*\n>\n> — a.md:3",
    "> “{}”\n\n— a.md:3",
    "> {}\n(a.md:3)",
    "From a.md:3:\n\n> {}",
    "From 'a.md' (line 3): ‘{}’",
    "the users' plan, says a.md:3, is to '{}'",
]


@pytest.mark.parametrize("form", FORMS)
def test_quotation_is_compared_in_every_form(library: Library, form: str) -> None:
    quoted = {quotation: library.verify(form.format(quotation)) for quotation in (TRUE, FALSE)}
    assert {check.state for check in quoted[TRUE].citations} == {"there"}, quoted[TRUE]
    states = [check.state for check in quoted[FALSE].citations]
    assert "never_there" in states, quoted[FALSE]
    assert not {"not_compared", "changed"} & {*states}, quoted[FALSE]


@pytest.mark.parametrize(
    "draft",
    [
        f"'{HARBOR}' (a.md:5)",
        f"‘{HARBOR.replace(chr(39), '’')}’ (a.md:5)",
        f"'the users' notes say' (a.md:5), and 'tis the users' notes that '{TRUE}' (a.md:3).",
        f"He's wrong that the users’ plan is '{TRUE}' (a.md:3)",
        "“call “the mayor” about” (a.md:3)",
        "'call \"the mayor\" about' (a.md:3)",
        "'call the\nmayor about […] permit' (a.md:3)",
        "„市長が港を全部払った“ (a.md:7)",
        "'Мэр заплатил' (a.md:7)",
        "'The sum is a^2 + b^2' (conf.md:10)",
    ],
)
def test_apostrophes_nesting_and_gaps_do_not_hide_a_true_quotation(
    library: Library, draft: str
) -> None:
    checks = [check for check in library.verify(draft).citations if check.quotation]
    assert checks
    assert {check.state for check in checks} == {"there"}, checks


@pytest.mark.parametrize(
    "draft",
    [
        "市長は“港を半分払った”と言う (a.md:7)",
        f"> {TRUE}\n> {FALSE}\n\n(a.md:3)",
        "'the users' notes say that Ada's crew do paint the harbor' (a.md:5)",
    ],
)
def test_changed_words_are_reported_in_every_form(library: Library, draft: str) -> None:
    assert {check.state for check in library.verify(draft).citations} <= {"changed", "never_there"}


@pytest.mark.parametrize(
    "draft",
    [
        "The mayor paid for it all (a.md:3).",
        "The users' mayors' friends' fees are in a.md:3, aren't they?",
        "'Tis the mayor's plan, and the users' plan (a.md:3).",
        "Rock 'n' roll is a 5' 6\" thing (a.md:3).",
        "The 'harbor' plan is in a.md:3.",
        "The '90s and the '80s were the mayors' years (a.md:3).",
        "He doesn’t know the users’ plans (a.md:3).",
        "The **harbor** was *paid* by the mayor (a.md:3).",
        "See `src/pay/the_mayor.py` (a.md:3).",
        "See `a.md:3`, **a.md:3** and `a.md`.",
        "**What the mayor paid for:** a.md:3",
        "**What the mayor paid for**: a.md:3",
        "**The mayor paid for this.** It stands elsewhere, as you may know from a.md:3.",
        "[the mayor](a.md:3)",
        "It is 3 * 4 * 5 or a_b_c_d, see a.md:3.",
        "“…” (a.md:3)",
        "**What the mayor says in a.md:3**",
        "> 🎉\n\n— a.md:3",
        "Open thumbindex://notes/a.md#Plan for it.",
        "'a.md', “a.md”, «a.md» and 「a.md」",
    ],
)
def test_citation_without_a_quotation_is_not_compared(library: Library, draft: str) -> None:
    checks = library.verify(draft).citations
    assert {(check.state, check.quotation, check.path) for check in checks} == {
        ("not_compared", "", "a.md")
    }, checks


def test_unchanged_passage_without_a_quotation_is_not_compared(library: Library) -> None:
    address = library.query("mayor permit").passages[0].address
    (check,) = library.verify(f"The mayor paid for it all ({address}).").citations
    assert (check.state, check.reason) == (
        "not_compared",
        "nothing is quoted; the cited text is unchanged",
    )


def test_citation_that_supports_a_distant_quotation_is_compared(library: Library) -> None:
    draft = f"As conf.md:3 has it, 'twas said: “{TRUE}”, which a.md:3 repeats."
    assert [(check.citation, check.state) for check in library.verify(draft).citations] == [
        ("conf.md:3", "not_compared"),
        ("a.md:3", "there"),
    ]
