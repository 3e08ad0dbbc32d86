"""Images, drawings and other data in a note are no text; what only looks similar stays text."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping

import pytest

from folders import open_library, write_notes
from thumbindex.library import Library

RANDOM = random.Random(3)
BYTES = base64.b64encode(RANDOM.randbytes(9_000)).decode()
PEM = "\n".join(BYTES[at : at + 64] for at in range(0, len(BYTES), 64))
HEX = RANDOM.randbytes(4_000).hex()
SHAPES = [{"id": f"zq{n}", "type": "ellipse", "x": n * 1.5} for n in range(200)]
DRAWING = json.dumps({"type": "excalidraw", "version": 2, "elements": SHAPES})
SCRIPT = "".join(f"function zq{n}(e,t){{return e.x[{n}]=t,e}}" for n in range(300))
STYLE = "".join(f".zq{n}{{color:#{n:06x};margin:0 {n}px}}" for n in range(300))
SVG = "%3Csvg xmlns='http://www.w3.org/2000/svg'%3E" + "%3Cpath d='M0 1v2'/%3E" * 20

PAYLOADS = {
    "image": f"![a map](data:image/png;base64,{BYTES})",
    "image in a table": f"| x | ![](data:image/gif;base64,{BYTES}) |\n|---|---|\n| 1 | 2 |",
    "link definition": f"See ![][pic].\n\n[pic]: <data:image/jpeg;base64,{BYTES}>",
    "HTML over several lines": f'<img alt="x"\n  src="data:image/png;base64,{PEM}">',
    "upper case": f"<audio src='DATA:AUDIO/OGG;BASE64,{BYTES}'></audio>",
    "CSS in code": f'```css\na {{ background: url("data:image/svg+xml,{SVG}"); }}\n```',
    "percent-encoded": f"![](data:text/html;charset=utf-8,{'%E4%B8%AD' * 60})",
    "drawing": f"%%\n# Drawing\n```json\n{DRAWING}\n```\n%%",
    "drawing without comment": f"# Drawing\n```json\n{DRAWING}\n```",
    "drawing without fence": f"# Drawing\n{DRAWING}",
    "drawing on many lines": f"```json\n{json.dumps(json.loads(DRAWING), indent=2)}\n```",
    "compressed drawing": f"## Drawing\n```compressed-json\n{PEM[:700]}\n\n{PEM[700:1500]}\n```",
    "file on one line": f"Attached as text: {BYTES}",
    "key": f"-----BEGIN PRIVATE KEY-----\n{PEM}\n-----END PRIVATE KEY-----",
    "mail in a quote": "> " + PEM.replace("\n", "\n> "),
    "hexadecimal digits": f"`{HEX}`",
    "minified script": f"```js\n{SCRIPT}\n```",
    "minified style without fence": f"<style>\n{STYLE}\n</style>",
    "minified JSON": json.dumps({"zq": SHAPES}, separators=(",", ":")),
    "vector": f"The vector is [{', '.join(str(RANDOM.random()) for _ in range(600))}].",
}

TEXTS = {
    "icon": "![dot](data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=)",
    "Chinese": "灯塔守护人每天早上爬上楼梯点亮灯火" * 400,
    "Thai": "ประภาคารตั้งอยู่ริมทะเลและส่องแสงทุกคืน" * 200,
    "table row": "| a | b |\n|---|---|\n|" + "cell|" * 1_500,
    "word": "donau" * 4_000,
    "DNA": "".join(RANDOM.choices("ACGT", k=6_000)),
    "digits": "3141592653" * 500,
    "log line": "12:30:01.5 GET /api/v1/items?id=7 200 {} 12ms; " * 200,
    "checksums": "\n".join(HEX[at : at + 64] for at in range(0, 6_400, 64)),
    "fingerprint": "SHA256:" + BYTES[:43],
    "keys, one a line": "\n".join(f"{BYTES[at : at + 43]}=" for at in range(0, 8_600, 43)),
    "example of a drawing": '```json\n{"type": "excalidraw", "elements": []}\n```',
    "links without spaces": "[[Harbor]],[[Ferry]]," * 400,
    "Chinese in JSON": json.dumps([{"标题": "灯塔守护人" * 3}] * 400, ensure_ascii=False),
    "rules": "-" * 6_000 + "x",
}

ADDRESSES = {
    "address": f"https://example.com/edit#code/{BYTES}",
    "link with a long address": f"[open](https://example.com/?state={BYTES}) the sheet",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    def notes(folder: str, bodies: Mapping[str, str]) -> dict[str, str]:
        return {
            f"{folder}/{name}.md": f"# Pier\n\nThe ferry leaves early.\n\n{body}\n\nBring bread.\n"
            for name, body in bodies.items()
        }

    root = tmp_path_factory.mktemp("payloads") / "vault"
    write_notes(root, notes("payload", PAYLOADS) | notes("text", TEXTS | ADDRESSES))
    with open_library(root) as library:
        library.index()
        yield library


def chunks(library: Library, path: str) -> tuple[str, ...]:
    return next(note.texts for note in library.all_notes() if note.document.path == path)


@pytest.mark.parametrize("name", PAYLOADS)
def test_data_is_left_out_of_the_index_and_of_reading(library: Library, name: str) -> None:
    path = f"payload/{name}.md"
    indexed = "\n".join(chunks(library, path))
    assert len(indexed) < 300
    assert ("The ferry leaves early." in indexed, "Bring bread." in indexed) == (True, True)
    lines = (library.folders[0][1] / path).read_text(encoding="utf-8").split("\n")
    shown = library.read(path).text.split("\n")
    assert (len(shown), shown[-1]) == (len(lines) - 1, "Bring bread.")
    assert ("[omitted: " in "".join(shown), len("".join(shown)) < 300) == (True, True)


@pytest.mark.parametrize("name", TEXTS)
def test_text_that_looks_like_data_is_kept(library: Library, name: str) -> None:
    path = f"text/{name}.md"
    text = (library.folders[0][1] / path).read_text(encoding="utf-8")
    assert library.read(path).text == text.removesuffix("\n")
    assert len("".join(chunks(library, path))) > 0.9 * len(text) - 20


@pytest.mark.parametrize("name", ADDRESSES)
def test_address_longer_than_a_chunk_is_read_but_not_searched(library: Library, name: str) -> None:
    path = f"text/{name}.md"
    text = (library.folders[0][1] / path).read_text(encoding="utf-8")
    assert library.read(path).text == text.removesuffix("\n")
    assert len("".join(chunks(library, path))) < 600


def test_quotation_across_an_image_is_there(library: Library) -> None:
    quoted = '"The ferry leaves early. Bring bread." (payload/upper case.md)'
    assert [check.state for check in library.verify(quoted).citations] == ["there"]


def test_page_shows_an_image_without_its_data(library: Library) -> None:
    def page(name: str) -> str:
        return str(
            library.page(
                f"payload/{name}.md", note_address=lambda *_: "", tag_address=lambda _: ""
            ).rendered.html
        )

    assert "image: a map" in page("image")
    assert "[omitted:\u00a0minified\u00a0code,\u00a0" in page("minified style without fence")
