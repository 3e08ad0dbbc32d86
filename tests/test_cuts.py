"""Long sentences and lines are cut outside tokens, links and characters, so that all is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, product
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.corpus.parse import parse_document
from thumbindex.library import Library
from thumbindex.settings import ChunkSettings, CorpusSettings
from thumbindex.visible_text import strip_markup

NUMBERS = range(101, 161)


def sentence(*forms: str, joint: str = ", ") -> str:
    """Return one long sentence with each form for each of sixty numbers."""
    return f"We got {joint.join(form.format(n) for n in NUMBERS for form in forms)} at last"


TOKENS = {
    "files": (sentence("part{0}.tar.gz", "notes-{0}.md"), ["part{0}.tar.gz", "notes-{0}.md"]),
    "decimals in code": (f"```\n{sentence('x{0}=0.{0}', joint=';y=1; ')}\n```", ["0.{0}"]),
    "addresses": (
        sentence("http://h{0}.example/a,b;c.html", "a.{0}@mail.example"),
        ["h{0}.example/a,b"],
    ),
    "names in a table": (
        f"| a | b |\n|---|---|\n| x | {sentence('db.t{0}.id', joint=';c, ')} |",
        ["db.t{0}.id"],
    ),
    "a heading": (f"# {sentence('chap{0}.7.txt')}\n\n# Next\n\nEnd.", ["chap{0}.7.txt"]),
    "Chinese": (sentence("打开ini{0}.cfg再看", joint=""), ["ini{0}.cfg"]),
    "HTML": (f"<div>\n{sentence('<b>seg{0}.bin</b>', joint=',')}\n</div>", ["seg{0}.bin"]),
}


@pytest.fixture(scope="module")
def tokens_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    notes = {f"{name}.md": f"{text}.\n" for name, (text, _) in TOKENS.items()}
    root = write_notes(tmp_path_factory.mktemp("tokens") / "vault", notes)
    with open_library(root) as library:
        library.index()
        yield library


@pytest.mark.parametrize("name", TOKENS)
def test_every_token_of_a_long_sentence_is_found(tokens_library: Library, name: str) -> None:
    tokens = [form.format(n) for form in TOKENS[name][1] for n in NUMBERS]
    lost = [token for token in tokens if name not in found(tokens_library, f'"{token}"')]
    assert lost == []


def found(library: Library, query: str) -> set[str]:
    return {passage.path.removesuffix(".md") for passage in library.query(query).passages}


def chunks(text: str, maximum: int = 500) -> list[str]:
    settings = CorpusSettings(chunk=ChunkSettings(child_max=maximum))
    return [chunk.text for chunk in parse_document("a.md", text.encode(), settings).chunks]


CHARACTERS = {
    "family": "👩🏽\u200d👩🏿\u200d👧\u200d👦🏻",
    "flags": "🇩🇪",
    "Scotland": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "keycap": "7\ufe0f\u20e3",
    "Latin marks": "o\u0302\u0323",
    "Thai": "ที่",
    "Hindi": "क्षि",
    "Korean letters": "\u1112\u1161\u11ab",
    "Hebrew points": "שָׁ",
}
STARTS = ("", "x", "See  ", "```\n", "```\nx", "```\nSee  ")


@pytest.mark.parametrize(
    ("character", "start"), [*zip(CHARACTERS.values(), cycle(STARTS))], ids=CHARACTERS
)
def test_an_enormous_token_is_cut_between_characters(character: str, start: str) -> None:
    parts = chunks(f"{start}{character * 400}", maximum=494)
    assert len(parts) > 1
    assert all(len(part) <= 494 for part in parts)
    assert all(part.replace(character, "").strip() in start for part in parts)


ORDINARY = {
    "commas": ("One stands here, another there; " * 30, ["here,", "there;"]),
    "sentences": ("The first is here. The second one is there. " * 20, ["here.", "there."]),
    "Chinese sentences": ("今天天气很好。我们去公园。" * 60, ["。"]),
    "Chinese clauses": ("今天天气很好，我们去公园、" * 60, ["，", "、"]),
    "words": ("word " * 300, ["word"]),
}


@pytest.mark.parametrize(("text", "ends"), ORDINARY.values(), ids=ORDINARY)
def test_ordinary_text_is_cut_at_its_signs(text: str, ends: Sequence[str]) -> None:
    *parts, _ = chunks(text)
    assert len(parts) > 0
    assert {part.endswith(tuple(ends)) for part in parts} == {True}


# ------------------------------------------------------------------ links

PATH = "zqhost/zq%20folder/03.{0}%20zqpages/zqpage.md"
WORDS = "and then the old keeper of the tower walks down to the harbor"
LINKS = {
    "links": "[Edit this page, please](https://{0} 'zq, title')",
    "images": '![a plan, drawn. By hand](<{0}> "zq. Title")',
    "badges": "[![the build. Passing](https://zq.example/{0})](https://zq.example/x)",
    "wikilinks": "[[{0}|the long alias, of two parts]]",
    "references": "[a word, or two][zqref, {0}]",
    "tags of a generator": '[see. This page]({{{{< ref "{0}" >}}}})',
    "parentheses": "[the page, again](https://{0}_(zq))",
    "brackets in the text": "[the [1] page, again](https://{0})",
    "addresses in HTML": '<a href="https://{0}" title="zq, a. Page">',
    "code": "`let zq, s = {0}; Stop. Go`",
    "autolinks": "<https://{0},zq;zq>",
}
PLACES = {
    "paragraph": "{}",
    "list": "- {}",
    "quote": "> {}",
    "row": "| a |\n|---|\n| {} |",
    "HTML": "<div>\n{}\n</div>",
}


IN_ALL_PLACES = ("links", "badges", "link", "badge")


def places(name: str) -> Sequence[str]:
    return tuple(PLACES.values()) if name in IN_ALL_PLACES else ("{}",)


@pytest.mark.parametrize("name", LINKS)
def test_links_stay_whole(name: str) -> None:
    links = [LINKS[name].format(PATH.format(n)) for n in range(10, 50)]
    for place, words in product(places(name), (WORDS, "", f"{WORDS}. Then")):
        parts = chunks(place.format(f" {words} ".join(links)))
        assert len(parts) > 3
        assert sum(part.count(link) for part in parts for link in links) == len(links)


LONG = "zq%20folder,zq.page;" * 40
TOO_LONG = {
    "link": f"[Edit, this. Page](https://zqhost/{LONG})",
    "link with a title": f"[Edit, this. Page](https://zqhost/{LONG} 'zq title')",
    "image": f"![Edit, this. Page](zqfolder/{LONG}.png)",
    "badge": f"[![Edit, this. Page](zqfolder/{LONG}.png)](https://zqhost)",
    "long text": f"[Edit, this. Page. {'Once more. ' * 60}](zqhost/zqpage.md)",
    "long text of a reference": f"[Edit, this. Page. {'Once more. ' * 60}][zqref 7]",
    "wikilink": f"[[{LONG}|Edit, this. Page]]",
    "Chinese": f"请看[Edit, this. Page](https://zqhost/{LONG})谢谢",
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_the_address_of_a_link_that_does_not_fit_is_no_text(name: str) -> None:
    for place, words in product(places(name), ("", WORDS, f"{WORDS}. " * 6)):
        text = f"{words} {TOO_LONG[name]} {words} lighthouse"
        visible = " ".join(map(strip_markup, chunks(place.format(text))))
        assert "zq" not in visible
        assert all(word in visible for word in ("Edit,", "this.", "Page", "lighthouse"))


@pytest.mark.parametrize("before", ["", f"{WORDS}, ", '<img alt="x" src="'])
def test_the_rest_of_an_address_that_does_not_fit_is_no_text(before: str) -> None:
    parts = chunks(f"{before}https://host.example/{'a/' * 240}zqrest/{'b/' * 300} end.")
    assert "https://host.example/a/" in "".join(parts)
    assert "zqrest" not in "".join(parts)
    assert "end." in parts[-1]


NO_LINKS = {
    "enormous word": f"{'Donaudampf' * 70}zqrest",
    "JSON": f'`{{"url":"https://host.example","list":[{"12," * 300}"zqrest"]}}`',
    "parentheses": f"[1](see {WORDS * 10}: zqrest)",
    "less than": f"a <b {WORDS * 10} zqrest> c",
    "open bracket": f"[open {WORDS * 10} zqrest",
    "open code": f"`open {WORDS * 10} zqrest",
    "code": f"```\na[i](https://x/{'y' * 300} {'z' * 300}zqrest)\n```",
}


@pytest.mark.parametrize("text", NO_LINKS.values(), ids=NO_LINKS)
def test_what_is_no_link_stays_text(text: str) -> None:
    assert "zqrest" in "".join("".join(chunks(text)).split())


FOOTER = (
    '<span class="x">[Edit this page](https://dev.example/hub/blob/main/{0}/{1}.md "zq edit") | '
    '[Copy this page](https://raw.dev.example/hub/main/{0}/{1}.md "zq copy") | [Get all of the '
    'pages](https://dev.example/hub/archive/refs/heads/{2}main.zip "zq get") </span>'
)
PLUGINS = ("alpha", "beta", "gamma", "delta", "epsilon-long-name", "zeta")


@pytest.mark.parametrize("padding", ["", "deep%20folder/" * 8, LONG])
def test_pages_that_differ_in_addresses_do_not_disagree(tmp_path: Path, padding: str) -> None:
    folders = ("02%20-%20Expansions/02.05%20All%20Expansions/Plugins", "01%20-%20Community/People")
    notes = {}
    for number, name in enumerate(PLUGINS):
        footer = FOOTER.format(folders[number % 3 == 0], name, padding)
        notes[f"{name}.md"] = f"# {name}\n\nColors the {name}.\n\n# About this file\n\n{footer}\n"
    with open_library(write_notes(tmp_path / "vault", notes)) as library:
        library.index()
        for query in ("edit or copy this page", "get all of the pages"):
            answer = library.query(query)
            assert answer.passages
            assert [passage.disagrees for passage in answer.passages if passage.disagrees] == []
