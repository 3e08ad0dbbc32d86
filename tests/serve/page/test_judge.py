"""Judge: a thumb is kept as a labeled question, for those who may judge, of notes that may be seen;
runs are stopped with the server.
"""

import json
import threading
import time
from pathlib import Path

import pytest

from thumbindex.errors import StorageError, UsageError
from thumbindex.index.judged import MOST_QUESTIONS, change_judged, read_judged
from thumbindex.model import Judged
from thumbindex.serve.opening import Opening
from thumbindex.serve.page.judge import LEAST_QUERIES, RUNS, _tried, stop
from thumbindex.serve.page.runs import Runs
from thumbindex.study.evaluate import load_unanswerable
from thumbindex.study.queries import load_queries
from thumbindex.study.tune import LEAST_QUERIES as TRUE_LEAST

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


def test_the_commands_of_a_screen_open_the_index_that_the_server_opened(vault, visit_of, show):
    ((_, root),), own = vault.folders, vault.opened[0].places.judged_set
    opening = Opening((str(root),), Path("indexes"))
    screen, _ = show("judge", visit_of(vault, "", opening))
    assert (
        screen.values["commands"]["tune"]
        == f"thumbindex tune --queries {own} --folder={root} --index={Path('indexes').absolute()}"
    )
    afar, _ = show("judge", visit_of(vault, "", opening, is_near=False))
    assert afar.values["commands"]["tune"] == "thumbindex tune --queries judged.jsonl"


def test_a_thumb_is_a_line_that_eval_reads(page, vault):
    assert mark(page, "2").json()["grade"] == 2
    (query,) = load_queries(vault.opened[0].places.judged_set)
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
    (judged,) = read_judged(vault.opened[0].places)
    assert [each.grade for each in judged.places] == [1]
    mark(page, "take_back")
    assert read_judged(vault.opened[0].places) == ()


def test_what_does_not_answer_is_kept_and_is_no_label(page, vault):
    mark(page, "0")
    assert [each.grade for each in read_judged(vault.opened[0].places)[0].places] == [0]
    assert vault.opened[0].places.judged_set.read_text(encoding="utf-8") == ""


def test_what_the_notes_do_not_hold_is_a_line_of_off_topic(page, vault):
    mark(page, "2")
    page.post("/judge/nothing", {"query": "which button?", "kind": "factual"})
    (found,) = load_unanswerable(vault.opened[0].places.judged_nothing)
    assert (found.query, found.kind) == ("Which button?", "off-topic")
    assert vault.opened[0].places.judged_set.read_text(encoding="utf-8") == ""


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
    assert len(read_judged(vault.opened[0].places)) == 1
    assert {path: (vault.folders[0][1] / path).read_bytes() for path in NOTES} == before


def test_a_note_that_became_private_is_taken_out(page, vault):
    mark(page, "2")
    mark(page, "1", path="other.md", heading="")
    (vault.folders[0][1] / "sync.md").write_text(
        "---\nprivate: true\n---\n# Sync\n", encoding="utf-8"
    )
    assert "sync.md" not in page.get("/judge").text
    assert "sync.md" not in page.get("/judge/export").text
    vault.index()
    assert "sync.md" not in vault.opened[0].places.judged.read_text(encoding="utf-8")
    assert "other.md" in vault.opened[0].places.judged.read_text(encoding="utf-8")


def test_what_is_not_there_cannot_be_judged(page):
    assert mark(page, "2", path="nothing.md").status_code == 404
    assert mark(page, "7").status_code == 400
    assert mark(page, "2", query=" ").status_code == 400
    assert mark(page, "2", folder="nobody").status_code == 404


def test_taking_back_that_the_notes_do_not_hold_it_brings_back_what_was_judged_before(page, vault):
    mark(page, "2")
    assert (
        page.post("/judge/nothing", {"query": "which button?"}, Accept="application/json").json()[
            "nothing"
        ]
        is True
    )
    page.post("/judge/nothing", {"query": "which button?", "grade": "take_back"})
    (query,) = load_queries(vault.opened[0].places.judged_set)
    assert [each.path for each in query.relevant] == ["sync.md"]
    page.post("/judge/nothing", {"query": "which button?"})
    assert mark(page, "1").json()["nothing"] is False


