"""Using the page: typing, reading, going back, keyboard only, no JavaScript, live edits."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest

import waiting

pytestmark = pytest.mark.page

QUESTION = "when do two devices edit one note"


def type_slowly(page, text: str, delay: int = 25) -> None:
    page.locator("#q").press_sequentially(text, delay=delay)


def until(page, expression: str) -> None:
    """Wait until an expression is true. Playwright's own wait needs `eval`, which we forbid."""
    end = time.monotonic() + 15
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def answered(page) -> None:
    until(page, "document.querySelectorAll('#cards article').length > 0")


def test_answers_appear_while_typing_after_finished_words(open_page):
    page = open_page("/")
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url) if "/?q=" in request.url else None)
    type_slowly(page, QUESTION)
    until(page, f"document.getElementById('answer').dataset.asked === {QUESTION!r}")
    assert len(urls) <= len(QUESTION.split()) + 1
    until(page, "document.getElementById('cards').innerText.includes('newer note wins')")
    page.wait_for_url("**/?q=" + QUESTION.replace(" ", "+"))


def test_slow_typing_sends_no_half_words(open_page):
    page = open_page("/")
    queries: list[str] = []
    page.on(
        "request",
        lambda request: (
            queries.extend(parse_qs(urlsplit(request.url).query).get("q", []))
            if "/?q=" in request.url
            else None
        ),
    )
    type_slowly(page, "pour boiled water", 250)
    until(page, "document.getElementById('answer').dataset.asked === 'pour boiled water'")
    assert queries == ["pour", "pour boiled", "pour boiled water"]


def test_typing_suggests_notes_by_name(open_page):
    page = open_page("/")
    type_slowly(page, "gra")
    page.locator("#names a", has_text="Graph view").wait_for()


def test_passage_opens_at_its_lines_and_back_returns_to_the_answer(open_page):
    page = open_page("/?q=" + QUESTION.replace(" ", "+"))
    page.locator("#card-1").click()
    page.wait_for_url("**/note/vault/sync.md?lines=*")
    assert page.locator(".cited").count() >= 1
    assert page.locator(".cited").first.evaluate(
        "each => { const at = each.getBoundingClientRect(); return at.top >= 0 && at.top < "
        "innerHeight }"
    )
    page.go_back()
    answered(page)
    assert page.locator("#q").input_value() == QUESTION


def test_keyboard_alone_is_enough(open_page):
    page = open_page("/")
    page.keyboard.type("boil water slowly and pour")  # the field has the focus
    page.keyboard.press("Enter")
    answered(page)
    until(page, "document.activeElement.id === 'card-1'")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "card-2"
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/note/**")
    page.keyboard.press("Escape")
    page.wait_for_url("**/?q=*")
    answered(page)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Escape")
    assert page.locator("#q").input_value() == "boil water slowly and pour"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "card-1"
    page.keyboard.press("Control+k")
    page.keyboard.type("revi")
    page.keyboard.press("Escape")
    assert page.locator("#palette").evaluate("each => each.open") is False


def test_keys_work_without_a_first_click(open_page):
    page = open_page("/?q=boil+water&limit=5")
    answered(page)
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("details.result[open]").count() == 1
    page.keyboard.press("?")
    assert "copy the citation" in page.locator("#palette").inner_text()


def test_questions_whose_answers_were_used_are_offered_again(open_page):
    page = open_page("/?q=boil+water")
    page.locator("#card-1").click()
    page.wait_for_url("**/note/**")
    page.goto("/")
    assert page.locator("#recent a").inner_text() == "boil water"


