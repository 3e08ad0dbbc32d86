"""The map's screen: the lists work without places, and its data says all of it."""

import json
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "map.json"


def test_the_lists_work_without_places(browser, tags_of):
    page = tags_of(browser.get("/map").text)
    assert "The lists below work without it" in page.text
    assert "/note/vault/sync.md" in page.links()


def test_orphans_broken_links_and_all_notes_are_lists_to_work_off(browser, tags_of):
    assert (
        "/note/vault/plugins/graph%20view.md"
        in tags_of(browser.get("/map?show=orphans").text).links()
    )
    assert "[[nowhere]]" in browser.get("/map?show=broken").text
    by_links = tags_of(browser.get("/map?sort=links").text).links()
    notes = [link for link in by_links if link.startswith("/note/")]
    assert notes[-1] == "/note/vault/plugins/graph%20view.md"


def test_the_twin_leads_to_notes(browser):
    found = browser.json("/map.json?color=tag&q=green+button")
    (folder,) = found["folders"]
    assert {note["address"] for note in folder["notes"]} >= {"/note/vault/sync.md"}
    assert [note["path"] for note in folder["notes"] if note["lit"]][:1] == ["sync.md"]
    assert any(note["group"] == 0 for note in folder["notes"])


def test_a_laid_out_map_has_a_canvas_with_its_list(vault_copy, browse):
    library = vault_copy(
        {f"n{n}.md": f"# Note {n}\n\nText of note {n} about thing {n % 3}.\n" for n in range(6)}
    )
    library.lay_out(is_asked=True)
    page = browse(library).get("/map").text
    assert '<canvas id="map"' in page
    assert "n0.md" in page


def test_a_folder_or_kind_that_there_is_not_is_told(browser):
    assert browser.get("/map?folder=nobody").status_code == 400
    assert browser.get("/map?color=mood").status_code == 400
    assert browser.get("/map?view=1,2").status_code == 400


def test_what_is_seen_of_the_map_stays_with_its_lists(browser, tags_of):
    links = tags_of(browser.get("/map?view=0.25,-0.1,2&off=labels").text).links()
    assert "/map?off=labels&view=0.25%2C-0.1%2C2&show=orphans#lists" in links


def test_the_command_prints_what_the_page_shows(run):
    printed = json.loads(run("map", "--json").stdout)
    jsonschema.validate(printed, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {note["path"] for note in printed["folders"][0]["notes"]} >= {
        "sync.md",
        "plugins/canvas.md",
    }
    assert "near and not linked" in run("map", "--help").stdout