def test_the_notes_hold_nothing_only_in_the_folders_that_were_asked_and_the_button_says_so(
    page, tags_of
):
    def pressed() -> list:
        return [
            a["data-grade"]
            for tag, a in tags_of(page.get("/?q=which+button").text).tags
            if tag == "button" and a.get("aria-pressed") == "true"
        ]

    tags = tags_of(page.get("/?q=which+button").text).tags
    at = next(n for n, (_, facts) in enumerate(tags) if facts.get("action") == "/judge/nothing")
    assert ("input", {"type": "hidden", "name": "folder", "value": "vault0"}) in tags[at : at + 6]
    assert pressed() == []
    page.post("/judge/nothing", {"query": "which button", "folder": "vault0"})
    assert pressed() == ["nothing"]


def test_a_damaged_file_is_told_and_never_written_over_and_answers_still_come(page, vault):
    path = vault.opened[0].places.judged
    path.write_text("{broken", encoding="utf-8")
    assert mark(page, "2").status_code == 503
    answer = page.get("/?q=green+button")
    assert (answer.status_code, "mend the file" in answer.text, 'id="card-1"' in answer.text) == (
        200,
        True,
        True,
    )
    assert path.read_text(encoding="utf-8") == "{broken"
    with pytest.raises(StorageError, match="mend the file") as found:
        read_judged(vault.opened[0].places)
    # else the index would be taken for damaged, and built anew
    assert type(found.value) is StorageError


def test_a_private_note_leaves_the_map_even_where_what_was_judged_cannot_be_read(vault):
    vault.lay_out(is_asked=True)
    places, root = vault.opened[0].places, vault.folders[0][1]
    assert "sync.md" in places.map.read_text(encoding="utf-8")
    places.judged.write_text("{broken", encoding="utf-8")
    (root / "sync.md").write_text("---\nprivate: true\n---\n# Sync\n", encoding="utf-8")
    vault.index()
    assert "sync.md" not in places.map.read_text(encoding="utf-8")


def test_nothing_is_lost_where_two_judge_at_once(vault):
    def judge(name: str) -> None:
        for n in range(10):
            vault.judgments().judge(f"{name}{n}?", "sync.md", "", 2, folder="vault0")

    both = [threading.Thread(target=judge, args=(name,)) for name in ("a", "b")]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(read_judged(vault.opened[0].places)) == 20


def test_there_is_an_end_to_what_is_kept(vault):
    many = [Judged(f"q{n}", "", (), True, "") for n in range(MOST_QUESTIONS + 1)]
    with pytest.raises(UsageError, match="take some out"):
        change_judged(vault.opened[0].places, lambda judged: many)


def test_without_javascript_one_comes_back_to_the_answer_and_nowhere_else(page):
    given = {"query": "a", "folder": "vault0", "path": "sync.md", "heading": "", "grade": "2"}
    assert page.post("/judge/mark", {**given, "back": "/?q=a"}).headers["location"] == "/?q=a"
    assert (
        page.post("/judge/mark", {**given, "back": "//evil.example"})
        .headers["location"]
        .startswith("/judge")
    )


def test_a_table_lists_what_was_judged_and_takes_it_out(page, tags_of):
    mark(page, "2")
    assert "Which button?" in tags_of(page.get("/judge").text).text
    page.post("/judge/out", {"query": "Which button?", "folder": "vault0"})
    assert "Nothing is judged yet" in page.get("/judge").text


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
    (query,) = load_queries(vault.opened[0].places.judged_set)
    assert [(label.path, label.heading, label.grade) for label in query.relevant] == [
        ("other.md", None, 2)
    ]
    pressed = [
        facts["data-grade"]
        for tag, facts in tags_of(page.get(asked).text).tags
        if facts.get("aria-pressed") == "true"
    ]
    assert pressed == ["2"]


def test_one_who_only_looks_judges_nothing_on_why(vault, visit_of, show):
    assert (
        "/judge/mark"
        not in show("why", visit_of(vault, "q=button&path=other.md", may_write=False))[1]
    )


def test_eval_is_refused_where_there_is_nothing_to_ask(page):
    assert page.post("/judge/eval", {"folder": "vault0"}).status_code == 400
    assert page.post("/judge/eval", {"folder": "nobody"}).status_code == 400


