"""What the page costs in a browser: its size, what it adds to an answer from typing to painting,
and the map, laid out and drawn.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench.results import Row
from bench.subject import Subject, draw_questions

QUESTIONS = 30

TYPED_OUT, KEY = 10, 100
"""Questions that are typed letter by letter, and milliseconds from key to key."""

TYPED = """async (question) => {
    const field = document.getElementById("q"), type = (text) => {
        field.value = text;
        field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    };
    type(question);
    await new Promise((done) => setTimeout(done, 120));
    performance.clearResourceTimings();
    const began = performance.now();
    const shown = new Promise((done) => {
        const seen = new MutationObserver(() => {
            if (document.getElementById("answer").dataset.asked !== question) return;
            seen.disconnect();
            done();
        });
        seen.observe(document.body, {
            subtree: true, childList: true, attributes: true, attributeFilter: ["data-asked"],
        });
    });
    type(`${question} `);
    await shown;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const painted = performance.now() - began;
    const asked = performance.getEntriesByType("resource")
        .filter((each) => each.name.includes("/?q="));
    const told = asked.at(-1).serverTiming;
    const duration = (name) => told.find((each) => each.name === name).duration;
    return [painted, duration("page"), duration("library")];
}"""

OVER_P50, OVER_P95, MAP_DRAWN, FIRST_PAGE, REQUESTS = 10.0, 25.0, 100.0, 40.0, 4
"""Milliseconds over the library's own time, and to draw a map; kilobytes and requests of the first
page.
"""


def measure(subject: Subject) -> Iterator[Row]:
    """Serve the folder's page in a process of its own, and use it as a visitor does."""
    program = browser_program()
    if not program:
        print(
            "The page is not measured: that needs chromium (or CHROMIUM=PROGRAM) and the "
            "extra page-tests.",
            file=sys.stderr,
        )
        return
    questions = draw_questions(subject.chunks(), QUESTIONS + 5)
    with subject.open() as library:
        library.load_models()
        began = time.perf_counter()
        laid_out = library.lay_out(is_asked=True)
        if laid_out:
            yield Row(
                "page",
                "map laid out",
                "s",
                [time.perf_counter() - began],
                note=f"{library.states()[library.folders[0][0]].documents:,} notes",
            )
    with served(subject) as address, browser(program) as page:
        page.goto(address)
        base = address.partition("/sign-in")[0]
        page.goto(base + "/?q=" + questions[0].replace(" ", "+"))
        loaded = page.evaluate(
            "[...performance.getEntriesByType('navigation'), "
            "...performance.getEntriesByType('resource')]"
            ".filter((each) => !each.name.includes('/changes')).map((each) => each.encodedBodySize)"
        )
        yield Row("page", "first page, as sent", "KB", [sum(loaded) / 1000], FIRST_PAGE)
        yield Row("page", "first page, requests", "", [len(loaded)], REQUESTS)
        page.goto(base)
        typed, shown, asked = np.array(
            [page.evaluate(TYPED, question) for question in questions][5:], dtype=float
        ).T
        note = f"{QUESTIONS} questions; less the seconds that the same answer tells"
        yield Row("page", "typed to painted, p50", "ms", [float(np.quantile(typed, 0.5))])
        yield Row("page", "typed to painted, p95", "ms", [float(np.quantile(typed, 0.95))])
        yield Row(
            "page",
            "… over the library, p50",
            "ms",
            [float(np.quantile(typed - asked, 0.5))],
            OVER_P50,
            note=note,
        )
        yield Row(
            "page",
            "… over the library, p95",
            "ms",
            [float(np.quantile(typed - asked, 0.95))],
            OVER_P95,
            note=note,
        )
        yield Row(
            "page",
            "… of it the server, p50",
            "ms",
            [float(np.quantile(shown - asked, 0.5))],
            note="marks words, renders",
        )
        named = questions[:TYPED_OUT]
        costs = [requests(page, base, question) for question in named]
        length = int(np.median([len(question) for question in named]))
        yield Row(
            "page",
            "requests to type a question",
            "",
            costs,
            note=f"{length} letters, {KEY} ms a key; the median of {TYPED_OUT}",
        )
        page.goto(base + "/map")
        if page.locator("#map").count():
            end = time.monotonic() + 60
            while (
                not page.evaluate("Number(document.getElementById('map').dataset.drawn || 0)")
                and time.monotonic() < end
            ):
                page.wait_for_timeout(50)
            drawn = []
            for _ in range(subject.given.rounds):
                page.locator("#map").press("+")
                drawn.append(
                    float(page.evaluate("Number(document.getElementById('map').dataset.drawn)"))
                )
            yield Row("page", "map drawn", "ms", drawn, MAP_DRAWN)
            data = page.evaluate(
                "fetch(document.getElementById('map').dataset.address).then((answer) => "
                "answer.text())"
            )
            yield Row(
                "page",
                "map's data, compressed",
                "KB",
                [len(gzip.compress(data.encode(), 5)) / 1000],
            )


def browser_program() -> str:
    """Return the browser that is driven; empty where there is none, or nothing to drive it by."""
    return (
        (os.environ.get("CHROMIUM") or shutil.which("chromium") or "")
        if find_spec("playwright")
        else ""
    )


def requests(page: Any, base: str, question: str) -> int:
    """Type a question letter by letter; return how many requests for names and answers that
    costs.
    """
    page.goto(base)
    asked: list[str] = []

    def count(request: Any) -> None:
        if "?q=" in request.url:
            asked.append(request.url)

    page.on("request", count)
    page.locator("#q").press_sequentially(question, delay=KEY)
    page.wait_for_timeout(10 * KEY)
    page.remove_listener("request", count)
    return len(asked)


@contextmanager
def served(subject: Subject) -> Iterator[str]:
    """Serve the page; give the address that opens it once."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "thumbindex",
        "page",
        "--no-browser",
        "--port",
        "0",
        "--json",
        *subject.arguments,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None, "it was asked for"
            yield json.loads(process.stdout.readline())["url"]
        finally:
            with suppress(OSError):
                process.terminate()


@contextmanager
def browser(program: str) -> Iterator[Any]:
    """Open a page in a browser."""
    from playwright.sync_api import sync_playwright  # of the extra `page-tests`

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened.new_page()
        opened.close()
