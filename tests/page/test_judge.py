"""The Judge screen: judgments are stored as a query set for `thumbindex eval`."""

import json
import threading
from html import unescape

import pytest

from thumbindex.errors import StorageError
from thumbindex.evaluation.queries import load_queries
from thumbindex.index.judgment_file import read_judgments

NOTES = {
    "sync.md": "# Sync\n\n## Set up\n\nPress the green button.\n",
    "other.md": "# Other\n\nGrind the beans.\n",
}


@pytest.fixture
def vault(vault_copy):
    return vault_copy(NOTES)


def mark(page, grade: str, query: str = "Which button?", path: str = "sync.md", **more):
    form = {
        "query": query,
        "kind": "factual",
        "folder": "vault0",
        "path": path,
        "heading": "Set up",
        "grade": grade,
        **more,
    }
    return page.post("/judge/mark", form, Accept="application/json")


def test_judgment_becomes_a_query_for_eval(page, vault):
    assert mark(page, "2").json()["grade"] == 2
    (query,) = load_queries(vault.opened[0].index_paths.judged_set)
    (label,) = query.relevant
    assert (query.query, query.kind, label.path, label.heading, label.grade) == (
        "Which button?",
        "factual",
        "sync.md",
        "Set up",
        2,
    )


def test_last_judgment_counts_for_spelling_variants_of_a_query(page, vault):
    mark(page, "2")
    mark(page, "1", query="  which BUTTON? ")
    (judged,) = read_judgments(vault.opened[0].index_paths)
    assert [judgment.grade for judgment in judged.judgments] == [1]
    mark(page, "take_back")
    assert read_judgments(vault.opened[0].index_paths) == ()


def test_grade_zero_is_stored_but_not_a_label(page, vault):
    mark(page, "0")
    assert [
        judgment.grade for judgment in read_judgments(vault.opened[0].index_paths)[0].judgments
    ] == [0]
    assert vault.opened[0].index_paths.judged_set.read_text(encoding="utf-8") == ""


def test_buttons_show_the_stored_grade(page, vault, tags_of):
    place = vault.query("green button").passages[0]
    mark(page, "2", query="green button", path=place.path, heading=place.heading)
    pressed = [
        a
        for tag, a in tags_of(page.get("/?q=green+button").text).tags
        if tag == "button" and a.get("aria-pressed") == "true"
    ]
    assert [button["data-grade"] for button in pressed] == ["2"]


def test_judging_writes_no_note_and_survives_a_rebuild(page, vault):
    mark(page, "2")
    before = {path: (vault.folders[0][1] / path).read_bytes() for path in NOTES}
    vault.index(rebuild=True)
    assert len(read_judgments(vault.opened[0].index_paths)) == 1
    assert {path: (vault.folders[0][1] / path).read_bytes() for path in NOTES} == before


def test_judgments_of_newly_private_notes_are_deleted(page, vault):
    mark(page, "2")
    mark(page, "1", path="other.md", heading="")
    (vault.folders[0][1] / "sync.md").write_text(
        "---\nprivate: true\n---\n# Sync\n", encoding="utf-8"
    )
    assert "sync.md" not in page.get("/judge").text
    assert "sync.md" not in mark(page, "2", path="other.md", heading="").text
    vault.index()
    assert "sync.md" not in vault.opened[0].index_paths.judged.read_text(encoding="utf-8")
    assert "other.md" in vault.opened[0].index_paths.judged.read_text(encoding="utf-8")


def test_invalid_judgments_are_refused(page):
    assert mark(page, "2", path="nothing.md").status_code == 404
    assert mark(page, "7").status_code == 400
    assert mark(page, "2", query=" ").status_code == 400
    assert mark(page, "2", folder="nobody").status_code == 404


def test_unknown_field_of_an_older_version_costs_no_judgment(page, vault):
    mark(page, "2")
    path = vault.opened[0].index_paths.judged
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["judged"][0]["nothing"] = True
    path.write_text(json.dumps(stored), encoding="utf-8")
    mark(page, "1", path="other.md", heading="")
    (judged,) = read_judgments(vault.opened[0].index_paths)
    assert [judgment.grade for judgment in judged.judgments] == [2, 1]


def test_damaged_judgment_file_is_reported_and_not_overwritten(page, vault):
    path = vault.opened[0].index_paths.judged
    path.write_text("{broken", encoding="utf-8")
    assert mark(page, "2").status_code == 503
    answer = page.get("/?q=green+button")
    assert (answer.status_code, "Repair the file" in answer.text, 'id="card-1"' in answer.text) == (
        200,
        True,
        True,
    )
    assert path.read_text(encoding="utf-8") == "{broken"
    with pytest.raises(StorageError, match="Repair the file") as caught:
        read_judgments(vault.opened[0].index_paths)
    # a subclass would make the index count as damaged and rebuild it
    assert type(caught.value) is StorageError


def test_concurrent_judgments_are_all_kept(vault):
    def judge(name: str) -> None:
        for n in range(10):
            vault.judgments().judge(f"{name}{n}?", "sync.md", "", 2, folder="vault0")

    both = [threading.Thread(target=judge, args=(name,)) for name in ("a", "b")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(read_judgments(vault.opened[0].index_paths)) == 20


def test_form_redirects_to_the_answer_but_not_to_other_sites(page):
    form = {"query": "a", "folder": "vault0", "path": "sync.md", "heading": "", "grade": "2"}
    assert page.post("/judge/mark", {**form, "back": "/?q=a"}).headers["location"] == "/?q=a"
    assert (
        page.post("/judge/mark", {**form, "back": "//evil.example"})
        .headers["location"]
        .startswith("/judge")
    )


def test_missed_note_can_be_judged_on_why(page, vault, tags_of):
    address = "/why?q=Which+button%3F&path=other.md"
    assert "other.md" not in [
        passage.path for passage in vault.query("Which button?", limit=1).passages
    ]
    form = {
        facts["name"]: facts["value"]
        for tag, facts in tags_of(page.get(address).text).tags
        if tag == "input" and facts.get("type") == "hidden"
    }
    done = page.post("/judge/mark", form | {"grade": "2"})
    assert done.headers["location"] == address
    (query,) = load_queries(vault.opened[0].index_paths.judged_set)
    assert [(label.path, label.heading, label.grade) for label in query.relevant] == [
        ("other.md", None, 2)
    ]
    pressed = [
        facts["data-grade"]
        for tag, facts in tags_of(page.get(address).text).tags
        if facts.get("aria-pressed") == "true"
    ]
    assert pressed == ["2"]


def test_judge_screen_shows_the_eval_command(page, vault):
    mark(page, "2")
    text = unescape(page.get("/judge").text)
    judged_set, root = vault.opened[0].index_paths.judged_set, vault.folders[0][1]
    assert f"thumbindex eval {judged_set} --folder={root}" in text


def test_damaged_judgment_file_does_not_keep_private_notes_indexed(vault):
    vault.opened[0].index_paths.judged.write_text("{broken", encoding="utf-8")
    (vault.folders[0][1] / "sync.md").write_text(
        "---\nprivate: true\n---\n# Sync\n", encoding="utf-8"
    )
    vault.index()
    assert [entry.path for entry in vault.outline()] == ["other.md"]
    assert vault.status()[0].index.documents == 1
