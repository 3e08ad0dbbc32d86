"""Why: ranks as a picture and as a table; a note that is not there, or not to be seen, is one
answer.
"""


def test_a_note_in_the_answer_is_the_thick_line_with_its_rank_in_the_table(browser, tags_of):
    page = browser.get("/why?q=green+button+syncing&path=sync.md").text
    assert "is in the answer" in page
    assert 'class="note line-0"' in page
    assert "search_keyword" in tags_of(page).text


def test_a_note_that_is_not_in_the_answer_is_told_why(browser, tags_of):
    page = tags_of(browser.get("/why?q=green+button+syncing&path=plugins/graph+view.md").text)
    assert "was found, but is not in the answer: score below the minimum relevance" in page.text
    assert any(link.startswith("/note/vault/plugins/graph%20view.md") for link in page.links())


def test_a_note_that_is_not_there_leaves_the_question_and_names_what_is_near(browser, tags_of):
    found = browser.get("/why?q=green+button&path=canv")
    tags = tags_of(found.text)
    assert (found.status_code, "There is no note “canv” that is yours to see." in tags.text) == (
        404,
        True,
    )
    assert any("path=vault%2Fplugins%2Fcanvas.md" in link for link in tags.links())
    assert ("input", "green button") in [(tag, facts.get("value")) for tag, facts in tags.tags]
