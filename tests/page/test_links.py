"""The Links screen: its lists equal the commands' output."""

import json

from thumbindex.page.visit import note_address


def test_lists_equal_the_commands_output(browser, run, tags_of):
    broken = browser.json("/links.json?show=broken")["rows"]
    assert broken == json.loads(run("broken", "--json").stdout)["links"] != []
    orphans = browser.json("/links.json?show=orphans")["rows"]
    assert orphans == json.loads(run("orphans", "--json").stdout)["notes"] != []
    shown = tags_of(browser.get("/links?show=orphans").text).links()
    assert {note_address("vault", orphan["path"]) for orphan in orphans} <= set(shown)


def test_unlinked_pairs_link_to_both_notes(vault_copy, browse, tags_of):
    same = "tea water boil cup leaf kettle pour slowly"
    page = browse(vault_copy({"tea.md": f"# Tea\n\n{same} one\n", "b.md": f"# B\n\n{same} two\n"}))
    shown = tags_of(page.get("/links?show=unlinked").text)
    assert {"/note/vault0/tea.md", "/note/vault0/b.md"} <= set(shown.links())


def test_unknown_folder_is_refused(browser):
    assert browser.get("/links?folder=nobody").status_code == 400


def test_only_the_owner_sees_that_a_target_is_private(vault_copy, browse, visit_of, show):
    library = vault_copy({"a.md": "# A\n\n[[b]] [[gone]]\n", "b.md": "# B #private\n"})
    _, shown = show("links", visit_of(library, is_owner=True))
    assert (shown.count("private note"), shown.count("missing note")) == (1, 1)
    of_others = (show("links", visit_of(library))[1], browse(library).get("/links").text)
    assert [(s.count("private note"), s.count("missing note")) for s in of_others] == [(0, 2)] * 2
