"""Judge: a thumb is kept as a labeled question, for those who may judge, of notes they may see."""

import json
import shlex
import threading

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


@pytest.fixture
def page(vault, browse):
    return browse(vault)


def mark(page, grade: str, query: str = "Which button?", path: str = "sync.md", **more):
    given = {
        "query": query,
        "kind": "factual",
        "folder": "vault0",
        "path": path,
        "heading": "Set up",
        "grade": grade,
        **more,
    }
    return page.post("/judge/mark", given, Accept="application/json")


def test_a_thumb_is_a_line_that_eval_reads(page, vault):
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


def test_a_question_is_one_however_it_is_typed_and_the_last_judgment_holds(page, vault):
    mark(page, "2")
    mark(page, "1", query="  which BUTTON? ")
    (judged,) = read_judgments(vault.opened[0].index_paths)
    assert [judgment.grade for judgment in judged.judgments] == [1]
    mark(page, "take_back")
    assert read_judgments(vault.opened[0].index_paths) == ()


def test_what_does_not_answer_is_kept_and_is_no_label(page, vault):
    mark(page, "0")
    assert [
        judgment.grade for judgment in read_judgments(vault.opened[0].index_paths)[0].judgments
    ] == [0]
    assert vault.opened[0].index_paths.judged_set.read_text(encoding="utf-8") == ""


def test_the_buttons_of_an_answer_show_what_was_judged(page, tags_of):
    place = page.json("/ask.json?q=green+button")["results"][0]
    heading = place["heading_path"][-1] if len(place["heading_path"]) > 1 else ""
    mark(page, "1", query="green button", path=place["path"], heading=heading)
    pressed = [
        a
        for tag, a in tags_of(page.get("/?q=green+button").text).tags
        if tag == "button" and a.get("aria-pressed") == "true"
    ]
    assert [each["data-grade"] for each in pressed] == ["1"]


def test_no_note_is_written_and_a_rebuild_keeps_all(page, vault):
    mark(page, "2")
    before = {path: (vault.folders[0][1] / path).read_bytes() for path in NOTES}
    vault.index(rebuild=True)
    assert len(read_judgments(vault.opened[0].index_paths)) == 1
    assert {path: (vault.folders[0][1] / path).read_bytes() for path in NOTES} == before


def test_a_note_that_became_private_is_taken_out(page, vault):
    mark(page, "2")
    mark(page, "1", path="other.md", heading="")
    (vault.folders[0][1] / "sync.md").write_text(
        "---\nprivate: true\n---\n# Sync\n", encoding="utf-8"
    )
    assert "sync.md" not in page.get("/judge").text
    vault.index()
    assert "sync.md" not in vault.opened[0].index_paths.judged.read_text(encoding="utf-8")
    assert "other.md" in vault.opened[0].index_paths.judged.read_text(encoding="utf-8")


def test_what_is_not_there_cannot_be_judged(page):
    assert mark(page, "2", path="nothing.md").status_code == 404
    assert mark(page, "7").status_code == 400
    assert mark(page, "2", query=" ").status_code == 400
    assert mark(page, "2", folder="nobody").status_code == 404


def test_the_mark_of_an_earlier_version_that_no_note_answers_costs_no_judgment(page, vault):
    mark(page, "2")
    path = vault.opened[0].index_paths.judged
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["judged"][0]["nothing"] = True
    path.write_text(json.dumps(kept), encoding="utf-8")
    mark(page, "1", path="other.md", heading="")
    (judged,) = read_judgments(vault.opened[0].index_paths)
    assert [judgment.grade for judgment in judged.judgments] == [2, 1]


def test_a_damaged_file_is_told_and_never_written_over_and_answers_still_come(page, vault):
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
    with pytest.raises(StorageError, match="Repair the file") as found:
        read_judgments(vault.opened[0].index_paths)
    # else the index would be taken for damaged, and built anew
    assert type(found.value) is StorageError


def test_nothing_is_lost_where_two_judge_at_once(vault):
    def judge(name: str) -> None:
        for n in range(10):
            vault.judgments().judge(f"{name}{n}?", "sync.md", "", 2, folder="vault0")

    both = [threading.Thread(target=judge, args=(name,)) for name in ("a", "b")]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(read_judgments(vault.opened[0].index_paths)) == 20


def test_without_javascript_one_comes_back_to_the_answer_and_nowhere_else(page):
    given = {"query": "a", "folder": "vault0", "path": "sync.md", "heading": "", "grade": "2"}
    assert page.post("/judge/mark", {**given, "back": "/?q=a"}).headers["location"] == "/?q=a"
    assert (
        page.post("/judge/mark", {**given, "back": "//evil.example"})
        .headers["location"]
        .startswith("/judge")
    )


def test_a_note_that_the_search_missed_is_judged_on_why_and_is_a_label_of_eval(
    page, vault, tags_of
):
    asked = "/why?q=Which+button%3F&path=other.md"
    assert "other.md" not in [
        each["path"] for each in page.json("/ask.json?q=Which+button%3F&limit=1")["results"]
    ]
    form = {
        facts["name"]: facts["value"]
        for tag, facts in tags_of(page.get(asked).text).tags
        if tag == "input" and facts.get("type") == "hidden"
    }
    done = page.post("/judge/mark", form | {"grade": "2"})
    assert done.headers["location"] == asked
    (query,) = load_queries(vault.opened[0].index_paths.judged_set)
    assert [(label.path, label.heading, label.grade) for label in query.relevant] == [
        ("other.md", None, 2)
    ]
    pressed = [
        facts["data-grade"]
        for tag, facts in tags_of(page.get(asked).text).tags
        if facts.get("aria-pressed") == "true"
    ]
    assert pressed == ["2"]


def test_the_screen_says_the_command_that_measures_by_the_judgments(page, vault):
    mark(page, "2")
    command = shlex.split(page.json("/judge.json")["command"])
    assert command[:3] == ["thumbindex", "eval", str(vault.opened[0].index_paths.judged_set)]
    assert f"--folder={vault.folders[0][1]}" in command


def test_a_private_note_leaves_the_index_even_where_what_was_judged_cannot_be_read(vault):
    vault.opened[0].index_paths.judged.write_text("{broken", encoding="utf-8")
    (vault.folders[0][1] / "sync.md").write_text(
        "---\nprivate: true\n---\n# Sync\n", encoding="utf-8"
    )
    vault.index()
    assert [each.path for each in vault.outline()] == ["other.md"]
    assert vault.status()[0].index.documents == 1
