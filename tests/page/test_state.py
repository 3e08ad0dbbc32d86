"""State: how each folder is, in words; nothing of the disk for who is elsewhere."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema

from thumbindex.background.host import LibraryHost
from thumbindex.opening import OpenOptions
from thumbindex.page.visit import SEE_SERVER_LOG

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "status.json"


def test_a_folder_says_how_it_is(browser, tags_of):
    page = tags_of(browser.get("/state").text)
    assert "vault" in page.text
    assert "No process keeps it up to the disk" in page.text
    assert any(link.startswith("/links?show=broken") for link in page.links())


def test_the_twin_is_what_status_prints(browser):
    found = browser.json("/state.json")
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [each["folder"] for each in found["folders"]] == ["vault"]


def test_paths_are_for_who_is_local(library, visit_of, show):
    root = str(library.folders[0][1])
    assert root in show("state", visit_of(library))[1]
    screen, html = show("state", visit_of(library, is_local=False))
    assert (root in html, root in json.dumps(screen.payload())) == (False, False)


def test_what_could_not_be_read_is_listed_with_its_reason(vault_copy, browse):
    library = vault_copy({"a.md": "---\ntags: [unclosed\n---\n# A\n\nText.\n"})
    page = browse(library).get("/state").text
    assert "a.md" in page
    assert "Nothing: every file was read as it stands" not in page


def test_from_afar_no_warning_names_a_place_of_the_disk(library, visit_of):
    root = library.folders[0][1]

    class Worried(LibraryHost):
        def notes(self, only=None):
            return (f"{root}: the disk is full.", "The model is missing.")

    def visit(**facts):
        return replace(
            visit_of(library, **facts),
            library_host=Worried(OpenOptions(), lambda opening: library, command=[]),
        )

    assert visit().warnings() == [f"{root}: the disk is full.", "The model is missing."]
    assert visit(is_local=False).warnings() == [SEE_SERVER_LOG, "The model is missing."]
