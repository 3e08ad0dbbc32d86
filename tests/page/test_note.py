"""The Note screen: links, cited lines, and one answer for hidden and missing notes."""

import pytest

NOTES = {
    "tea.md": (
        "---\ndate: 2026-02-01\n---\n# Tea\n\nBoil water, pour. See [[milk]], [[nowhere]] and "
        "[[milk#Warm]].\n\n## Steep\n\nThree minutes.\n"
    ),
    "milk.md": "# Milk\n\n## Warm\n\nNever boil it. For [[tea]].\n",
    "cup.md": "# Cup\n\nBoil water, pour into a cup of tea.\n",
    "far/sugar.md": "---\ntitle: Sugar cane\n---\nGoes into [[milk]] and [milk](../milk.md).\n",
}


@pytest.fixture
def page(vault_copy, browse):
    return browse(vault_copy(NOTES))


def test_note_shows_links_backlinks_and_broken_links(page, tags_of):
    tags = tags_of(page.get("/note/vault0/tea.md").text)
    assert "Never boil it. For tea." in tags.text
    assert {"/note/vault0/milk.md", "/note/vault0/milk.md?heading=Warm"} <= set(tags.links())
    assert "nowhere line 6 missing note" in " ".join(tags.text.split())
    assert "[[" not in tags.text


def test_cited_lines_are_marked(page, tags_of):
    text = page.get("/note/vault0/tea.md?lines=10-10").text
    assert 'class="block cited" data-lines="10-10"' in text
    assert 'data-copy="tea.md (line 10)"' in text


def test_heading_marks_its_section(page):
    assert (
        'class="block cited" data-lines="10-10"'
        in page.get("/note/vault0/tea.md?heading=Steep").text
    )
    assert page.get("/note/vault0/tea.md?heading=Nothing").status_code == 400


def test_source_shows_the_markdown(page, tags_of):
    tags = tags_of(page.get("/note/vault0/tea.md?source=1").text)
    assert "date: 2026-02-01" in tags.text
    assert "[[milk#Warm]]" in tags.text


@pytest.mark.parametrize(
    "path",
    [
        "",
        "vault0",
        "vault0/",
        "vault0/nothing.md",
        "vault0/tea",
        "nobody/tea.md",
        "vault0/tea.md/x",
        "vault0/far",
    ],
)
def test_unknown_paths_get_the_same_404(page, path):
    response, missing = page.get(f"/note/{path}"), page.get("/note/vault0/missing.md")
    assert (response.status_code, response.text) == (404, missing.text)


def test_missing_lines_are_refused(page):
    assert page.get("/note/vault0/tea.md?lines=90-99").status_code == 400
    assert page.get("/note/vault0/tea.md?lines=9-2").status_code == 400


def test_backlink_text_is_omitted_if_the_note_has_changed(vault_copy, visit_of, show):
    library = vault_copy(NOTES)
    (library.folders[0][1] / "milk.md").write_text(
        "# Milk\n\n\n\nSomething else.\n", encoding="utf-8"
    )
    screen, _ = show("note", visit_of(library, subpath="vault0/tea.md"))
    assert [text for _, _, text, _ in screen.values["backlinks"]] == [""]


def test_editor_links_are_shown_to_local_visitors_only(vault_copy, visit_of, show):
    library = vault_copy(NOTES)
    assert "vscode://" in show("note", visit_of(library, subpath="vault0/tea.md"))[1]
    assert (
        "vscode://"
        not in show("note", visit_of(library, subpath="vault0/tea.md", is_local=False))[1]
    )


def test_long_source_is_shown_around_the_cited_lines(vault_copy, browse, tags_of):
    long = "# Long\n\n" + "".join(f"Line {n} of many words.\n\n" for n in range(5_000))
    page = browse(vault_copy({"long.md": long}))
    ids = [
        facts.get("id") or ""
        for _, facts in tags_of(page.get("/note/vault0/long.md?source=1&lines=9000-9000").text).tags
    ]
    assert "L9000" in ids
    assert len(ids) < 10_000


def test_a_link_of_a_passage_to_a_private_note_looks_broken(vault_copy):
    library = vault_copy(NOTES)
    [passage] = library.query("boil water path:tea").passages[:1]

    def rendered() -> str:
        return library.render_passage(
            passage,
            0,
            len(passage.text),
            note_address=lambda path, heading: f"/{path}#{heading}",
            tag_address=str,
        )

    assert '<mark>Boil</mark> <mark>water</mark>, pour. See <a href="/milk.md#">milk' in rendered()
    (library.folders[0][1] / "milk.md").write_text("---\nprivate: true\n---\n", encoding="utf-8")
    assert (rendered().count('class="broken"'), "/milk.md" in rendered()) == (3, False)
