"""A private note in a folder changes no screen of the page."""

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
    "/notes",
    "/notes?show=orphans",
    "/notes?show=unlinked",
    "/checkup?show=all",
    "/judge",
    "/state",
)

WRITTEN = (
    r'"(?:seconds|generation|updated|size_bytes|size)": [^,}]+'
    r'|<td class="number-cell">[\d.]+</td>|width="[\d.]+"'
    r'|last change on [^·]+|in [\d,]+ ms|"parts": \[\[.*?\]\]|[\d.,]+ MB'
)
"""Times, counts and sizes of index writes, which change with any saved note."""


def all_responses(page) -> dict[str, tuple[int, str]]:
    responses = {}
    for screen in ADDRESSES:
        path, mark, query = screen.partition("?")
        twins = [f"{path}.json{mark}{query}"] if path in {"/names", "/checkup"} else []
        for address in (screen, *twins):
            response = page.get(address)
            responses[address] = (response.status_code, re.sub(WRITTEN, "", response.text))
    return responses


@pytest.fixture
def vault(vault_copy):
    return vault_copy(OPEN)


def write(library, path: str, text: str, index: bool = True) -> None:
    (library.folders[0][1] / path).parent.mkdir(exist_ok=True)
    (library.folders[0][1] / path).write_text(text, encoding="utf-8")
    if index:
        library.index()


def test_private_notes_change_no_screen(vault, browse):
    page = browse(vault)
    before = all_responses(page)
    copy = OPEN["pears.md"].partition("\n\n")[2]
    write(vault, "journal/night.md", f"{KEY}# Night\n\n{copy}", index=False)
    write(vault, HIDDEN, f"{KEY}# Day\n\n{SECRET} apples. See [[apples]].\n")
    assert all_responses(page) == before


def test_newly_private_note_disappears_at_once(vault, browse):
    page = browse(vault)
    write(vault, HIDDEN, f"# Day\n\n{SECRET} apples, in a cool cellar. See [[apples]].\n")
    shown = all_responses(page)
    assert (
        sum(
            SECRET in text or "day.md" in text.replace(quote(HIDDEN), "")
            for _, text in shown.values()
        )
        > 5
    )
    write(vault, HIDDEN, f"{KEY}# Day\n\n{SECRET} apples.\n", index=False)
    after = all_responses(page)
    assert [
        address
        for address, (_, text) in after.items()
        if SECRET in text.replace(f"q={SECRET}", "") and SECRET not in address
    ] == []
    naming = {address for address in after if quote(HIDDEN) in address or "names?q=day" in address}
    assert [
        address
        for address, (_, text) in after.items()
        if "journal/day.md" in text and address not in naming
    ] == []
    assert page.get(f"/note/vault0/{HIDDEN}").text == page.get("/note/vault0/nothing.md").text
