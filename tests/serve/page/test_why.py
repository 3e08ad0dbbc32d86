"""Why: ranks as a picture and as a table; a note that is not there, or not to be seen, is one
answer.
"""

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from thumbindex.serve.page.why import Course, height_of, spread_labels

SCHEMAS = Path(__file__).parents[3] / "docs" / "schema"


def test_better_ranks_are_higher_and_the_deepest_is_at_the_bottom():
    heights = [height_of(rank, 500) for rank in (1, 2, 10, 100, 500)]
    assert heights == sorted(heights)
    assert height_of(1, 1) == height_of(1, 500)


def test_labels_never_cover_each_other_and_keep_their_order():
    lines = [{"y": y, "n": n} for n, y in enumerate((40.0, 41.0, 42.0, 300.0, 415.0, 416.0, 417.0))]
    spread_labels(lines)
    assert all(after["y"] - before["y"] >= 15 for before, after in pairwise(lines))
    assert [each["n"] for each in sorted(lines, key=lambda each: each["y"])] == list(range(7))


def test_a_note_in_the_answer_is_the_thick_line_with_its_rank_in_the_table(browser, tags_of):
    page = browser.get("/why?q=green+button+syncing&path=sync.md").text
    assert "is in the answer" in page
    assert 'class="note line-0"' in page
    assert "search_keyword" in tags_of(page).text


def test_a_note_that_was_not_found_is_told_how_far_it_was(browser, tags_of):
    page = tags_of(browser.get("/why?q=green+button+syncing&path=plugins/graph+view.md").text)
    assert "How far each retriever was from it" in page.text
    assert any(link.startswith("/note/vault/plugins/graph%20view.md") for link in page.links())


def test_without_a_note_each_stage_says_what_it_did(browser):
    page = browser.get("/why?q=green+button").text
    assert "What each stage did" in page
    assert "thumbindex query &#39;green button&#39; --explain" in page


def test_the_twins_fit_the_schemas_of_the_commands(browser):
    why = browser.json("/why.json?q=green+button&path=sync.md")
    jsonschema.validate(why, json.loads((SCHEMAS / "why.json").read_text(encoding="utf-8")))
    jsonschema.validate(
        browser.json("/why.json?q=green+button"),
        json.loads((SCHEMAS / "query.json").read_text(encoding="utf-8")),
    )


@pytest.mark.parametrize(
    "path", ["nothing.md", "../secret.md", "/etc/passwd", "a\x00b", "x" * 3000]
)
def test_what_is_not_there_is_not_there(browser, path):
    from urllib.parse import quote

    assert browser.get(f"/why?q=sync&path={quote(path)}").status_code == 404


def test_a_question_is_asked_for_where_there_is_none(browser):
    assert "Give a question" in browser.get("/why").text


def test_filters_of_the_question_stay_in_the_form(browser, tags_of):
    tags = tags_of(browser.get("/why?q=sync&tag=guide/setup&glob=*.md").text).tags
    hidden = {
        attributes["name"]: attributes["value"]
        for tag, attributes in tags
        if tag == "input" and attributes.get("type") == "hidden"
    }
    assert (hidden["tag"], hidden["glob"]) == ("guide/setup", "*.md")


def test_a_course_without_a_rank_has_no_line():
    assert Course("a", "/a", {}, "lost").ranks == {}


def test_a_note_that_is_not_there_leaves_the_question_and_names_what_is_near(browser, tags_of):
    found = browser.get("/why?q=green+button&path=canv")
    tags = tags_of(found.text)
    assert (found.status_code, "There is no note “canv” that is yours to see." in tags.text) == (
        404,
        True,
    )
    assert any("path=vault%2Fplugins%2Fcanvas.md" in link for link in tags.links())
    assert ("input", "green button") in [(tag, facts.get("value")) for tag, facts in tags.tags]


def test_a_note_may_be_named_with_its_folder(browser):
    assert browser.json("/why.json?q=green+button&path=vault/sync.md")["path"] == "sync.md"
