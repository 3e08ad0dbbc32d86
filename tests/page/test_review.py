"""The Review screen: marked differences, decisions and undo, newly private notes."""

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


@pytest.fixture
def page(vault, browse):
    return browse(vault)


def clusters(page) -> list:
    return page.json("/review.json?show=all")["clusters"]


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


def test_open_clusters_come_first_side_by_side(page, tags_of):
    tags = tags_of(page.get("/review").text)
    assert ("mark", {}) in tags.tags
    assert any(link.startswith("/note/vault0/backup.md?lines=") for link in tags.links())
    assert "Ada" in tags.text


def test_decision_leads_to_the_next_cluster_and_can_be_undone(page, vault):
    first = next(cluster for cluster in clusters(page) if cluster["verdict"] is None)
    done = page.post(
        "/review/decide", {"id": first["id"], "verdict": "apart", "note": "two releases"}
    )
    assert (done.status_code, f"last={first['id']}" in done.headers["location"]) == (303, True)
    assert "apart" in page.get(done.headers["location"]).text
    decided = next(
        cluster for cluster in vault.duplicates(grey=True).clusters if cluster.id == first["id"]
    )
    assert (decided.verdict, decided.note) == ("apart", "two releases")
    page.post("/review/undo", {"id": first["id"]})
    assert (
        next(
            cluster for cluster in vault.duplicates(grey=True).clusters if cluster.id == first["id"]
        ).verdict
        is None
    )


def test_read_only_visitors_see_who_can_decide(vault, visit_of, show):
    _, html = show("review", visit_of(vault, may_write=False))
    assert "serve.http.writers" in html
    assert "/review/decide" not in html


def test_newly_private_note_is_in_no_cluster(page, vault):
    root = vault.folders[0][1]
    (root / "backup.md").write_text(
        "---\nprivate: true\n---\n" + NOTES["backup.md"].partition("---\n# ")[2], encoding="utf-8"
    )
    assert "backup.md" not in json.dumps(clusters(page))
    assert "backup.md" not in page.get("/review?show=all").text
