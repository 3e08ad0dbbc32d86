"""Private notes on the page: with one in the folder every screen shows what it showed without."""

import re
from urllib.parse import quote

import pytest

SECRET = "Zanzibarquetzal"
OPEN = {
    "apples.md": "# Apples\n\nApples keep in a cool cellar. See [[day]].\n",
    "pears.md": "# Pears\n\nPears ripen off the tree, apples do not.\n",
}
HIDDEN = "journal/day.md"
KEY = "---\nprivate: true\n---\n"


ADDRESSES = (
    "/",
    f"/?q={SECRET}+apples",
    f"/?q=apples&path={quote(HIDDEN)}",
    "/?q=path:journal",
    "/names?q=day",
    "/note/vault0/apples.md",
    f"/note/vault0/{HIDDEN}",
    f"/why?q=apples&path={quote(HIDDEN)}",
    "/why?q=apples",
    "/links?show=orphans",
    "/links?show=broken",
    "/links?show=unlinked",
    "/review?show=all",
    "/judge",
    "/state",
)

WRITTEN = (
    r'"(?:seconds|generation|updated|size_bytes|size)": [^,}]+'
    r'|<td class="number-cell">[\d.]+</td>|width="[\d.]+"'
    r'|<dt>(?:Last written|Generation)</dt><dd.*?</dd>|"parts": \[\[.*?\]\]|[\d.,]+ MB'
)
"""What a screen says of when and how often the index was written, and how many bytes that took: any
saved note changes it.
"""


def told(page) -> dict[str, tuple[int, str]]:
    said = {}
    for address in ADDRESSES:
        path, mark, query = address.partition("?")
        for each in (address, f"{'/ask' if path == '/' else path}.json{mark}{query}"):
            found = page.get(each)
            text = re.sub(WRITTEN, "", found.text)
            said[each] = (found.status_code, text)
    return said


@pytest.fixture
def vault(vault_copy):
    return vault_copy(OPEN)


def write(library, path: str, text: str, index: bool = True) -> None:
    (library.folders[0][1] / path).parent.mkdir(exist_ok=True)
    (library.folders[0][1] / path).write_text(text, encoding="utf-8")
    if index:
        library.index()


def test_a_screen_shows_of_a_private_note_what_it_shows_of_none(vault, browse):
    page = browse(vault)
    before = told(page)
    copy = OPEN["pears.md"].partition("\n\n")[2]
    write(vault, "journal/night.md", f"{KEY}# Night\n\n{copy}", index=False)
    write(vault, HIDDEN, f"{KEY}# Day\n\n{SECRET} apples. See [[apples]].\n")
    assert told(page) == before


def test_a_note_that_has_just_become_private_is_nowhere_before_anybody_has_looked(vault, browse):
    page = browse(vault)
    write(vault, HIDDEN, f"# Day\n\n{SECRET} apples, in a cool cellar. See [[apples]].\n")
    shown = told(page)
    assert (
        sum(
            SECRET in text or "day.md" in text.replace(quote(HIDDEN), "")
            for _, text in shown.values()
        )
        > 5
    )
    write(vault, HIDDEN, f"{KEY}# Day\n\n{SECRET} apples.\n", index=False)
    now = told(page)
    assert [
        address
        for address, (_, text) in now.items()
        if SECRET in text.replace(f"q={SECRET}", "") and SECRET not in address
    ] == []
    asked = {address for address in now if quote(HIDDEN) in address or "names?q=day" in address}
    assert [
        address
        for address, (_, text) in now.items()
        if "journal/day.md" in text and address not in asked
    ] == []
    assert page.get(f"/note/vault0/{HIDDEN}").text == page.get("/note/vault0/nothing.md").text
