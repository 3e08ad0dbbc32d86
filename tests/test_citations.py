"""Citations that last: an address leads to its passage after edits and moves, and `verify` says
what became of a quotation.
"""

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
def test_an_address_gives_back_what_it_was_made_of(
    folder: str, path: str, heading: str, digest: str
) -> None:
    written = format_address(folder, path, heading, digest)
    assert parse_address(written) == PassageAddress(folder, path, heading, digest)
    assert not any(each.isspace() or each in "\"'()[]<>" for each in written)


def test_an_address_leads_to_its_heading_where_the_text_has_changed(
    library: Library, vault: Path
) -> None:
    address = budget(library)
    write(vault / "plans.md", NOTES["plans.md"].replace("4,000", "5,000"))
    assert "5,000" in library.read(address).text


@pytest.mark.parametrize("change", ["gone", "private"])
def test_an_address_of_a_private_note_and_of_one_that_is_gone_lead_nowhere(
    library: Library, vault: Path, change: str
) -> None:
    address = budget(library)
    if change == "gone":
        (vault / "plans.md").unlink()
    else:
        write(vault / "plans.md", f"---\nprivate: true\n---\n{NOTES['plans.md']}")
    for _ in range(2):
        with pytest.raises(UnknownPathError, match=r"No document 'plans\.md' in the index"):
            library.read(address)
        library.index()


# ------------------------------------------------------------------ verify

SPENDS = "The team spends 4,000 euros a month on servers."


def checked(library: Library, text: str) -> CitationCheck:
    """Return what became of the one citation in a text."""
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
        f'plans (line 7): "{SPENDS}"',
        f"> {SPENDS}\n\n— plans.md#Budget (lines 5-8)",
        f"plans.md#Budget (lines 5-8):\n\n> {SPENDS}",
        f'obsidian://open?vault=notes&file=plans%23Budget "{SPENDS}"',
    ],
)
def test_a_quotation_is_found_beside_its_citation_however_that_is_written(
    library: Library, text: str
) -> None:
    check = checked(library, text)
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
def test_white_space_emphasis_case_quotes_and_what_is_left_out_are_no_difference(
    library: Library, quotation: str
) -> None:
    assert checked(library, f'plans.md#Budget (lines 5-8): "{quotation}"').state == "there"


@pytest.mark.parametrize(
    ("quotation", "differs"),
    [
        ("The team spends 5,000 euros a month on servers.", "`5,000` against `4,000`"),
        ("It is allowed to spend more without asking Maria.", "nothing against `not`"),
        ("The team spends 4,000 euros a year on servers.", "`year` against `month`"),
        ("The team spends -4,000 euros a month on servers", "`-4,000` against `4,000`"),
    ],
)
def test_a_quotation_in_other_words_is_changed_and_the_words_are_told(
    library: Library, quotation: str, differs: str
) -> None:
    check = checked(library, f'plans.md#Budget (lines 5-8): "{quotation}"')
    assert (check.state, check.differs, check.path) == ("changed", differs, "plans.md")
    assert check.text in NOTES["plans.md"]


def test_a_link_in_a_quotation_is_no_citation(library: Library, vault: Path) -> None:
    write(
        vault / "see.md",
        "# See\n\nAll of it stands in the [[tea]] note, or in [plans](plans.md) for others.\n",
    )
    library.index()
    said = "stands in the [[tea]] note, or in [plans](plans.md) for others"
    for text in (
        f'"{said}" (see.md (line 3))',
        f"> {said}\n\nsee.md (line 3)",
        f"> {said}\n> — [[see]]",
    ):
        assert checked(library, text).state == "there"


def test_each_quotation_belongs_to_the_citation_that_has_it(library: Library) -> None:
    text = (
        f'"{SPENDS}" (plans.md#Budget (line 7)), and tea.md (line 3) says "brewed at 80 °C". '
        'tea.md#Tea also has "for two minutes".'
    )
    assert [(path.partition(" ")[0], state) for path, _, state in states(library, text)] == [
        ("plans.md#Budget", "there"),
        ("tea.md", "there"),
        ("tea.md#Tea", "there"),
    ]


def test_a_quotation_belongs_to_its_own_citation_and_not_to_the_paragraph_before(
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
            "the note says nothing like it",
        ),
    ],
)
def test_a_citation_without_a_quotation_is_looked_up_and_what_never_was_is_never_there(
    library: Library, text: str, reason: str
) -> None:
    checks = library.verify(text).citations
    assert {(check.state, check.reason) for check in checks} == {
        ("never_there" if reason else "there", reason)
    }


