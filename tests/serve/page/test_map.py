"""The map's screen: the lists work without places, and its data says all of it."""

import json
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "map.json"


def test_the_lists_work_without_places(browser, tags_of):
    page = tags_of(browser.get("/map").text)
    assert "The lists below work without it" in page.text
    assert "/note/vault/sync.md" in page.links()


def test_the_command_prints_what_the_page_shows(run):
    printed = json.loads(run("map", "--json").stdout)
    jsonschema.validate(printed, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {note["path"] for note in printed["folders"][0]["notes"]} >= {
        "sync.md",
        "plugins/canvas.md",
    }
    assert "near and not linked" in run("map", "--help").stdout
