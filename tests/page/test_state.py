"""The State screen: each folder's state, without file paths for remote visitors."""

import re
from dataclasses import replace

from thumbindex.background.host import LibraryHost
from thumbindex.opening import OpenOptions
from thumbindex.page.visit import SEE_SERVER_LOG


def test_state_describes_each_folder(browser, tags_of):
    text = " ".join(tags_of(browser.get("/state").text).text.split())
    assert "vault ▲ No running process keeps this index up to date" in text
    assert re.search(
        r"\d notes · last change on [A-Z][a-z]+ \d+, \d{4} at \d\d:\d\d · model .+ MB on disk", text
    )


def test_times_are_in_utc_for_remote_visitors(library, visit_of, show):
    assert " UTC ·" in show("state", visit_of(library, is_local=False))[1]


def test_state_shows_paths_to_local_visitors_only(library, visit_of, show):
    root = str(library.folders[0][1])
    assert root in show("state", visit_of(library))[1]
    assert root not in show("state", visit_of(library, is_local=False))[1]


def test_private_notes_are_listed_only_on_the_page_of_their_owner(
    vault_copy, browse, visit_of, show
):
    library = vault_copy({"a.md": "# A\n", "diary.md": "# D\n\nThis is #private.\n"})
    assert "diary" not in show("state", visit_of(library, is_owner=True))[1]
    html = show("state", visit_of(library, "private=1", is_owner=True))[1]
    assert "diary.md, line 3" in html
    assert "the tag #private" in html
    # `serve --http` without tokens: also local, but anybody
    text = browse(library).get("/state?private=1").text
    assert not any(word in text for word in ("diary", "Private notes", "#private"))


def test_unreadable_parts_are_listed_with_reasons(vault_copy, browse):
    library = vault_copy({"a.md": "---\ntags: [unclosed\n---\n# A\n\nText.\n"})
    page = browse(library).get("/state").text
    assert "Files left out or read in part (1)" in page
    assert "a.md" in page


def test_warnings_hide_paths_from_remote_visitors(library, visit_of):
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
