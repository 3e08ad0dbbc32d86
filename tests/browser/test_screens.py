"""Every screen in every state passes axe, fits the window and logs nothing to the console."""

import pytest

pytestmark = pytest.mark.page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

SCREENS = {
    "ask-empty": "/",
    "ask-full": "/?q=when+do+two+devices+edit+one+note",
    "ask-filters": "/?q=boil+water&tag=drink&since=2020-01-01",
    "ask-copies": "/?q=copy+the+whole+vault+to+another+disk",
    "ask-all": "/?q=boil+water&limit=10",
    "ask-typed": "/?q=boil+water+tag:drink",
    "ask-nothing": "/?q=xylophone+quarterly",
    "ask-wrong": "/?q=a&limit=x",
    "names": "/names?q=gra",
    "note": "/note/vault/sync.md",
    "note-cited": "/note/vault/sync.md?lines=13-13#L13",
    "note-source": "/note/vault/plugins/canvas.md?source=1",
    "note-hostile": "/note/vault/hostile.md",
    "why-empty": "/why",
    "why": "/why?q=when+do+two+devices+edit+one+note",
    "why-shown": "/why?q=boil+water&path=recipes/tea.md",
    "why-not": "/why?q=boil+water&path=plugins/canvas.md",
    "notes": "/notes?tag=drink",
    "notes-orphans": "/notes?show=orphans",
    "notes-unlinked": "/notes?show=unlinked",
    "health": "/checkup",
    "health-merged": "/checkup?show=merged",
    "health-decided": "/checkup?show=decided",
    "state": "/state",
    "judge": "/judge",
    "missing": "/note/vault/nothing.md",
    "no-screen": "/nothing",
}

RARE = {
    "empty-ask": ("empty", "/", "The folders contain no Markdown files"),
    "empty-notes": ("empty", "/notes", "No notes here."),
    "empty-health": ("empty", "/checkup", "No copies or contradictions"),
    "empty-state": ("empty", "/state", "No running process keeps this index up to date"),
    "indexing-ask": ("indexing", "/", "300 of 1,000"),
    "indexing-answer": ("indexing", "/?q=boil+water", "indexed"),
    "indexing-state": ("indexing", "/state", "300 of 1,000"),
    "indexing-health": ("indexing", "/checkup", "Nothing is indexed yet"),
    "broken": ("broken", "/?q=boil+water", "the disk does not answer"),
}
"""Page of `rare`, address, and expected text, by state."""

STATES = [*SCREENS, *RARE, "palette"]


def unfold(page) -> None:
    page.wait_for_load_state("load")
    for summary in page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()


def check_screen(page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page, options={"runOnly": RULES})
    assert [
        (violation["id"], [node["html"] for node in violation["nodes"]])
        for violation in results.response["violations"]
    ] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_screens_pass_axe_and_fit_the_window(request, open_page, state, look):
    if state == "palette":
        page = open_page("/", look)
        page.keyboard.press("Control+k")
        check_screen(page)
        page.keyboard.type("ta")
        page.locator("#palette a", has_text="Ask: ta").wait_for()
        page.locator("#palette summary").click()
    elif state in RARE:
        name, path, words = RARE[state]
        page = open_page(path, look, base_url=request.getfixturevalue("rare")[name])
        assert words in page.locator("main").inner_text()
        unfold(page)
    else:
        page = open_page(SCREENS[state], look)
        unfold(page)
    check_screen(page)
