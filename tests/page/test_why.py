"""The Why screen: ranks, explanations, and one answer for hidden and missing notes."""


def test_why_highlights_a_note_in_the_answer(browser, tags_of):
    page = browser.get("/why?q=green+button+syncing&path=sync.md").text
    assert "This note is in the answer: passage 1 of " in page
    assert "has &#34;green&#34; and &#34;button&#34; in text" in page
    assert 'class="note line-0"' in page
    assert "search_keyword" in tags_of(page).text


def test_why_explains_a_missing_note(browser, tags_of):
    page = tags_of(browser.get("/why?q=green+button+syncing&path=plugins/graph+view.md").text)
    assert "was found, but is not in the answer: score below the minimum relevance" in page.text
    assert any(link.startswith("/note/vault/plugins/graph%20view.md") for link in page.links())


def test_why_suggests_notes_for_an_unknown_name(browser, tags_of):
    response = browser.get("/why?q=green+button&path=canv")
    tags = tags_of(response.text)
    assert (
        response.status_code,
        "The note “canv” does not exist, or you may not see it." in tags.text,
    ) == (
        404,
        True,
    )
    assert any("path=vault%2Fplugins%2Fcanvas.md" in link for link in tags.links())
    assert ("input", "green button") in [(tag, facts.get("value")) for tag, facts in tags.tags]
