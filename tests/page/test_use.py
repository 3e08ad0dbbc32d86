"""How one uses it: typing, reading, going back, by the keyboard alone, without JavaScript, while notes are being saved."""

import statistics
import time

QUESTION = "when do two devices edit one note"


def type_slowly(page, text: str, delay: int = 25) -> None:
    page.locator("#q").press_sequentially(text, delay=delay)


def until(page, expression: str) -> None:
    """Wait until an expression is true: Playwright's own way of it would need `eval`, which the page forbids."""
    end = time.monotonic() + 15
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def answered(page) -> None:
    until(page, "document.querySelectorAll('#cards article').length > 0")


def test_answers_come_as_one_types_for_finished_words_only(open_page):
    page = open_page("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/?q=" in request.url else None)
    type_slowly(page, QUESTION)
    until(page, f"document.getElementById('answer').dataset.asked === {QUESTION!r}")
    assert len(asked) <= len(QUESTION.split()) + 1
    assert "newer note wins" in page.locator("#cards").inner_text()
    assert page.url.endswith("?q=" + QUESTION.replace(" ", "+"))


def test_notes_are_offered_by_name_at_each_letter(open_page):
    page = open_page("/")
    type_slowly(page, "gra")
    page.locator("#names a", has_text="Graph view").wait_for()


def test_a_passage_is_opened_at_its_lines_and_back_leads_to_the_answer(open_page):
    page = open_page("/?q=" + QUESTION.replace(" ", "+"))
    page.locator("#card-1").click()
    page.wait_for_url("**/note/vault/sync.md?lines=*")
    assert page.locator(".cited").count() >= 1
    assert page.locator(".cited").first.evaluate("each => { const at = each.getBoundingClientRect(); return at.top >= 0 && at.top < innerHeight }")
    page.go_back()
    answered(page)
    assert page.locator("#q").input_value() == QUESTION


def test_all_of_it_goes_by_the_keyboard(open_page):
    page = open_page("/")
    page.keyboard.type("boil water slowly and pour")  # the field has the focus
    page.keyboard.press("Enter")
    answered(page)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "card-1"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "card-2"
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/note/**")
    page.keyboard.press("Control+k")
    page.keyboard.type("revi")
    until(page, "[...document.querySelectorAll('#palette a')].some((each) => each.textContent === 'Review')")
    page.keyboard.press("Escape")
    assert page.locator("#palette").evaluate("each => each.open") is False


def test_single_keys_can_be_switched_off(open_page):
    page = open_page("/?q=boil+water")
    page.locator("#open-palette").click()
    page.locator("#palette button", has_text="Single keys: on").click()
    page.keyboard.press("Escape")
    page.locator("#card-1").focus()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "card-1"


def test_the_palette_leads_to_a_note_by_its_name(open_page):
    page = open_page("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("canv")
    page.locator("#palette a", has_text="Canvas").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/note/vault/plugins/canvas.md")


def test_it_works_without_javascript(open_page):
    page = open_page("/", java_script_enabled=False)
    page.locator("#q").fill(QUESTION)
    page.locator("#q").press("Enter")
    assert page.locator("#cards article").count() > 0
    page.locator("#card-1").click()
    assert page.locator(".cited").count() >= 1
    assert page.locator("#open-palette").is_hidden()


def test_a_saved_note_changes_the_answer_on_the_screen(open_page, served):
    page = open_page("/?q=endless+whiteboard+boxes")
    page.locator("#q").focus()
    path = "plugins/canvas.md"
    before = (served.root / path).read_text(encoding="utf-8")
    try:
        served.save(path, before.replace("Draw boxes", "Draw purple boxes"))
        until(page, "document.querySelector('#cards')?.innerText.includes('purple boxes')")
        assert page.evaluate("document.activeElement.id") == "q"
        assert page.locator("article.changed").count() >= 1
    finally:
        served.save(path, before)


def test_the_first_page_is_small(open_page):
    page = open_page("/?q=boil+water")
    page.wait_for_load_state("load")
    loaded = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter((each) => !each.name.includes('/changes')).map((each) => [each.name, each.transferSize])"
    )
    assert len(loaded) <= 4
    assert sum(size for _, size in loaded) <= 40_000


def test_typed_to_painted_is_told(open_page, record_property):
    """A figure for `docs/performance.md`, not a bound: machines that run tests are busy."""
    page = open_page("/")
    times = page.evaluate(
        """async (words) => {
            const field = document.getElementById("q"), found = [];
            let text = "";
            for (const word of words) {
                text += `${word} `;
                const began = performance.now();
                field.value = text;
                field.dispatchEvent(new InputEvent("input", { bubbles: true }));
                await new Promise((done) => {
                    const look = () => document.getElementById("answer").dataset.asked === text.trim() ? done() : setTimeout(look, 0);
                    look();
                });
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
                const server = performance.getEntriesByType("resource").filter((each) => each.name.includes("/?q=")).at(-1);
                found.push([performance.now() - began, server?.serverTiming?.[0]?.duration ?? 0]);
            }
            return found;
        }""",
        (QUESTION + " and boil water slowly").split(),
    )
    over = sorted(whole - server for whole, server in times)
    record_property("typed to painted over the server's own time, ms", (statistics.median(over), over[int(0.95 * len(over))]))
    assert all(whole > 0 for whole, _ in times)
