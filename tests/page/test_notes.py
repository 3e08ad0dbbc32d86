"""The Notes screen: its lists equal the commands' output, with sort, filters and pages."""

import json

import pytest

from thumbindex.page.visit import note_address

NOTES = {
    "ada.md": "---\ntags: [people]\ndate: 2021-05-01\n---\n# Ada\n\nSee [[tea]].\n",
    "tea.md": "---\ntags: [drink]\ndate: 2025-05-01\nstatus: done\n---\n# Tea\n\nBoil water.\n",
    "b/zoo.md": "# Zoo\n\nNothing but animals.\n",
}


def test_lists_equal_the_commands_output(browser, run, tags_of):
    notes = browser.json("/notes.json")["rows"]
    assert notes == json.loads(run("list", "--json").stdout)["notes"] != []
    orphans = browser.json("/notes.json?show=orphans")["rows"]
    assert orphans == json.loads(run("orphans", "--json").stdout)["notes"] != []
    shown = tags_of(browser.get("/notes?show=orphans").text).links()
    assert {note_address("vault", orphan["path"]) for orphan in orphans} <= set(shown)


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("", ["tea.md", "ada.md", "b/zoo.md"]),
        ("sort=title", ["ada.md", "tea.md", "b/zoo.md"]),
        ("sort=-title", ["b/zoo.md", "tea.md", "ada.md"]),
        ("sort=date", ["ada.md", "tea.md", "b/zoo.md"]),
        ("sort=status", ["tea.md", "ada.md", "b/zoo.md"]),
        ("title=zoo", ["b/zoo.md"]),
        ("tag=drink&since=2024", ["tea.md"]),
        ("path=b/**", ["b/zoo.md"]),
        ("where=status:done", ["tea.md"]),
        ("show=orphans&where=has:status", []),
    ],
)
def test_notes_are_filtered_and_sorted(vault_copy, browse, query, paths):
    rows = browse(vault_copy(NOTES)).json(f"/notes.json?{query}")["rows"]
    assert [row["path"] for row in rows] == paths


def test_each_filter_can_be_removed(vault_copy, visit_of, show):
    screen, html = show("notes", visit_of(vault_copy(NOTES), "title=te&tag=drink&sort=title"))
    assert [(chip.words, chip.href) for chip in screen.values["chips"]] == [
        ("tag: drink", "/notes?sort=title&where=title%3Ate"),
        ("title:te", "/notes?sort=title&tag=drink"),
    ]
    assert "--tag=drink --where=title:te --sort=title" in html


def test_long_lists_have_pages(vault_copy, browse, tags_of):
    page = browse(vault_copy({f"{n:02}.md": f"# Note {n:02}\n\nText.\n" for n in range(60)}))
    second = page.json("/notes.json?page=2&sort=title")
    assert (second["count"], second["pages"], second["rows"][0]["title"]) == (60, 2, "Note 50")
    assert "/notes?sort=title&page=2" in tags_of(page.get("/notes?sort=title").text).links()


def test_unlinked_pairs_link_to_both_notes(vault_copy, browse, tags_of):
    same = "tea water boil cup leaf kettle pour slowly"
    page = browse(vault_copy({"tea.md": f"# Tea\n\n{same} one\n", "b.md": f"# B\n\n{same} two\n"}))
    shown = tags_of(page.get("/notes?show=unlinked").text)
    assert {"/note/vault0/tea.md", "/note/vault0/b.md"} <= set(shown.links())


def test_unknown_folder_is_not_found(browser):
    assert browser.get("/notes?folder=nobody").status_code == 404
