"""Addresses that find their passages after edits and moves, and `verify` of quotations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from folders import open_library, write, write_notes
from thumbindex.compare.quotations import find_quotation, quotation_parts, tokenize_note
from thumbindex.errors import UnknownPathError
from thumbindex.library import Library
from thumbindex.model import CitationCheck
from thumbindex.text import PassageAddress, format_address, parse_address

BUDGET = (
    "## Budget\n\nThe team spends 4,000 euros a month on servers.\n"
    "It is **not** allowed to spend more without asking Maria."
)
PLAN = (
    "What we want to do this year: move the servers to another town, hire two people, and write "
    "down what we know."
)
TRAVEL = (
    "Trains only, and no flights below 600 km, unless a train would take more than twelve hours."
)
NOTES = {
    "plans.md": f"# Plans\n\n{PLAN}\n\n{BUDGET}\n\n## Travel\n\n{TRAVEL}\n",
    "tea.md": "# Tea\n\nGreen tea is brewed at 80 °C for two minutes.\n",
}

WRITTEN = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "notes", NOTES)


@pytest.fixture
def library(vault: Path) -> Iterator[Library]:
    overrides = ("corpus.chunk.child_max=200", "corpus.chunk.parent_max=200")
    with open_library(vault, overrides=overrides) as library:
        library.index()
        yield library


def budget(library: Library) -> str:
    """Return the address of the passage about the budget."""
    return library.query("how much does the team spend on servers?").passages[0].address


# ------------------------------------------------------------------ addresses


@given(
    WRITTEN,
    WRITTEN,
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Cf", "Cn"))),
    st.sampled_from(["", "1a2b3c4d"]),
)
def test_address_round_trips(folder: str, path: str, heading: str, digest: str) -> None:
    address = format_address(folder, path, heading, digest)
    assert parse_address(address) == PassageAddress(folder, path, heading, digest)
    assert not any(character.isspace() or character in "\"'()[]<>" for character in address)


def test_address_finds_its_heading_after_the_text_changed(library: Library, vault: Path) -> None:
    address = budget(library)
    write(vault / "plans.md", NOTES["plans.md"].replace("4,000", "5,000"))
    assert "5,000" in library.read(address).text


@pytest.mark.parametrize("change", ["gone", "private"])
def test_address_of_a_private_or_deleted_note_is_unknown(
    library: Library, vault: Path, change: str
) -> None:
    address = budget(library)
    if change == "gone":
        (vault / "plans.md").unlink()
    else:
        write(vault / "plans.md", f"---\nprivate: true\n---\n{NOTES['plans.md']}")
    for _ in range(2):
        with pytest.raises(UnknownPathError, match=r"No note 'plans\.md' in the index"):
            library.read(address)
        library.index()


# ------------------------------------------------------------------ verify

SPENDS = "The team spends 4,000 euros a month on servers."


def verify_one(library: Library, text: str) -> CitationCheck:
    """Verify the only citation in a text."""
    (check,) = library.verify(text).citations
    return check


def states(library: Library, text: str) -> list[tuple[str, str, str]]:
    return [
        (citation.citation, citation.quotation, citation.state)
        for citation in library.verify(text).citations
    ]


@pytest.mark.parametrize(
    "text",
    [
        f'plans.md#Budget (lines 5-8): "{SPENDS}"',
        f"“{SPENDS}” (plans.md#Budget (lines 5-8))",
        f'"{SPENDS}" [plans.md#Budget, lines 5-8]',
        f'plans.md:7 says "{SPENDS}"',
        f'plans.md#Budget says that "{SPENDS}"',
        f'[[plans#Budget]]: "{SPENDS}"',
        f'The plan ([budget](plans.md#budget)): "{SPENDS}"',
        f"> {SPENDS}\n\n— plans.md#Budget (lines 5-8)",
        f"plans.md#Budget (lines 5-8):\n\n> {SPENDS}",
    ],
)
def test_quotation_is_verified_with_every_form_of_citation(library: Library, text: str) -> None:
    check = verify_one(library, text)
    assert (check.state, check.path, (check.start_line, check.end_line)) == (
        "there",
        "plans.md",
        (7, 7),
    ), check
    assert check.quotation == SPENDS


@pytest.mark.parametrize(
    "quotation",
    [
        "It is not allowed to spend more",
        "it is **not** _allowed_ to spend more",
        "The team spends … on servers",
        "servers. It is not allowed",
    ],
)
def test_whitespace_emphasis_case_and_ellipsis_do_not_change_a_quotation(
    library: Library, quotation: str
) -> None:
    assert verify_one(library, f'plans.md#Budget (lines 5-8): "{quotation}"').state == "there"


@pytest.mark.parametrize(
    ("quotation", "differs"),
    [
        ("The team spends 5,000 euros a month on servers.", "`5,000` vs. `4,000`"),
        ("It is allowed to spend more without asking Maria.", "nothing vs. `not`"),
        ("The team spends 4,000 euros a year on servers.", "`year` vs. `month`"),
        ("The team spends -4,000 euros a month on servers", "`-4,000` vs. `4,000`"),
    ],
)
def test_changed_quotation_reports_the_words_that_differ(
    library: Library, quotation: str, differs: str
) -> None:
    check = verify_one(library, f'plans.md#Budget (lines 5-8): "{quotation}"')
    assert (check.state, check.differs, check.path) == ("changed", differs, "plans.md")
    assert check.text in NOTES["plans.md"]


def test_link_inside_a_quotation_is_not_a_citation(library: Library, vault: Path) -> None:
    write(
        vault / "see.md",
        "# See\n\nAll of it stands in the [[tea]] note, or in [plans](plans.md) for others.\n",
    )
    library.index()
    quote = "stands in the [[tea]] note, or in [plans](plans.md) for others"
    for text in (
        f'"{quote}" (see.md (line 3))',
        f"> {quote}\n\nsee.md (line 3)",
        f"> {quote}\n> — [[see]]",
    ):
        assert verify_one(library, text).state == "there"


def test_quotation_is_paired_with_the_citation_that_contains_it(library: Library) -> None:
    text = (
        f'"{SPENDS}" (plans.md#Budget (line 7)), and tea.md (line 3) says "brewed at 80 °C". '
        'tea.md#Tea also has "for two minutes".'
    )
    assert [(path.partition(" ")[0], state) for path, _, state in states(library, text)] == [
        ("plans.md#Budget", "there"),
        ("tea.md", "there"),
        ("tea.md#Tea", "there"),
    ]


def test_quotation_is_not_paired_with_the_previous_paragraph(
    library: Library,
) -> None:
    text = (
        f'"{SPENDS}" (plans.md#Budget (line 7))\n\n'
        '"brewed at 90 °C for two minutes", says tea.md (line 3).'
    )
    assert [(path.partition(" ")[0], state) for path, _, state in states(library, text)] == [
        ("plans.md#Budget", "there"),
        ("tea.md", "changed"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("plans.md (lines 7-12) and plans.md#Budget (lines 5-8)", ""),
        ("plans.md (lines 99-120)", "the note has 12 lines"),
        ("nowhere.md#Budget (line 3)", "no note has this path"),
        ("thumbindex://elsewhere/plans.md#Budget", "no note has this path"),
        (
            'plans.md (line 3) "nobody wrote this sentence anywhere"',
            "the note contains nothing similar",
        ),
    ],
)
def test_citation_without_a_quotation_is_checked(library: Library, text: str, reason: str) -> None:
    checks = library.verify(text).citations
    assert {(check.state, check.reason) for check in checks} == {
        ("never_there", reason) if reason else ("not_compared", "nothing is quoted")
    }


def test_moved_quotation_reports_its_new_lines(library: Library, vault: Path) -> None:
    cited = f'plans.md#Budget (line 7): "{SPENDS}"'
    write(
        vault / "plans.md",
        NOTES["plans.md"].replace("## Budget", "More.\n\nMuch more.\n\n## Money"),
    )
    check = verify_one(library, cited)  # not indexed yet
    assert (check.state, check.now, check.reason) == (
        "moved",
        "plans.md#Money (line 11)",
        "to another heading",
    )
    write(
        vault / "plans.md",
        NOTES["plans.md"].replace("## Budget", "More.\n\nMuch more.\n\n## Budget"),
    )
    check = verify_one(library, cited)
    assert (check.state, check.now, check.reason) == (
        "moved",
        "plans.md#Budget (line 11)",
        "to other lines",
    )
    assert library.read(check.address).start_line == 9


@pytest.mark.parametrize(
    ("cited", "state"),
    [("plans.md:5", "there"), ("plans.md:1", "moved"), ("plans.md (lines 5-6)", "moved")],
)
def test_single_cited_line_covers_its_section_but_a_range_is_exact(
    library: Library, cited: str, state: str
) -> None:
    assert verify_one(library, f'{cited} says "{SPENDS}"').state == state


@pytest.mark.parametrize("quoted", [True, False])
def test_renamed_note_is_found_by_digest_and_by_quotation(
    library: Library, vault: Path, quoted: bool
) -> None:
    cited = f'plans.md#Budget (line 7): "{SPENDS}"' if quoted else budget(library)
    (vault / "archive").mkdir()
    (vault / "plans.md").rename(vault / "archive/2025.md")
    library.index()
    check = verify_one(library, cited)
    assert (check.state, check.path, check.reason) == (
        "moved",
        "archive/2025.md",
        "to another note",
    )
    assert check.now.startswith("archive/2025.md#Budget (line")


def test_missing_passage_is_gone_only_if_its_address_has_a_digest(
    library: Library, vault: Path
) -> None:
    address = budget(library)
    (vault / "plans.md").unlink()
    library.index()
    assert (
        verify_one(library, address).state
        == verify_one(library, f'{address} "{SPENDS}"').state
        == "gone"
    )
    assert verify_one(library, f'plans.md#Budget (line 7) "{SPENDS}"').state == "never_there"


@pytest.mark.parametrize("change", ["gone", "private"])
def test_private_note_is_verified_like_a_deleted_one(
    library: Library, vault: Path, change: str
) -> None:
    text = (
        f'{budget(library)} plans.md#Budget (line 7): "{SPENDS}" other.md (line 2): "{SPENDS}" '
        f'[[plans]] "{SPENDS.replace("4", "9")}"'
    )
    if change == "gone":
        (vault / "plans.md").unlink()
    else:
        write(vault / "plans.md", f"---\nprivate: true\n---\n{NOTES['plans.md']}")
    for _ in range(2):
        checks = library.verify(text).citations
        assert [(check.state, check.path, check.text) for check in checks] == [
            ("gone", "", ""),
            *[("never_there", "", "")] * 3,
        ]
        library.index()


@pytest.mark.parametrize(
    "text",
    [
        "plans.md#Budget (line 7) " * 4_000,
        '"The team spends 4,000 euros" (nowhere.md) ' * 2_000,
        "[[plans#" * 12_000,
        '"' * 100_000,
        "thumbindex://" * 7_000,
        "\n> x\n" * 16_000,
        "'the users' " * 9_000,
        "*a `b “c (a.md) " * 6_000,
    ],
)
def test_hostile_draft_is_verified_in_seconds(library: Library, text: str) -> None:
    started = time.perf_counter()
    verification = library.verify(text[:100_000])
    assert time.perf_counter() - started < 10
    assert len(verification.citations) <= 200


@given(
    st.lists(
        st.sampled_from(
            "one two 3.5 don't **four** `five_six` [seven](x.md) 日本 - > naïve 80 °C".split()
        ),
        min_size=3,
        max_size=40,
    ),
    st.data(),
)
def test_every_line_of_a_note_is_found_as_a_quotation(
    words: list[str], data: st.DataObject
) -> None:
    lines = [" ".join(words[at : at + 5]) for at in range(0, len(words), 5)]
    at = data.draw(st.integers(0, len(lines) - 1))
    note, parts = tokenize_note("\n\n".join(lines)), quotation_parts(lines[at])
    spans = {note.span_lines(span) for span in find_quotation(parts, note)}
    assert not parts or (2 * at + 1, 2 * at + 1) in spans


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('ab.md#()[]"“”>|` \n12-:/lines plan'), max_size=200))
def test_verify_accepts_any_text(library: Library, text: str) -> None:
    verification = library.verify(text)
    assert all(citation.citation for citation in verification.citations)


# ------------------------------------------------------------------ several folders


@pytest.fixture
def two_folders(tmp_path: Path) -> Iterator[Library]:
    """Two folders with a note at the same path; only the second note contains the quotation."""
    kites = "# Kites\n\nA kite needs wind, a string and a field without trees.\n"
    boats = "# Boats\n\nThe boat leaves the harbor at nine in the morning, rain or shine.\n"
    write_notes(tmp_path, {"a/x.md": kites, "b/x.md": boats})
    with open_library(tmp_path / "a", tmp_path / "b") as library:
        library.index()
        yield library


QUOTED = '"The boat leaves the harbor at nine in the morning" '


@pytest.mark.parametrize(
    ("cited", "state"),
    [
        ("(x.md (line 3))", "there"),
        ("(b: x.md (line 3))", "there"),
        ("(a: x.md (line 3))", "moved"),
    ],
)
def test_quotation_selects_among_notes_with_the_same_path(
    two_folders: Library, cited: str, state: str
) -> None:
    (check,) = two_folders.verify(QUOTED + cited).citations
    assert (check.state, check.folder) == (state, "b")


def test_absolute_path_is_resolved_only_for_local_callers(
    two_folders: Library, tmp_path: Path
) -> None:
    cited = f"{(tmp_path / 'b').as_posix()}/x.md:3"
    (local,), (remote,) = (
        two_folders.verify(QUOTED + cited).citations,
        two_folders.without_local_paths().verify(f"See {cited} for kites.").citations,
    )
    assert (local.state, local.folder, remote.state) == ("there", "b", "never_there")


@pytest.mark.parametrize(
    "example",
    [
        "`[[Document#page=3]]`",
        "```md\n[[Document]]\n```",
        "![[Document]]",
        "[[Document.pdf]]",
        "[[picture.png|200]]",
        "[a](https://example.org/x.md) `c.py:12`",
    ],
)
def test_example_links_and_attachments_are_not_citations(library: Library, example: str) -> None:
    assert library.verify(f"Write it like this:\n\n{example}\n").citations == ()


def test_cited_lines_past_the_end_are_reported(library: Library) -> None:
    (check,) = library.verify("See tea.md (lines 1-999).").citations
    assert (check.state, check.end_line, check.reason) == ("changed", 3, "the note has 3 lines")