def test_palette_opens_a_note_by_name(open_page):
    page = open_page("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("canv")
    page.locator("#palette a", has_text="Canvas").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/note/vault/plugins/canvas.md")


def test_page_works_without_javascript(open_page):
    page = open_page("/", java_script_enabled=False)
    page.locator("#q").fill(QUESTION)
    page.locator("#q").press("Enter")
    page.locator("#card-1").wait_for()
    assert page.locator("#cards article").count() > 0
    page.locator("#card-1").click()
    page.wait_for_url("**/note/vault/sync.md?lines=*")
    assert page.locator(".cited").count() >= 1
    assert page.locator("#open-palette").is_hidden()


def test_edit_before_the_stream_opens_updates_the_answer(open_page, served):
    page = open_page("/")
    path = "recipes/tea.md"
    before = (served.root / path).read_text(encoding="utf-8")

    def save_first(route) -> None:
        served.save(path, before.replace("three minutes", "four minutes"))
        assert waiting.until(lambda: served.revision() != before_it)
        route.continue_()

    before_it = served.revision()
    page.route("**/changes", save_first, times=1)
    try:
        page.goto("/?q=boil+water+pour")
        until(page, "document.querySelector('#cards')?.innerText.includes('four minutes')")
    finally:
        served.save(path, before)


def test_only_changed_texts_are_marked(open_page, served):
    tea, coffee = "recipes/tea.md", "recipes/coffee.md"
    before = {path: (served.root / path).read_text(encoding="utf-8") for path in (tea, coffee)}
    served.save(coffee, f"\n{before[coffee]}")  # its date is today from here on
    page = open_page("/?q=boil+water")
    # marks disappear when notes change again, e.g. when they get vectors
    page.evaluate(
        "window.marked = new Set(); new MutationObserver(() => "
        "document.querySelectorAll('article.changed .path').forEach(path => "
        "marked.add(path.textContent.trim()))).observe(document.body, "
        "{subtree: true, childList: true, attributes: true, attributeFilter: ['class']})"
    )
    try:
        served.save(coffee, f"\n\n\n{before[coffee]}")  # the same words, further down
        served.save(tea, before[tea].replace("Boil water", "Boil water, boil water"))
        until(
            page, "document.querySelector('#cards')?.innerText.includes('Boil water, boil water')"
        )
        marked = page.evaluate("[...marked]")  # a passage that is new in the answer is, too
        assert (tea in marked, coffee in marked) == (True, False)
    finally:
        for path, text in before.items():
            served.save(path, text)


def reloaded(page, served) -> None:
    """Save another note, and wait until the screen has reloaded."""
    page.evaluate("document.getElementById('main').dataset.old = '1'")
    before = (served.root / "recipes/tea.md").read_text(encoding="utf-8")
    try:
        served.save("recipes/tea.md", f"{before}\nServe hot.\n")
        until(page, "!document.getElementById('main').dataset.old")
    finally:
        served.save("recipes/tea.md", before)


def test_unsent_input_survives_a_reload(open_page, served):
    page = open_page("/checkup?show=all")
    page.locator("text=Compare").first.click()
    field = page.locator("input[name=note]")
    field.fill("they differ in days")
    page.evaluate("document.querySelector('input[name=note]').setSelectionRange(4, 4)")
    reloaded(page, served)
    assert field.input_value() == "they differ in days"
    assert page.evaluate(
        "[document.activeElement.name, document.activeElement.selectionStart]"
    ) == ["note", 4]


def test_reload_keeps_the_scroll_position(open_page, served):
    page = open_page("/note/vault/sync.md?lines=9-9", viewport={"width": 600, "height": 300})
    page.evaluate("scrollTo(0, 0)")
    reloaded(page, served)
    assert page.evaluate("scrollY") < 20  # browsers may adjust the position a little


def test_hidden_filters_survive_typing(open_page):
    page = open_page("/?q=boil&limit=1")
    page.locator("#q").fill("boil water ")
    until(page, "document.getElementById('answer').dataset.asked === 'boil water'")
    assert "limit=1" in page.url
    assert page.locator("#cards article").count() == 1


def test_hostile_notes_render_as_text(open_page):
    page = open_page("/note/vault/hostile.md")
    assert "<script>alert(1)</script>" in page.locator(".rendered").inner_text()
    assert (
        page.locator(
            ".rendered script, .rendered img, .rendered iframe, .rendered [onerror], "
            ".rendered [onmouseover]"
        ).count()
        == 0
    )
    assert [
        href
        for href in page.locator(".rendered a").evaluate_all("all => all.map((each) => each.href)")
        if href.startswith("javascript:")
    ] == []


def test_saved_note_does_not_abort_a_page_load(open_page, served):
    page = open_page("/note/vault/sync.md")
    before = (served.root / "recipes/tea.md").read_text(encoding="utf-8")

    def save_first(route) -> None:
        revision = served.revision()
        served.save("recipes/tea.md", f"{before}\nStir.\n")
        assert waiting.until(lambda: served.revision() != revision)
        time.sleep(0.5)  # the page has received the change by now
        route.continue_()

    page.route("**/note/vault/sync.md?*", save_first, times=1)
    page.locator("#switch").focus()
    try:
        page.keyboard.press("v")
        page.locator("pre.source").wait_for()
    finally:
        served.save("recipes/tea.md", before)


def test_single_keys_decide_and_undo(open_page, served):
    page = open_page("/checkup")
    page.locator("text=Compare").first.click()
    before = page.locator("[aria-label=Lists]").inner_text()
    page.locator("#cluster").press("a")
    page.locator("#last").wait_for()
    assert "all are kept" in page.locator("#last").inner_text()
    assert page.locator("[aria-label=Lists]").inner_text() != before
    page.keyboard.press("u")
    until(page, "!document.getElementById('last')")
    assert page.locator("[aria-label=Lists]").inner_text() == before


def test_one_click_decides_in_the_list_and_one_undoes(open_page, served):
    page = open_page("/checkup")
    before = page.locator("[aria-label=Lists]").inner_text()
    page.locator("text=Keep both").first.click()
    page.locator("#undo").wait_for()
    assert page.locator("#cluster").count() == 0
    page.locator("#undo").click()
    until(page, "!document.getElementById('last')")
    assert page.locator("[aria-label=Lists]").inner_text() == before


def test_judging_stays_on_the_answer_and_is_listed(open_page, served):
    page = open_page("/?q=boil+water")
    page.locator("#cards article").first.locator("button[data-grade='2']").click()
    until(
        page,
        'document.querySelector("#cards article '
        "button[data-grade='2']\").getAttribute('aria-pressed') === 'true'",
    )
    page.goto("/judge")
    assert "boil water" in page.locator("table.judged").inner_text()
    page.goto("/?q=boil+water")
    page.locator("#cards article").first.locator("button[aria-pressed=true]").click()
    until(page, "document.querySelectorAll('#cards button[aria-pressed=true]').length === 0")


def test_why_shows_ranks_as_chart_and_table(open_page, picture):
    page = open_page("/why?q=boil+water&path=plugins/canvas.md")
    assert page.locator("svg.slope polyline").count() >= 1
    page.locator("#details > summary").click()
    assert "search_keyword" in page.locator("#details table").inner_text()
    picture(page, "page-why")


def test_judging_a_missed_note_stays_on_why(open_page):
    page = open_page("/why?q=boil+water&path=plugins/canvas.md")
    pressed = "document.querySelector(\"button[data-grade='2']\").getAttribute('aria-pressed')"
    page.locator("button[data-grade='2']").click()
    until(page, f"{pressed} === 'true'")
    page.reload()
    page.locator("button[data-grade='2']").click()
    until(page, f"{pressed} === 'false'")


def test_answer_screenshot_for_the_documentation(open_page, picture):
    page = open_page(
        "/?q=copy+the+whole+vault+to+another+disk+every+evening",
        viewport={"width": 1000, "height": 720},
    )
    answered(page)
    picture(page, "page-ask")


def clean(page) -> list:
    from axe_playwright_python.sync_playwright import Axe

    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    return [
        violation["id"]
        for violation in Axe().run(page, options={"runOnly": rules}).response["violations"]
    ]


def test_sign_in_with_a_token_and_sign_out(open_page, team):
    served, token = team
    page = open_page("/?q=boil+water", base_url=served.url)
    page.wait_for_url("**/sign-in?to=*")
    assert clean(page) == []
    page.locator("#token").fill("ti_wrong")
    page.locator("#token").press("Enter")
    page.locator("[role=alert]").wait_for()
    assert clean(page) == []
    page.locator("#token").fill(token)
    page.locator("#token").press("Enter")
    page.wait_for_url("**/?q=boil+water")
    answered(page)
    assert page.locator("button[data-grade]").count() == 0
    page.goto("/checkup")
    assert "serve.http.writers" in page.locator("#main").inner_text()
    assert clean(page) == []
    assert token not in str(page.context.cookies()) + page.content()
    page.locator("#menu summary").click()
    page.locator("form[action='/sign-out'] button").click()
    page.wait_for_url("**/sign-in")
