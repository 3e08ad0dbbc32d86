"""Every screen in every state: nothing for axe to find, nothing wider than the window, nothing on the console."""

import pytest

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

STATES = {
    "ask-empty": "/",
    "ask-full": "/?q=when+do+two+devices+edit+one+note",
    "ask-filters": "/?q=boil+water&tag=drink&since=2020-01-01",
    "ask-copies": "/?q=copy+the+whole+vault+to+another+disk",
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
    "map": "/map",
    "map-near": "/map?show=near&color=tag&q=boil+water",
    "map-broken": "/map?show=broken&color=age",
    "review": "/review",
    "review-merged": "/review?show=merged",
    "review-decided": "/review?show=decided",
    "state": "/state",
    "state-looked": "/state?look=1",
    "judge": "/judge",
    "missing": "/note/vault/nothing.md",
    "no-screen": "/nothing",
}


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
@pytest.mark.parametrize("state", STATES)
def test_a_screen_is_for_everybody(open_page, state, look):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(STATES[state], look)
    page.wait_for_load_state("load")
    for each in page.locator("details:not([open]) > summary").all():
        if each.is_visible():
            each.click()
    found = Axe().run(page, options={"runOnly": RULES})
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found.response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
