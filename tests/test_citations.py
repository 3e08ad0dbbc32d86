"""Citations that last: an address leads to its passage after edits and moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.config import load_config
from thumbindex.errors import UnknownPathError
from thumbindex.library import Library
from thumbindex.testing import FakeEmbedder
from thumbindex.text import Address, address_of, read_address

BUDGET = "## Budget\n\nThe team spends 4,000 euros a month on servers.\nIt is **not** allowed to spend more without asking Maria."
PLAN = "What we want to do this year: move the servers to another town, hire two people, and write down what we know."
TRAVEL = "Trains only, and no flights below 600 km, unless a train would take more than twelve hours."
NOTES = {
    "plans.md": f"# Plans\n\n{PLAN}\n\n{BUDGET}\n\n## Travel\n\n{TRAVEL}\n",
    "tea.md": "# Tea\n\nGreen tea is brewed at 80 °C for two minutes.\n",
}

WRITTEN = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for path, text in NOTES.items():
        write(tmp_path / "notes", path, text)
    return tmp_path / "notes"


@pytest.fixture
def library(vault: Path) -> Iterator[Library]:
    config = load_config(user_file=vault / "none", overrides=("corpus.chunk.child_max=200", "corpus.chunk.parent_max=200"))
    with Library.open([vault], index=vault.parent / "index", config=config, embedder=FakeEmbedder()) as library:
        library.index()
        yield library


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def budget(library: Library) -> str:
    """Return the address of the passage about the budget."""
    return library.query("how much does the team spend on servers?").passages[0].address


# ------------------------------------------------------------------ addresses


@given(WRITTEN, WRITTEN, st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Cf"))), st.sampled_from(["", "1a2b3c4d"]))
def test_an_address_gives_back_what_it_was_made_of(folder: str, path: str, heading: str, digest: str) -> None:
    written = address_of(folder, path, heading, digest)
    assert read_address(written) == Address(folder, path, heading, digest)
    assert not any(each.isspace() or each in "\"'()[]<>" for each in written)


@pytest.mark.parametrize("written", ["", "plans.md", "thumbindex://", "thumbindex://notes", "thumbindex:///plans.md", "file:///plans.md"])
def test_what_names_no_note_is_no_address(written: str) -> None:
    assert read_address(written) is None


def test_an_address_leads_to_its_passage_as_it_stands(library: Library) -> None:
    address = budget(library)
    assert read_address(address)._replace(digest="") == Address("notes", "plans.md", "Budget")  # type: ignore[union-attr]
    excerpt = library.read(address)
    assert (excerpt.start_line, excerpt.end_line) == (5, 8)
    assert library.related(address).path == library.outline(address)[0].path == "plans.md"


def test_an_address_leads_to_its_passage_after_lines_above_it_were_added(library: Library, vault: Path) -> None:
    address = budget(library)
    write(vault, "plans.md", NOTES["plans.md"].replace("## Budget", "More.\n\nMuch more.\n\n## Budget"))
    assert library.read(address).start_line == 9  # read as it is on disk, though it is not indexed yet


def test_an_address_leads_to_its_passage_in_a_note_that_was_renamed(library: Library, vault: Path) -> None:
    address = budget(library)
    (vault / "archive").mkdir()
    (vault / "plans.md").rename(vault / "archive/old plans.md")
    library.index()
    assert (library.read(address).path, library.read(address).start_line) == ("archive/old plans.md", 5)


def test_an_address_leads_to_its_heading_where_the_text_has_changed(library: Library, vault: Path) -> None:
    address = budget(library)
    write(vault, "plans.md", NOTES["plans.md"].replace("4,000", "5,000"))
    assert "5,000" in library.read(address).text


@pytest.mark.parametrize("change", ["gone", "private"])
def test_an_address_of_a_private_note_and_of_one_that_is_gone_lead_nowhere(library: Library, vault: Path, change: str) -> None:
    address = budget(library)
    if change == "gone":
        (vault / "plans.md").unlink()
    else:
        write(vault, "plans.md", f"---\nprivate: true\n---\n{NOTES['plans.md']}")
    for _ in range(2):
        with pytest.raises(UnknownPathError, match=r"No document 'plans\.md' in the index"):
            library.read(address)
        library.index()
