"""Copies are planted the same way each time, and counted for what they are in answers."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.study.copies import FOLDER, KINDS, SHARE, measure_copies, plant, renumber, reword
from thumbindex.testing import FakeEmbedder

SUBJECTS = "whales beacons orchards ledgers violins glaciers lanterns harbors turbines saddles kettles mosaics anchors quarries ribbons".split()

SECTION = (
    "{0} are kept for {1} days in order to be counted, and every keeper of {0} writes them down such as it is the custom, "
    "because a note about {0} that nobody wrote cannot be found by those who come later."
)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    root.mkdir()
    for n, subject in enumerate(SUBJECTS):
        own = " and ".join(f"{subject}{letter}" for letter in "abcdef")
        text = f"# About {subject}\n\nOf {subject} there are {own}. {SECTION.format(subject, n + 7)}\n"
        (root / f"{subject}.md").write_text(text, encoding="utf-8")
    return root


def test_a_share_of_the_sections_is_planted_by_turns_and_the_same_for_the_same_seed(notes: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in notes.iterdir()}
    planted = plant(notes, tmp_path / "one", share=0.4)
    assert Counter(each.kind for each in planted) == dict.fromkeys(KINDS, round(0.4 * len(SUBJECTS)) // len(KINDS))
    assert planted == plant(notes, tmp_path / "two", share=0.4) != plant(notes, tmp_path / "three", share=0.4, seed=2)
    assert {path.name: path.read_bytes() for path in notes.iterdir()} == before
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*.md")} == before
    assert len(list((tmp_path / "one" / FOLDER).iterdir())) == len(planted)
    assert len(plant(notes, tmp_path / "four")) == round(SHARE * len(SUBJECTS))


def test_a_copy_says_at_its_decisive_line_what_its_kind_promises(notes: Path, tmp_path: Path) -> None:
    for each in plant(notes, tmp_path / "made", share=0.4):
        for spot in (each.original, each.copy):
            assert (tmp_path / "made" / spot.path).read_text(encoding="utf-8").split("\n")[spot.line - 1] == spot.text
        assert (each.original.text == each.copy.text) == (each.kind == "copied")
        assert each.original.path.removesuffix(".md") in each.question.split()


def test_rewording_leaves_code_links_headings_and_tables_as_they_are() -> None:
    held = "# Also use this\n\n```\nuse also\n```\n\n| use | also |\n\n`use also` [here](also) [[use also]]\n\n"
    assert reword(f"{held}You use it, but also cannot want it.") == f"{held}You employ it, but as well can't wish it."
    assert reword("Nothing here is put another way.") is None


def test_another_number_is_put_in_prose_once() -> None:
    assert renumber("`30` and [a](b30) in 5.1: keep 30 of 40.") == "`30` and [a](b30) in 5.1: keep 90 of 40."
    assert renumber("Version 5.1 of `30` has no number.") is None


def test_copies_are_counted_without_deduplication_and_come_once_with_it(notes: Path, tmp_path: Path) -> None:
    planted = plant(notes, tmp_path / "made", share=0.4)

    def opening(settings: Sequence[str]) -> Library:
        return Library.open([tmp_path / "made"], index=tmp_path / "index", config=load_config(overrides=settings), embedder=FakeEmbedder())

    found = measure_copies(planted, ["keepers of whales"], opening, lambda _: None)
    assert [copies.answers for copies in found.values()] == [len(planted), 1] * 2
    without, with_it = (found[f"their own words, {how} deduplication"] for how in ("without", "with"))
    assert without.twice["copied"] == without.met["copied"] == with_it.met["copied"] > 0
    assert (with_it.twice["copied"], with_it.lost["copied"]) == (0, 0)
    assert with_it.lost["renumbered"] == 0 < with_it.paired["renumbered"]
