"""What a note says about itself, in each form that programs write: title, tags, dates, aliases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from folders import open_library, write_notes
from thumbindex.corpus.parse import parse_document
from thumbindex.library import Library
from thumbindex.settings import CorpusSettings

BODY = "They climb the stairs.\n"


def library_of(root: Path, text: str) -> Library:
    library = open_library(write_notes(root / "notes", {"two.md": text, "other.md": "# Other\n"}))
    library.index()
    return library


def properties_of(root: Path, text: str) -> Mapping[str, Any]:
    """Index a note; return its properties that are not empty."""
    with library_of(root, text) as library:
        listed = next(note for note in library.listing().notes if note.path == "two.md")
    document = parse_document("two.md", text.encode(), CorpusSettings()).document
    values = {
        "title": listed.title,
        "tags": list(listed.tags),
        "date": listed.date,
        "aliases": list(document.aliases),
        "keywords": list(document.keywords),
        "description": document.description,
        "author": document.author,
        "category": document.category,
    }
    return {key: value for key, value in values.items() if value}


TEXT = {"title": "two"}
"""The properties of a note without any."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{\n  "title": "Lamp keepers",\n  "date": "2024-02-03",\n  "tags": ["sea"]\n}\n\n',
            {"title": "Lamp keepers", "date": "2024-02-03", "tags": ["sea"]},
            id="pretty-printed",
        ),
        pytest.param(
            '{"title": "In a row", "tags": ["a", "b/c"], "draft": false}\n',
            {"title": "In a row", "tags": ["a", "b/c"]},
            id="one-line",
        ),
        pytest.param(
            '{\n\t"Title": "\\u706f\\u53f0 \\"A\\" {b}",\n\t"author": {"name": "Ada"}\n}\t\n',
            {"title": '灯台 "A" {b}', "author": "Ada"},
            id="escapes-tabs-braces",
        ),
        pytest.param(
            '{"title": "T", "params": {"author": "Ada", "x": [{"y": [1]}]}, "tags": "a, b"}\r\n',
            {"title": "T", "author": "Ada", "tags": ["a", "b"]},
            id="nested-crlf",
        ),
        pytest.param('{"title": 1.10, "tags": [007]}\n\n', TEXT, id="invalid-number"),
        pytest.param(
            '{"title": 1.10, "tags": [2024, true], "weight": 99999999999999999999}\n',
            {"title": "1.10", "tags": ["2024", "true"]},
            id="numbers",
        ),
        pytest.param('{"title": "T"}', {"title": "T"}, id="no-body"),
        pytest.param(
            '\ufeff{"title": "T", "aliases": ["U", null]}\n',
            {"title": "T", "aliases": ["U"]},
            id="byte-order-mark",
        ),
        pytest.param("{{title}}\n\n", TEXT, id="template"),
        pytest.param('{"title": "T",}\n\n', TEXT, id="trailing-comma"),
        pytest.param('{"title": "T"} is an object.\n\n', TEXT, id="prose-behind"),
        pytest.param(' {"title": "T"}\n\n', TEXT, id="not-first"),
        pytest.param('["title", "T"]\n\n', TEXT, id="list"),
        pytest.param('{"title": "T"}\n{"title": "U"}\n', TEXT, id="json-lines"),
        pytest.param('{"name": "x", "version": "1.0"}\n\n', TEXT, id="an-example"),
        pytest.param('{"title": "T", "x": ' + "[" * 500 + "]" * 500 + "}\n", TEXT, id="deep"),
        pytest.param('{"title": ' + "[" * 90_000 + "\n\n", TEXT, id="very-deep"),
        pytest.param('{"title": "T", "x": "' + "x" * 200_001 + '"}\n', TEXT, id="too-long"),
    ],
)
def test_json_front_matter_is_read(text: str, expected: Mapping[str, Any], tmp_path: Path) -> None:
    assert properties_of(tmp_path, text + BODY if text[-1] == "\n" else text) == expected


