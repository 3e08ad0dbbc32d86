"""Hostile paths and values: nothing from outside a folder, no live markup, no server errors."""

import os
import re
from html.parser import HTMLParser
from itertools import cycle, product
from urllib.parse import quote

import pytest

from hostile_vault import SECRET, make
from thumbindex.opening import OpenOptions
from thumbindex.page.site import SCREENS

PATHS = (
    "../secret.md",
    "sub/../../secret.md",
    "%2e%2e%2fsecret.md",
    "..\\secret.md",
    "OUTSIDE/secret.md",
    "/etc/passwd",
    "file:///etc/passwd",
    "a.md/../../secret.md",
    "pipe.md",
    "a.md\x00.md",
    "\ud800.md",
    "~/secret.md",
    "a" * 5_000,
)
"""One path of each kind; `mcp/test_hostile_paths.py` has all of them."""


@pytest.fixture(scope="module")
def both(tmp_path_factory, open_fake, browse):
    """The pages of two folders that differ only in the files outside them."""
    opened, pages = [], []
    for name in ("aa", "bb"):
        place = tmp_path_factory.mktemp(name) / "place"
        root = make(place, place.parent / "outside", real=name == "aa")
        os.mkfifo(root / "pipe.md")
        library = open_fake(OpenOptions((str(root),), place.parent / "index"))
        library.index()
        opened.append(library)
        pages.append((browse(library), place.parent))
    yield pages
    for library in opened:
        library.close()


ADDRESSES = (
    "/note/vault/{}",
    "/note/{}",
    "/{}",
    "/?q=apples&path={}",
    "/names?q={}",
    "/names.json?q={}",
    "/why?q=apples&path={}",
    "/why?q=apples&glob={}",
)

FORMS = {
    "/judge/mark": (
        {"query": "apples", "folder": "vault", "path": "{}", "grade": "2"},
        {"query": "apples", "folder": "{}", "path": "a.md", "grade": "2"},
    ),
    "/checkup/decide": ({"id": "{}", "verdict": "same"},),
}
"""Form values by address; `{}` is the place of the path."""


def response_of(page, place, address, form=None):
    response = page.get(address) if form is None else page.post(address, form)
    text = re.sub(
        r'page;dur=[\d.]+|data-revision="\d+|\d{4}-\d\d-\d\dT[\d:+.]+|\d+\.\d+', "x", response.text
    )
    return response.status_code, text.replace(str(place), "PLACE").replace(
        quote(str(place), safe=""), "PLACE"
    ).replace(quote(str(place)), "PLACE")


def encoded(path: str) -> str:
    return quote(path.encode("utf-8", "surrogatepass"), safe="")


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_hostile_paths_in_addresses_reveal_nothing_outside(both, path):
    for pattern in ADDRESSES:
        responses = []
        for page, place in both:
            address = pattern.format(encoded(path.replace("OUTSIDE", str(place / "outside"))))
            status, text = response_of(page, place, address)
            assert status in {200, 303, 400, 404, 405}, address
            assert SECRET not in text
            responses.append((status, text))
        assert responses[0] == responses[1], pattern


def test_hostile_paths_in_forms_change_and_reveal_nothing_outside(both):
    for path, (address, forms) in product(PATHS, FORMS.items()):
        for form in forms:
            responses = []
            for page, place in both:
                hostile = path.replace("OUTSIDE", str(place / "outside"))
                values = {
                    name: value.replace("{}", hostile).encode("utf-8", "surrogatepass")
                    for name, value in form.items()
                }
                status, text = response_of(page, place, address, values)
                assert status in {200, 303, 400, 404}, (address, values)
                assert SECRET not in text
                responses.append((status, text))
            assert responses[0] == responses[1], (address, form, path)
    for page, _ in both:
        assert "No judgments yet." in page.get("/judge").text


def test_unescaped_traversals_reveal_nothing_outside(both):
    for page, _ in both:
        for path in (
            "/note/vault/../secret.md",
            "/note/vault/sub/../../secret.md",
            "/note/../../etc/passwd",
            "/static/x/../../site.py",
            "/note//etc/passwd",
        ):
            response = page.get(path)
            assert (response.status_code in {303, 404}, SECRET in response.text) == (True, False)


HOSTILE_VALUES = (
    '"><script>alert(1)</script><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\x00\x01\x1b[2J",
    "\ud800 \udcff",
    "\u202egpj.exe",
    "a" * 5_000,
    "-1",
    "99999999999999999999",
    "../../..",
    'tag:<b> path:\'" -"',
)

PARAMETERS = (
    *"q also passage folder tag path glob since until limit lines heading source show at".split(),
    *"against last page color sort off look to view".split(),
)


class Live(HTMLParser):
    """Finds active content in a page."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        acts = tag in {"iframe", "object", "embed", "base", "img"} or (
            tag == "script" and not (attributes.get("src") or "").startswith("/static/")
        )
        addresses = [
            attributes[name] or ""
            for name in ("href", "action", "src", "formaction")
            if name in attributes
        ]
        leads = any(
            address.strip().lower().startswith(("javascript:", "vbscript:"))
            or ("data:" in address and address != "data:,")
            for address in addresses
        )
        if acts or leads or any(name.startswith("on") or name == "style" for name in attributes):
            self.found.append((tag, attributes))


@pytest.mark.slow
@pytest.mark.parametrize("screen", sorted(SCREENS))
def test_hostile_values_are_escaped_or_refused(browser, screen):
    """Send markup and one other hostile value in each parameter."""
    base = {"ask": "/", "note": "/note/vault/sync.md"}.get(screen, f"/{screen}")
    markup, *others = map(encoded, HOSTILE_VALUES)
    for name, other in zip(PARAMETERS, cycle(others), strict=False):
        extra = "q=sync&" if name != "q" and screen in {"ask", "why", "names"} else ""
        for value in (markup, other):
            response = browser.get(f"{base}?{extra}{name}={value}")
            assert response.status_code in {200, 400, 404}, (name, response.text[:300])
            assert Live(response.text).found == []
    for value in (markup, *others) if screen in {"names", "checkup"} else ():
        json_response = browser.get(f"/{screen}.json?q={value}")
        assert json_response.status_code in {200, 400, 404}
        assert json_response.headers["content-type"] == "application/json"


def test_too_many_values_are_refused(browser):
    assert browser.get(f"/?{'folder=vault&' * 450}{'q=a&' * 100}").status_code == 400
