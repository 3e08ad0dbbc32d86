"""Links: the lists are those of the commands."""

import json

from thumbindex.page.visit import note_address


def test_each_list_is_what_its_command_prints(browser, run, tags_of):
    broken = browser.json("/links.json?show=broken")["rows"]
    assert broken == json.loads(run("broken", "--json").stdout)["links"] != []
    orphans = browser.json("/links.json?show=orphans")["rows"]
    assert orphans == json.loads(run("orphans", "--json").stdout)["notes"] != []
    shown = tags_of(browser.get("/links?show=orphans").text).links()
    assert {note_address("vault", orphan["path"]) for orphan in orphans} <= set(shown)


def test_pairs_that_are_near_lead_to_both_notes(vault_copy, browse, tags_of):
    same = "tea water boil cup leaf kettle pour slowly"
    page = browse(vault_copy({"tea.md": f"# Tea\n\n{same} one\n", "b.md": f"# B\n\n{same} two\n"}))
    shown = tags_of(page.get("/links?show=unlinked").text)
    assert {"/note/vault0/tea.md", "/note/vault0/b.md"} <= set(shown.links())


def test_a_folder_that_is_not_there_is_said(browser):
    assert browser.get("/links?folder=nobody").status_code == 400