def test_json_front_matter_keeps_lines_and_hides_private_notes(tmp_path: Path) -> None:
    text = '{"title": "T",\n"related": [\n"[[a]]",\n"[[gone]]"\n]\n}\n\n# H\n\nEnd.\n'
    with library_of(tmp_path, text) as library:
        assert [(link.line, link.target) for link in library.broken().links] == [
            (3, "a"),
            (4, "gone"),
        ]
        (passage,) = library.query("end", limit=1).passages
        assert (passage.path, passage.text.split()) == ("two.md", ["#", "H", "End."])
    for key in ('"private": true', '"tags": ["private"]', '"taxonomies": {"tags": ["private"]}'):
        with library_of(tmp_path / key[1:4], f'{{"title": "T", {key}}}\n{BODY}') as library:
            assert [note.path for note in library.listing().notes] == ["other.md"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("---\ntitle: 2.20\n---\n", {"title": "2.20"}, id="trailing-zero"),
        pytest.param("---\ntitle: 0042\n---\n", {"title": "0042"}, id="leading-zeros"),
        pytest.param("---\ntitle: 1e3\n---\n", {"title": "1e3"}, id="exponent"),
        pytest.param("---\nauthor: +49\n---\n", {"title": "two", "author": "+49"}, id="plus"),
        pytest.param(
            "---\naliases: [0x1F, 1_000, .5, 5., -0, 12:30, 0o17]\n---\n",
            {"title": "two", "aliases": ["0x1F", "1_000", ".5", "5.", "-0", "12:30", "0o17"]},
            id="other-notations",
        ),
        pytest.param(
            "---\ntags:\n  - 2024\n  - 3.10\n  - 3.1\n  - 1.0\nkeywords: 08\n---\n",
            {"title": "two", "tags": ["2024", "3.10", "3.1", "1.0"], "keywords": ["08"]},
            id="lists",
        ),
        pytest.param(
            "---\ndescription: 123456789012345678901234567890\ncategory: 1.50\n---\n",
            {"title": "two", "description": "1234567890" * 3, "category": "1.50"},
            id="long",
        ),
        pytest.param(
            "---\ntitle: 7 # a number\nauthors:\n- name: 007\n---\n",
            {"title": "7", "author": "007"},
            id="comment-and-map",
        ),
        pytest.param("---\ntitle: true\ntags: [True]\n---\n", {"title": "true", "tags": ["True"]}),
        pytest.param(
            "+++\ntitle = 1.10\naliases = [2.50, 1e3]\nkeywords = 0x1F\nauthor = +49\n+++\n",
            {
                "title": "1.10",
                "aliases": ["2.50", "1e3"],
                "keywords": ["0x1F"],
                "author": "+49",
            },
            id="toml",
        ),
        pytest.param(
            "---\ntitle: 20240105\ndate: 20240105\n---\n",
            {"title": "20240105", "date": "2024-01-05"},
            id="day",
        ),
        pytest.param("---\ntitle: 1.10: a list\n---\n", {"title": "1.10: a list"}, id="wrong-line"),
        pytest.param("---\ntitle: null\nauthor: ~\n---\n", TEXT, id="nothing"),
    ],
)
def test_numbers_stay_as_written(text: str, expected: Mapping[str, Any], tmp_path: Path) -> None:
    assert properties_of(tmp_path, text + BODY) == expected


def test_number_as_title_is_found_as_written(tmp_path: Path) -> None:
    notes = {
        f"{n}.md": f"---\ntitle: {title}\n---\nText.\n"
        for n, title in enumerate(("1.10", "1.1", "007", "7"))
    }
    with open_library(write_notes(tmp_path / "notes", notes)) as library:
        library.index()
        for n, title in enumerate(("1.10", "1.1", "007", "7")):
            assert library.query(title).passages[0].path == f"{n}.md"


STORM = {"tags": ["sea", "wind"], "aliases": ["Gale, the"], "author": "Ada"}
REST = 'tags:\n  - sea\n  - wind\naliases: ["Gale, the"]\nauthor:\n  - name: Ada\n'