def test_lines_that_moved_are_told(library: Library, vault: Path) -> None:
    cited = f'plans.md#Budget (line 7): "{SPENDS}"'
    write(
        vault / "plans.md",
        NOTES["plans.md"].replace("## Budget", "More.\n\nMuch more.\n\n## Money"),
    )
    check = checked(library, cited)  # the index knows nothing of it yet
    assert (check.state, check.now, check.reason) == (
        "moved",
        "plans.md#Money (line 11)",
        "to another heading",
    )
    write(
        vault / "plans.md",
        NOTES["plans.md"].replace("## Budget", "More.\n\nMuch more.\n\n## Budget"),
    )
    check = checked(library, cited)
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
def test_one_line_is_where_a_passage_begins_as_the_terminal_prints_it_and_several_are_those_alone(
    library: Library, cited: str, state: str
) -> None:
    assert checked(library, f'{cited} says "{SPENDS}"').state == state


@pytest.mark.parametrize("quoted", [True, False])
def test_a_renamed_note_is_found_by_the_digest_and_by_what_is_quoted(
    library: Library, vault: Path, quoted: bool
) -> None:
    cited = f'plans.md#Budget (line 7): "{SPENDS}"' if quoted else budget(library)
    (vault / "archive").mkdir()
    (vault / "plans.md").rename(vault / "archive/2025.md")
    library.index()
    check = checked(library, cited)
    assert (check.state, check.path, check.reason) == (
        "moved",
        "archive/2025.md",
        "to another note",
    )
    assert check.now.startswith("archive/2025.md#Budget (line")


def test_a_passage_that_is_nowhere_is_gone_where_its_address_has_a_digest_of_it(
    library: Library, vault: Path
) -> None:
    address = budget(library)
    (vault / "plans.md").unlink()
    library.index()
    assert (
        checked(library, address).state == checked(library, f'{address} "{SPENDS}"').state == "gone"
    )
    assert checked(library, f'plans.md#Budget (line 7) "{SPENDS}"').state == "never_there"


@pytest.mark.parametrize("change", ["gone", "private"])
def test_of_a_private_note_is_said_what_is_said_of_one_that_is_not_there(
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
    ],
)
def test_a_hostile_draft_is_answered_in_seconds(library: Library, text: str) -> None:
    began = time.perf_counter()
    found = library.verify(text[:100_000])
    assert time.perf_counter() - began < 10
    assert len(found.citations) <= 200


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
def test_every_part_of_a_note_is_found_in_it_on_its_line(
    written: list[str], data: st.DataObject
) -> None:
    lines = [" ".join(written[at : at + 5]) for at in range(0, len(written), 5)]
    at = data.draw(st.integers(0, len(lines) - 1))
    note, parts = tokenize_note("\n\n".join(lines)), quotation_parts(lines[at])
    spans = {note.span_lines(each) for each in find_quotation(parts, note)}
    assert not parts or (2 * at + 1, 2 * at + 1) in spans


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('ab.md#()[]"“”>|` \n12-:/lines plan'), max_size=200))
def test_no_text_breaks_it(library: Library, text: str) -> None:
    found = library.verify(text)
    assert all(citation.citation for citation in found.citations)


# ---------------------------------------------------- several folders, and drafts that ask for much


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Library]:
    """Two folders with a note of one path, of which only the second says what is quoted."""
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
def test_a_quotation_is_found_in_the_one_of_two_notes_of_a_path_that_says_it(
    two: Library, cited: str, state: str
) -> None:
    (found,) = two.verify(QUOTED + cited).citations
    assert (found.state, found.folder) == (state, "b")


@pytest.mark.parametrize("scheme", ["file://{root}/x.md", "vscode://file{root}/x.md:3"])
def test_a_link_that_opens_a_note_names_its_folder_for_who_is_on_this_machine_alone(
    two: Library, tmp_path: Path, scheme: str
) -> None:
    link = scheme.format(root=(tmp_path / "b").as_posix())
    (near,), (far,) = (
        two.verify(QUOTED + link).citations,
        two.without_local_paths().verify(f"See {link} for kites.").citations,
    )
    assert (near.state, near.folder, far.state) == ("there", "b", "never_there")


@pytest.mark.parametrize(
    "shown",
    [
        "`[[Document#page=3]]`",
        "```md\n[[Document]]\n```",
        "![[Document]]",
        "[[Document.pdf]]",
        "[[picture.png|200]]",
        "[a](https://example.org/x.md) `c.py:12`",
    ],
)
def test_a_link_that_an_example_shows_or_that_leads_to_no_note_is_no_citation(
    library: Library, shown: str
) -> None:
    assert library.verify(f"Write it like this:\n\n{shown}\n").citations == ()


def test_nobody_elsewhere_learns_the_names_of_directories_around_a_folder(
    two: Library, tmp_path: Path
) -> None:
    for vault in (tmp_path.parent.name, "no such directory"):
        link = f"obsidian://open?vault={vault}&file={tmp_path.name}/b/x.md"
        checks = two.without_local_paths().verify(f"See {link} for it.").citations
        assert [check.state for check in checks] == ["never_there"]


def test_cited_lines_that_run_past_the_end_are_told(library: Library) -> None:
    (found,) = library.verify("See tea.md (lines 1-999).").citations
    assert (found.state, found.end_line, found.reason) == ("changed", 3, "the note has 3 lines")
