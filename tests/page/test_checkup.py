"""The Health screen: what is listed, decisions and undo, newly private notes."""

import json
import time

import pytest

from thumbindex.present.clusters import MAX_DIFF_TOKENS, diff_texts, exceeds_diff_limit

LONG = (
    "Copy the whole vault to another disk every evening, keep {} copies of it, and try once a "
    "month whether the oldest can be read at all."
)
NOTES = {
    "backup.md": f"---\ndate: 2025-05-01\nowner: Ada\n---\n# Backup\n\n{LONG.format(30)}\n",
    "old.md": f"---\ndate: 2021-05-01\n---\n# Old\n\n{LONG.format(60)}\n",
    "copy.md": f"# Copy\n\n{LONG.format(30)}\n",
    "other.md": "# Other\n\nGrind the beans, boil water, pour slowly.\n",
}


@pytest.fixture
def vault(vault_copy):
    return vault_copy(NOTES)


def clusters(page) -> list:
    return page.json("/checkup.json?show=all")["clusters"]


def test_comparison_of_huge_texts_takes_limited_time():
    text = "word " * (20 * MAX_DIFF_TOKENS)
    started = time.process_time()
    left, right = diff_texts(text, text + "more")
    assert time.process_time() - started < 10  # all of it would take hours
    assert exceeds_diff_limit(text)
    assert ("".join(piece for piece, _ in left), "".join(piece for piece, _ in right)) == (
        text,
        text + "more",
    )


def test_a_contradiction_comes_first_and_is_compared_side_by_side(page, tags_of):
    tags = tags_of(page.get("/checkup").text)
    assert "They disagree: 30 vs. 60" in tags.text
    assert "If you do nothing, both are shown, each with a note that they disagree." in tags.text
    compare = next(link for link in tags.links() if "at=" in link)
    tags = tags_of(page.get(compare).text)
    assert ("mark", {}) in tags.tags
    assert any(link.startswith("/note/vault0/backup.md?lines=") for link in tags.links())
    assert "Ada" in tags.text


def test_decision_leads_to_the_next_cluster_and_can_be_undone(page, vault):
    first = next(cluster for cluster in clusters(page) if cluster["verdict"] is None)
    done = page.post(
        "/checkup/decide", {"id": first["id"], "verdict": "apart", "note": "two releases"}
    )
    assert (done.status_code, f"last={first['id']}" in done.headers["location"]) == (303, True)
    assert "You decided: all are kept (two releases)." in page.get(done.headers["location"]).text
    decided = next(
        cluster for cluster in vault.duplicates(grey=True).clusters if cluster.id == first["id"]
    )
    assert (decided.verdict, decided.note) == ("apart", "two releases")
    page.post("/checkup/undo", {"id": first["id"]})
    assert (
        next(
            cluster for cluster in vault.duplicates(grey=True).clusters if cluster.id == first["id"]
        ).verdict
        is None
    )


def test_read_only_visitors_see_who_can_decide(vault, visit_of, show):
    _, html = show("checkup", visit_of(vault, may_write=False))
    assert "serve.http.writers" in html
    assert "/checkup/decide" not in html


def test_newly_private_note_is_in_no_cluster(page, vault):
    root = vault.folders[0][1]
    (root / "backup.md").write_text(
        "---\nprivate: true\n---\n" + NOTES["backup.md"].partition("---\n# ")[2], encoding="utf-8"
    )
    assert "backup.md" not in json.dumps(clusters(page))
    assert "backup.md" not in page.get("/checkup?show=all").text


def test_ten_are_shown_and_ten_more_on_request(vault_copy, browse, tags_of):
    links = "".join(f"[[gone {n:02}]]\n" for n in range(12))
    page = browse(vault_copy({"a.md": f"# A\n\n{links}"}))
    tags = tags_of(page.get("/checkup").text)
    assert tags.text.count("missing note") == 10
    assert "/checkup?links=20#links" in tags.links()
    assert tags_of(page.get("/checkup?links=20").text).text.count("missing note") == 12


def test_most_frequent_broken_link_comes_first(vault_copy, browse):
    page = browse(vault_copy({"a.md": "# A\n\n[[one]]\n", "b.md": "# B\n\n[[two]] [[two]]\n"}))
    assert [link["target"] for link in page.json("/checkup.json")["broken"]] == [
        "two",
        "two",
        "one",
    ]


def test_only_the_owner_sees_that_a_target_is_private(vault_copy, browse, visit_of, show):
    library = vault_copy({"a.md": "# A\n\n[[b]] [[gone]]\n", "b.md": "# B #private\n"})
    _, shown = show("checkup", visit_of(library, is_owner=True))
    assert (shown.count("private note"), shown.count("missing note</span>")) == (1, 1)
    of_others = (show("checkup", visit_of(library))[1], browse(library).get("/checkup").text)
    assert [(s.count("private note"), s.count("missing note</span>")) for s in of_others] == [
        (0, 2)
    ] * 2


def test_retired_notes_without_a_successor_are_listed(vault_copy, browse, tags_of):
    page = browse(
        vault_copy(
            {
                "old.md": "---\nsuperseded_by: new.md\n---\n# Old\n",
                "new.md": "# New\n",
                "lost.md": "---\nsuperseded_by: gone.md\n---\n# Lost\n",
                "end.md": "---\nstatus: deprecated\n---\n# End\n",
            }
        )
    )
    paths = [note["path"] for note in page.json("/checkup.json")["retired"]]
    assert paths == ["lost.md", "end.md"]
    assert "superseded by gone.md, which is not in the index" in page.get("/checkup").text