@pytest.mark.parametrize(
    ("line", "title"),
    [
        pytest.param("title: Storm: part two", "Storm: part two", id="colon"),
        pytest.param('title: "Storm', "Storm", id="unclosed-quote"),
        pytest.param("title: 'It's a storm'", "It's a storm", id="quote-inside"),
        pytest.param('title: "Storm" and rain', '"Storm" and rain', id="text-after-quote"),
        pytest.param("title: @storm", "@storm", id="at"),
        pytest.param("title: `storm`", "`storm`", id="backquote"),
        pytest.param("title:Storm", "Storm", id="no-space"),
        pytest.param("title: [Storm, rain", "[Storm, rain", id="unclosed-list"),
        pytest.param("title: %storm", "%storm", id="percent"),
        pytest.param("title: *storm*", "*storm*", id="asterisk"),
        pytest.param("title: {{title}}", "{{title}}", id="template"),
        pytest.param("title: {{date}} storm", "{{date}} storm", id="template-and-text"),
        pytest.param(
            'title: <% tp.file.title.split(": ")[1] %>',
            '<% tp.file.title.split(": ")[1] %>',
            id="templater",
        ),
        pytest.param("<%* const x = 1: 2 %>\ntitle: Storm", "Storm", id="templater-first"),
        pytest.param("title: Storm\nlevels:\n\t- one: [\n\t- two", "Storm", id="tabs"),
        pytest.param("title: Storm\nA sentence without a key", "Storm", id="no-key"),
        pytest.param("title: 暴風雨: 第二部", "暴風雨: 第二部", id="other-script"),
        pytest.param("title: Storm\n  subtitle: rain", "Storm", id="indented"),
        pytest.param("title: - storm", "- storm", id="dash"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_wrong_line_of_yaml_costs_that_line(
    line: str, title: str, is_first: bool, tmp_path: Path
) -> None:
    block = f"{line}\n{REST}" if is_first else f"{REST}{line}\n"
    assert properties_of(tmp_path, f"---\n{block}---\n{BODY}") == {"title": title, **STORM}


@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags: [#sea, #wind", ["sea", "wind"]),
        ("tags: #sea #wind/gale", ["sea", "wind/gale"]),
        ("tags:\n  - #sea\n  - #wind", ["sea", "wind"]),
        ("tags:\n\t- sea\n\t- wind", ["sea", "wind"]),
        ("tags:\n- sea\n - wind\n-gale", ["sea", "wind", "gale"]),
        ("tags:\n  - @home\n  - sea: deep\n  - wind", ["@home", "sea: deep", "wind"]),
        ("tags:[sea, wind]", ["sea", "wind"]),
        ("tags: 'sea, wind", ["sea", "wind"]),
        ("tags: {{tags}}", ["{{tags}}"]),
        ("tags: # a comment", []),
        ("tags:\n  - sea\n  # a comment: x\n  - wind\nx: @y", ["sea", "wind"]),
    ],
)
def test_tags_are_read_around_what_is_no_yaml(block: str, tags: list[str], tmp_path: Path) -> None:
    expected = {"title": "Storm", **({"tags": tags} if tags else {})}
    assert properties_of(tmp_path, f"---\ntitle: Storm\n{block}\n---\n{BODY}") == expected
    assert properties_of(tmp_path / "2", f"---\n{block}\ntitle: Storm\n---\n{BODY}") == expected


def test_each_wrong_line_is_reported(tmp_path: Path) -> None:
    block = 'title: Storm: two\nx: 1\ntags: [a, b\nauthor: "Ada\n'
    with library_of(tmp_path, f"---\n{block}---\n{BODY}") as library:
        (status,) = library.status()
        assert [(problem.path, problem.line) for problem in status.skipped] == [
            ("two.md", 2),
            ("two.md", 4),
            ("two.md", 5),
        ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '+++\ntitle = "Z"\n[taxonomies]\ntags = ["sea"]\ncategories = ["log", "diary"]\n+++\n',
            {"title": "Z", "tags": ["sea"], "category": "log, diary"},
            id="taxonomies",
        ),
        pytest.param(
            '+++\ntaxonomies.tags = ["sea"]\nextra = { author = "Ada" }\n+++\n',
            {"title": "two", "tags": ["sea"], "author": "Ada"},
            id="dotted-and-inline",
        ),
        pytest.param(
            "---\ntaxonomies:\n  tags: [sea]\n  authors:\n    - Ada\n    - Bob\n---\n",
            {"title": "two", "tags": ["sea"], "author": "Ada, Bob"},
            id="yaml",
        ),
        pytest.param(
            '+++\n[Taxonomies]\nTags = ["sea"]\n[extra]\nkeywords = ["a"]\n+++\n',
            {"title": "two", "tags": ["sea"], "keywords": ["a"]},
            id="capitals",
        ),
        pytest.param(
            '{"title": "Z", "taxonomies": {"tags": ["sea"]}}\n',
            {"title": "Z", "tags": ["sea"]},
            id="json",
        ),
        pytest.param(
            '+++\ntags = ["a"]\n[taxonomies]\ntags = ["b", "a"]\n+++\n',
            {"title": "two", "tags": ["a", "b"]},
            id="both",
        ),
        pytest.param(
            '+++\nauthors = ["Ada"]\n[extra]\nauthor = "Ada"\n+++\n',
            {"title": "two", "author": "Ada"},
            id="twice",
        ),
        pytest.param(
            '+++\ntitle = "Z"\n[taxonomies]\ntags = "sea wind"\n[extra]\ntitle = "no"\n+++\n',
            {"title": "Z", "tags": ["sea", "wind"]},
            id="text",
        ),
        pytest.param(
            '+++\n[menus.main]\ntags = ["no"]\n[extra.deep]\ntags = ["no"]\n+++\n',
            TEXT,
            id="elsewhere",
        ),
        pytest.param('+++\ntaxonomies = ["tags"]\nextra = 1\n+++\n', TEXT, id="no-tables"),
        pytest.param(
            '+++\ntitle = Storm\ndate = 2024-01-05\n[taxonomies]\ntags = ["sea"]\n+++\n',
            {"title": "Storm", "date": "2024-01-05", "tags": ["sea"]},
            id="wrong-line",
        ),
    ],
)
def test_taxonomies_of_zola_are_read(
    text: str, expected: Mapping[str, Any], tmp_path: Path
) -> None:
    assert properties_of(tmp_path, text + BODY) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "title:: Lamp keepers\nalias:: keepers, lamps\ntags:: sea, [[red tide]]\n\n- They\n",
            {
                "title": "Lamp keepers",
                "aliases": ["keepers", "lamps"],
                "tags": ["sea", "red tide"],
            },
            id="page",
        ),
        pytest.param(
            "- title:: Lamps\n  tags:: #sea #wind\n- They climb.\n",
            {"title": "Lamps", "tags": ["sea", "wind"]},
            id="first-item",
        ),
        pytest.param(
            "-\ttitle:: Lamps\n\ttags:: #[[red tide]], #sea\n\t- They climb.\n",
            {"title": "Lamps", "tags": ["red tide", "sea"]},
            id="tabs",
        ),
        pytest.param(
            "alias:: [[Lamp]], [[Light, the]]\ndate:: [[Jan 5th, 2024]]\n- They\n",
            {"title": "two", "aliases": ["Lamp", "Light, the"], "date": "2024-01-05"},
            id="links",
        ),
        pytest.param(
            "\n\ntitle:: 灯台: 一\nicon::\nauthor:: Ada\ndescription:: Of lamps\n",
            {"title": "灯台: 一", "author": "Ada", "description": "Of lamps"},
            id="blank-lines-and-empty",
        ),
        pytest.param("title:: 1.10\nversion:: 007\n", {"title": "1.10"}, id="numbers"),
        pytest.param(
            "Title:: Lamps\n## Part\n\ntags:: no\n", {"title": "Lamps"}, id="until-heading"
        ),
        pytest.param("They climb.\n\ntags:: no\n", TEXT, id="below-text"),
        pytest.param("title:: Lamps\nThey climb the stairs.\n", TEXT, id="prose-in-paragraph"),
        pytest.param("tags :: no\n", TEXT, id="space-before"),
        pytest.param("f :: Int -> Int\nf x = x\n", TEXT, id="haskell"),
        pytest.param("std::vector and tags::x\n", TEXT, id="cpp"),
        pytest.param("- std::vector\n- tags::x\n", TEXT, id="cpp-list"),
        pytest.param("# Lamps\n\ntags:: no\n", {"title": "Lamps"}, id="below-heading"),
        pytest.param("```\ntags:: no\n```\n", TEXT, id="code"),
        pytest.param("- They climb.\n- tags:: no\n", TEXT, id="second-item"),
        pytest.param("Use (tags:: no) in a line, or [tags:: no].\n", TEXT, id="dataview-inline"),
    ],
)
def test_properties_of_logseq_are_read(
    text: str, expected: Mapping[str, Any], tmp_path: Path
) -> None:
    assert properties_of(tmp_path, text) == expected


def test_properties_of_logseq_stay_text(tmp_path: Path) -> None:
    with library_of(tmp_path, "title:: Lamps\nsource:: zebra paper\n\n- They climb.\n") as library:
        assert library.query("zebra paper").passages[0].path == "two.md"
    for line in ("private:: true", "tags:: sea, private", "tags:: [[private]]", "x:: #[[private]]"):
        with library_of(tmp_path / line[-9:], f"title:: T\n{line}\n\n- x\n") as library:
            assert [note.path for note in library.listing().notes] == ["other.md"]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("They #[[red tide]] climb #sea.", ["sea", "red tide"]),
        ("- #[[紅 潮]] x", ["紅 潮"]),
        ("(#[[a b|c]])", ["a b"]),
        ("[[red tide]] and x#[[no]] and `#[[no]]`", []),
        ("# [[red tide]]", []),
    ],
)
def test_tags_of_several_words_are_read(text: str, tags: list[str], tmp_path: Path) -> None:
    assert properties_of(tmp_path, f"{text}\n").get("tags", []) == tags