def test_two_runs_are_compared_question_by_question(page, vault):
    mark(page, "2")
    (id_,) = [
        json.loads(line)["id"]
        for line in vault.opened[0].places.judged_set.read_text(encoding="utf-8").splitlines()
    ]
    for made, score in ((1.0, 0.5), (2.0, 1.0)):
        result = {
            "sets": [{"by_query": {id_: score}}],
            "ablation": [
                {"name": "no links", "difference": {"difference": -0.1, "low": -0.2, "high": 0.1}}
            ],
        }
        vault.judgments().keep_run("vault0", {"made": made, "result": result})
    text = page.get("/judge").text
    assert "1 better, 0 worse" in text
    assert "was asked over vault0 alone" in text
    assert "Furthest from what you judged" not in text
    assert "factual" in text
    assert 'class="noise"' in text


def test_what_tune_tried_is_bars_and_what_is_chance_is_gray():
    good, noise = _tried(
        {
            "tried": [
                {"name": "a", "gain": [0.1, 0.05, 0.2]},
                {"name": "b", "gain": [-0.01, -0.1, 0.1]},
            ]
        }
    )[::-1]
    assert (good["name"], good["is_noise"], good["x"]) == ("a", False, 100.0)
    assert (noise["name"], noise["is_noise"], noise["x"] < 100) == ("b", True, True)


def test_it_says_how_many_questions_tuning_needs():
    assert LEAST_QUERIES == TRUE_LEAST


def ended(runs: Runs, name: str, folder: str = "f"):
    until = time.monotonic() + 60
    while runs.busy() and time.monotonic() < until:
        time.sleep(0.05)
    return runs.last(name, folder)


def test_a_run_says_how_it_ended_and_one_comes_after_the_other():
    runs = Runs()
    runs.start("eval", "f", ["--no-such-option"])
    with pytest.raises(UsageError, match="under way"):
        runs.start("tune", "f", ["--help"])
    run = ended(runs, "eval")
    assert (run.state, bool(run.said)) == ("failed", True)
    runs.start("tune", "f", ["serve"])
    runs.stop()
    assert ended(runs, "tune").state == "stopped"


def test_what_a_run_found_is_kept_when_it_ends_whether_or_not_somebody_looks(tmp_path):
    runs, kept = Runs(), []
    runs.start("eval", "f", ["status", "--json", "--folder", str(tmp_path)], kept.append)
    assert ended(runs, "eval").state == "done"
    assert [each.state for each in kept] == ["done"]


def test_a_run_whose_result_cannot_be_kept_says_so(tmp_path):
    def refuse(run) -> None:
        raise StorageError("The disk is full: make room.")

    runs = Runs()
    runs.start("eval", "f", ["status", "--json", "--folder", str(tmp_path)], refuse)
    run = ended(runs, "eval")
    assert (run.state, run.said) == ("failed", "The disk is full: make room.")


def test_a_run_of_a_folder_that_one_does_not_see_is_neither_told_nor_stopped(vault, visit_of, show):
    RUNS.start("tune", "elsewhere", ["serve"])
    try:
        screen, text = show("judge", visit_of(vault))
        assert (screen.values["busy"], "elsewhere" in text, "Another run is under way" in text) == (
            None,
            False,
            True,
        )
        stop(visit_of(vault))
        assert RUNS.busy().state == "running"
    finally:
        RUNS.stop()
        assert ended(RUNS, "tune", "elsewhere").state == "stopped"


def test_the_questions_that_failed_are_named_and_asked_again_as_the_run_did(page, vault, tags_of):
    mark(page, "2")
    (id_,) = [
        json.loads(line)["id"]
        for line in vault.opened[0].places.judged_set.read_text(encoding="utf-8").splitlines()
    ]
    vault.judgments().keep_run(
        "vault0", {"made": 1.0, "result": {"sets": [{"by_query": {id_: 0.25}}]}}
    )
    found = tags_of(page.get("/judge").text)
    assert "Which button? (0.25)" in found.text
    assert "/?q=Which+button%3F&folder=vault0" in found.links()
    assert page.json("/judge.json")["quality"][0]["mean"] == 0.25


def test_one_who_only_looks_is_not_told_to_judge(vault, visit_of, show):
    text = show("judge", visit_of(vault, may_write=False))[1]
    assert ("press “Answers”" in text, "serve.http.writers" in text) == (False, True)
