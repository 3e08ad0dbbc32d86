"""Hostile addresses: nothing from outside a folder, no live markup, never an error of ours,
whatever stands in a path or a value.
"""

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
"""Paths that differ in kind; `mcp/test_hostile_paths.py` asks all that we know over MCP."""


@pytest.fixture(scope="module")
def both(tmp_path_factory, open_fake, browse):
    """Two folders that differ only in what lies outside of them, each with its page."""
    opened, made = [], []
    for name in ("aa", "bb"):
        place = tmp_path_factory.mktemp(name) / "place"
        root = make(place, place.parent / "outside", real=name == "aa")
        os.mkfifo(root / "pipe.md")
        library = open_fake(OpenOptions((str(root),), place.parent / "index"))
        library.index()
        opened.append(library)
        made.append((browse(library), place.parent))
    yield made
    for library in opened:
        library.close()


ADDRESSES = (
    "/note/vault/{}",
    "/note/vault/{}.json",
    "/note/{}",
    "/{}",
    "/?q=apples&path={}",
    "/ask.json?q=apples&path={}",
    "/names?q={}",
    "/names.json?q={}",
    "/why?q=apples&path={}",
    "/why?q=apples&glob={}",
    "/why.json?q=apples&path={}",
)

FORMS = {
    "/judge/mark": (
        {"query": "apples", "folder": "vault", "path": "{}", "grade": "2"},
        {"query": "apples", "folder": "{}", "path": "a.md", "grade": "2"},
    ),
    "/review/decide": ({"id": "{}", "verdict": "same"},),
}
"""By address, values of forms: a path stands where `{}` does."""


def told(page, place, address, form=None):
    found = page.get(address) if form is None else page.post(address, form)
    text = re.sub(
        r'page;dur=[\d.]+|data-revision="\d+|\d{4}-\d\d-\d\dT[\d:+.]+|\d+\.\d+', "x", found.text
    )
    return found.status_code, text.replace(str(place), "PLACE").replace(
        quote(str(place), safe=""), "PLACE"
    ).replace(quote(str(place)), "PLACE")


def encoded(path: str) -> str:
    return quote(path.encode("utf-8", "surrogatepass"), safe="")


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_a_path_leads_to_nothing_outside_and_does_not_tell_whether_anything_is_there(both, path):
    for form in ADDRESSES:
        said = []
        for page, place in both:
            address = form.format(encoded(path.replace("OUTSIDE", str(place / "outside"))))
            status, text = told(page, place, address)
            assert status in {200, 303, 400, 404, 405}, address
            assert SECRET not in text
            said.append((status, text))
        assert said[0] == said[1], form


def test_a_path_in_a_form_changes_nothing_outside_and_does_not_tell_whether_anything_is_there(both):
    for path, (address, forms) in product(PATHS, FORMS.items()):
        for form in forms:
            said = []
            for page, place in both:
                written = path.replace("OUTSIDE", str(place / "outside"))
                given = {
                    name: value.replace("{}", written).encode("utf-8", "surrogatepass")
                    for name, value in form.items()
                }
                status, text = told(page, place, address, given)
                assert status in {200, 303, 400, 404}, (address, given)
                assert SECRET not in text
                said.append((status, text))
            assert said[0] == said[1], (address, form, path)
    for page, _ in both:
        assert page.json("/judge.json")["judged"] == []


def test_a_path_with_slashes_as_they_are_leads_to_nothing_outside(both):
    for page, _ in both:
        for path in (
            "/note/vault/../secret.md",
            "/note/vault/sub/../../secret.md",
            "/note/../../etc/passwd",
            "/static/x/../../site.py",
            "/note//etc/passwd",
        ):
            found = page.get(path)
            assert (found.status_code in {303, 404}, SECRET in found.text) == (True, False)


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
    """What of a page could act."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        acts = tag in {"iframe", "object", "embed", "base", "img"} or (
            tag == "script" and not (held.get("src") or "").startswith("/static/")
        )
        addresses = [
            held[name] or "" for name in ("href", "action", "src", "formaction") if name in held
        ]
        leads = any(
            address.strip().lower().startswith(("javascript:", "vbscript:"))
            or ("data:" in address and address != "data:,")
            for address in addresses
        )
        if acts or leads or any(name.startswith("on") or name == "style" for name in held):
            self.found.append((tag, held))


@pytest.mark.parametrize("screen", sorted(SCREENS))
def test_a_value_is_words_or_told_to_be_wrong(browser, screen):
    """Each parameter of a screen is given markup and one of the other values in turn."""
    base = {"ask": "/", "note": "/note/vault/sync.md"}.get(screen, f"/{screen}")
    markup, *others = map(encoded, HOSTILE_VALUES)
    for name, other in zip(PARAMETERS, cycle(others), strict=False):
        extra = "q=sync&" if name != "q" and screen in {"ask", "why", "names"} else ""
        for given in (markup, other):
            found = browser.get(f"{base}?{extra}{name}={given}")
            assert found.status_code in {200, 400, 404}, (name, found.text[:300])
            assert Live(found.text).found == []
    for given in (markup, *others):
        twin = browser.get(f"{base if base != '/' else '/ask'}.json?q={given}")
        assert twin.status_code in {200, 400, 404}
        assert twin.headers["content-type"] == "application/json"


def test_a_value_that_is_given_too_often_is_refused(browser):
    assert browser.get(f"/?{'folder=vault&' * 450}{'q=a&' * 100}").status_code == 400
