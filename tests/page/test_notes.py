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
    for command in ("list", "orphans"):
        notes = json.loads(run(command, "--json").stdout)["notes"]
        links = tags_of(browser.get(f"/notes?show={command}").text).links()
        shown = [link for link in links if link.startswith("/note/")]
        assert shown == [note_address("vault", note["path"]) for note in notes] != []


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
def test_notes_are_filtered_and_sorted(vault_copy, visit_of, show, query, paths):
    screen, _ = show("notes", visit_of(vault_copy(NOTES), query))
    assert [row.path for row in screen.values["rows"]] == paths


def test_each_filter_can_be_removed(vault_copy, visit_of, show):
    screen, _ = show("notes", visit_of(vault_copy(NOTES), "title=te&tag=drink&sort=title"))
    assert [(chip.words, chip.href) for chip in screen.values["chips"]] == [
        ("tag: drink", "/notes?sort=title&where=title%3Ate"),
        ("title:te", "/notes?sort=title&tag=drink"),
    ]


def test_long_lists_have_pages(vault_copy, browse, visit_of, show, tags_of):
    library = vault_copy({f"{n:02}.md": f"# Note {n:02}\n\nText.\n" for n in range(60)})
    second = show("notes", visit_of(library, "page=2&sort=title"))[0].values
    assert (second["count"], second["pages"], second["rows"][0].title) == ("60 notes", 2, "Note 50")
    page = browse(library).get("/notes?sort=title").text
    assert "/notes?sort=title&page=2" in tags_of(page).links()


def test_unlinked_pairs_link_to_both_notes(vault_copy, browse, tags_of):
    same = "tea water boil cup leaf kettle pour slowly"
    page = browse(vault_copy({"tea.md": f"# Tea\n\n{same} one\n", "b.md": f"# B\n\n{same} two\n"}))
    shown = tags_of(page.get("/notes?show=unlinked").text)
    assert {"/note/vault0/tea.md", "/note/vault0/b.md"} <= set(shown.links())


def test_unknown_folder_is_not_found(browser):
    assert browser.get("/notes?folder=nobody").status_code == 404
