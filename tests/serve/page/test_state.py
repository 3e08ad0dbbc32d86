"""State: how each folder is, in words; nothing of the disk for who is elsewhere; growth by month
and day.
"""

import json
import os
from dataclasses import replace
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from thumbindex.index.growth import MOST_DAYS, keep_day, read_days, sizes_of
from thumbindex.model import GrowthDay
from thumbindex.serve.background import Background
from thumbindex.serve.opening import Opening
from thumbindex.serve.page.state import is_absolute
from thumbindex.serve.page.visit import NOT_FROM_AFAR

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "status.json"


def test_a_folder_says_how_it_is(browser, tags_of):
    page = tags_of(browser.get("/state").text)
    assert "vault" in page.text
    assert "No process keeps it up to the disk" in page.text
    assert any(link.startswith("/map?show=broken") for link in page.links())


def test_the_twin_is_what_status_prints_and_growth(browser):
    found = browser.json("/state.json")
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [each["folder"] for each in found["growth"]] == ["vault"]


def test_comparing_with_the_disk_finds_what_is_not_indexed(vault_copy, browse):
    library = vault_copy({"a.md": "# A\n\nText.\n"})
    page = browse(library)
    assert "are not indexed as they are now" not in page.get("/state?look=1").text
    (library.folders[0][1] / "b.md").write_text("# B\n\nMore.\n", encoding="utf-8")
    assert "are not indexed as they are now" in page.get("/state?look=1").text


def test_paths_are_for_who_is_near(library, visit_of, show):
    root = str(library.folders[0][1])
    assert root in show("state", visit_of(library))[1]
    screen, html = show("state", visit_of(library, is_near=False))
    assert (root in html, root in json.dumps(screen.twin())) == (False, False)


def test_what_could_not_be_read_is_listed_with_its_reason(vault_copy, browse):
    library = vault_copy({"a.md": "---\ntags: [unclosed\n---\n# A\n\nText.\n"})
    page = browse(library).get("/state").text
    assert "a.md" in page
    assert "Nothing: every file was read as it stands" not in page


def test_notes_are_counted_by_the_month_in_which_they_were_written(vault_copy):
    library = vault_copy(
        {
            "a.md": "---\ncreated: 2026-01-05\n---\n# A\n\nText.\n",
            "b.md": "---\ncreated: 2026-03-01\n---\n# B\n\nText.\n",
            "c.md": "# C\n",
        }
    )
    (growth,) = library.growth()
    assert [(month, written) for month, written, _ in growth.months] == [
        ("2026-01", 1),
        ("2026-02", 0),
        ("2026-03", 1),
    ]
    assert growth.undated == 1


def test_a_day_has_one_row_and_damage_costs_only_that_row(vault_copy):
    library = vault_copy({"a.md": "# A\n\nText.\n"})
    places = library.opened[0].places
    library.keep_growth()
    library.keep_growth()
    assert [each.day for each in read_days(places)] == [date.today().isoformat()]
    places.growth.write_text(
        '["2020-01-01", 1, 2, 3]\n{broken\n["2020-01-02", 2, 3, 4]\n[1]\n', encoding="utf-8"
    )
    assert [each.day for each in read_days(places)] == ["2020-01-01", "2020-01-02"]


def test_rows_are_kept_for_three_years_only(vault_copy):
    places = vault_copy({"a.md": "# A\n\nText.\n"}).opened[0].places
    places.growth.write_text(
        "".join(f'["{day:010}", 1, 1, 1]\n' for day in range(MOST_DAYS + 50)), encoding="utf-8"
    )
    keep_day(places, GrowthDay("9999-01-01", 1, 1, 1))
    days = read_days(places)
    assert (len(days), days[-1].day) == (MOST_DAYS, "9999-01-01")


def test_sizes_are_told_by_part(library):
    parts = dict(sizes_of(library.opened[0].places))
    assert parts["words"] > 0
    assert parts["texts, links and dates"] > 0


@pytest.mark.parametrize(
    ("path", "is_of_a_disk"),
    [("/etc/x", True), ("C:\\notes\\x", True), ("\\\\server\\share\\x", True), ("a/b.md", False)],
)
def test_a_path_of_a_disk_is_known_whatever_system_wrote_it(path, is_of_a_disk):
    assert is_absolute(path) is is_of_a_disk


def test_from_afar_no_warning_names_a_place_of_the_disk(library, visit_of):
    root = library.folders[0][1]

    class Worried(Background):
        def notes(self, only=None):
            return (f"{root}: the disk is full.", "The model is missing.")

    def visit(**facts):
        return replace(
            visit_of(library, **facts),
            background=Worried(Opening(), lambda opening: library, command=[]),
        )

    assert visit().warnings() == [f"{root}: the disk is full.", "The model is missing."]
    assert visit(is_near=False).warnings() == [NOT_FROM_AFAR, "The model is missing."]


def test_what_was_indexed_last_is_told_while_it_stands_in_the_log(vault_copy):
    library = vault_copy({"a.md": "# A\n\nText.\n"})
    store = library.opened[0].places.store
    os.utime(store, (1e9, 1e9))
    log = store.with_name(f"{store.name}-wal")
    log.touch()
    os.utime(log, (1.5e9, 1.5e9))
    assert library.status()[0].updated.startswith("2017-07-14")
