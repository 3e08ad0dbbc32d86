"""A passage that repeats an earlier one is not shown, also if the notes are cut differently."""

from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.compare.differences import repeated_paragraph

DRAW = (
    "A trait object differs from an object of other languages, because no data can be added to it."
)
SAME = f"# Draw\n\n{DRAW}\n\nListing 3 defines the trait `Draw` of screens.\n\n"
FIRST = (
    f'{SAME}<Listing number="3" caption="The trait `Draw`">\n\n'
    "```rust\n{{#include draw.rs}}\n```\n"
)
SECOND = f"{SAME}Listing 3: The trait `Draw`\n\n```\npub trait Draw {{}}\n```\n"


def test_repeated_passage_is_shown_once_and_cited(tmp_path: Path) -> None:
    notes = {"first.md": FIRST, "second.md": SECOND, "other.md": "# Moss\n\nMoss grows.\n"}
    with open_library(write_notes(tmp_path / "notes", notes)) as library:
        library.index(complete=True)
        first, second = library.query("trait object", limit=2).passages
    paths = {"first.md", "second.md"}
    assert {first.path, *(place.path for place in first.also_in)} == paths
    assert second.path == "other.md"


@pytest.mark.parametrize(
    "more",
    [
        "Listing 4: The trait `Draw`",
        "The trait of screens is not `Draw`.",
        "A trait object needs a trait without generic methods.",
        "Use boxes for them.",
    ],
)
def test_passage_with_another_number_negation_or_word_is_shown(more: str) -> None:
    stems = {"trait", "object"}
    assert repeated_paragraph(SECOND, FIRST, stems) == DRAW
    other = SECOND.replace("Listing 3: The trait `Draw`", more)
    assert repeated_paragraph(other, FIRST, stems) == ""
    code = FIRST.replace("{{#include draw.rs}}", "trait Draw;")
    assert repeated_paragraph(SECOND, code, stems) == ""
