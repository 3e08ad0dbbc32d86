"""Every part of a line that is longer than a reply of `read` can be read, and a cut says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from folders import open_library, write_notes
from schemas import checked
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.mcp.query_reply import Reply
from thumbindex.mcp.replies import reply_read
from thumbindex.mcp.tools import check_arguments


def minutes(speaker: str = "speaker") -> str:
    return " ".join(
        f"Minute {n}: the {speaker} number {n} talks about topic{n} and its costs."
        for n in range(300)
    )


MINUTES = minutes()
MIDDLE = MINUTES.index("Minute 150:")
CHARACTERS = {
    "accents": "e\u0301\u0323",
    "family": "👩\u200d👩\u200d👧\u200d👦",
}
LONG = {name: character * 3_000 for name, character in CHARACTERS.items()} | {
    "words": MINUTES,
    "item": f"- {minutes('host')}",
    "quote": f"> {minutes('guest')}",
    "table row": "| " + " | ".join(f"cell {n}" for n in range(3_000)) + " |",
    "no spaces": "x".join(f"{n:05}" for n in range(3_000)),
    "Chinese": "世界の言葉を、" * 2_000,
    "only accents": "x" + "\u0301" * 8_000,
    "signs that JSON escapes": '\\"' * 6_000,
    "comment": minutes("mayor").replace("topic150", f"<!-- secret {'x' * 500} -->topic150"),
    "data": f"![x](data:image/png;base64,{'iVBORw0KGgo' * 900}) {minutes('pilot')}",
}
NOTES = {f"{name}.md": f"# Talk\n\n{line}\n\nEnd of {name}.\n" for name, line in LONG.items()} | {
    "code.md": f"# Code\n\n```\n{minutes('coder')} <!-- shown -->\n```\n",
    "front matter.md": f"---\ntitle: Talk\nabout: {MINUTES}\n---\n\n{MINUTES}\n",
    "Windows.md": f"# Talk\r\n\r\n{MINUTES}\r\n\r\nEnd.\r\n",
    "one line.md": MINUTES,
    "twice.md": f"{MINUTES}\nshort\n{MINUTES[::-1]}",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = write_notes(tmp_path_factory.mktemp("talks") / "notes", NOTES)
    with open_library(folder, overrides=("serve.read_tokens=1000",)) as opened:
        opened.index(complete=False)
        yield opened


def read(library: Library, path: str | list[str], **arguments: Any) -> Reply:
    return reply_read(library, check_arguments("read", {"path": path, **arguments}))


def part(library: Library, path: str, **arguments: Any) -> Mapping[str, Any]:
    return read(library, path, **arguments).structured


def read_on(library: Library, path: str) -> Iterator[Mapping[str, Any]]:
    """Read a note, then what is left, until nothing is left."""
    yield (shown := part(library, path))
    while rest := shown.get("rest"):
        lines = f"{rest['start_line']}-{rest['end_line']}"
        yield (shown := part(library, path, lines=lines))


@pytest.mark.parametrize("path", NOTES)
def test_parts_are_the_whole_note(library: Library, path: str) -> None:
    parts = list(read_on(library, path))
    text = parts[0]["text"]
    for before, after in pairwise(parts):
        inside = after.get("start_character", 0)
        assert after["start_line"] == before["end_line"] + (not inside)
        text += after["text"] if inside else f"\n{after['text']}"
        if inside:
            assert after["text"].startswith(CHARACTERS.get(path.removesuffix(".md"), ""))
    assert text == library.read(path).text
    assert 1 < len(parts) < 60


def test_cut_is_between_words_and_says_how_to_read_on(library: Library) -> None:
    first = read(library, "words.md")
    text = first.structured["text"].removeprefix("# Talk\n\n")
    at = len(text) + 1
    assert MINUTES.startswith(text)
    assert text.endswith(" ")
    assert first.structured["rest"] == {"start_line": f"3:{at}", "end_line": 5}
    assert first.text.startswith("words.md (lines 1-3 of 5)\n")
    assert first.text.endswith(f"\n\n(line 3 is cut here: continue with lines 3:{at}-5)")
    second = read(library, "words.md", lines=f"3:{at}-3")
    assert second.text.startswith(f"words.md (line 3 from character {at} of 5)\n")
    assert second.structured["start_character"] == at
    end = second.structured["rest"]["start_line"]
    assert second.text.endswith(f"\n\n(line 3 is cut here: continue with line {end})")


def test_line_that_fits_into_the_next_reply_is_not_cut(library: Library, tmp_path: Path) -> None:
    line = MINUTES[:3_000]
    folder = write_notes(tmp_path / "notes", {"a.md": "\n".join([line] * 3)})
    with open_library(folder, overrides=("serve.read_tokens=1000",)) as opened:
        opened.index(complete=False)
        reply = read(opened, "a.md")
    assert reply.structured["text"] == line
    assert reply.structured["rest"] == {"start_line": 2, "end_line": 3}
    assert reply.text.endswith("\n\n(cut here: continue with lines 2-3)")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("5:1", "End of words."),
        ("5:8", "words."),
        ("5:8-5", "words."),
        ("5:8 – 9", "words."),
        ("4:1-5", "\nEnd of words."),
        ("5:13", "."),
    ],
)
def test_lines_may_begin_at_a_character(library: Library, lines: str, text: str) -> None:
    assert part(library, "words.md", lines=lines)["text"] == text


@pytest.mark.parametrize(
    "lines", ["5:14", "4:2", "5:0", "0:1", "5:-5", "-5:1", ":3", "5:", "5:x", "5:1-5:3", "5:2-4"]
)
def test_wrong_character_is_an_error(library: Library, lines: str) -> None:
    with pytest.raises(UsageError, match=r"has 1?[03] characters|`lines`"):
        part(library, "words.md", lines=lines)


@pytest.mark.parametrize("path", ["words.md", "item.md", "quote.md", "comment.md", "data.md"])
def test_passage_in_a_line_is_shown_itself(library: Library, path: str) -> None:
    text = library.read(path).text.split("\n")[2]
    for topic in ("topic3", "topic149", "topic151", "topic299"):
        answer = library.query(topic, path=[path])
        digest = answer.passages[0].address.partition("is=")[2][:8]
        for place in (f"id {digest}", answer.passages[0].address):
            shown = part(library, place)
            assert f"about {topic} and" in shown["text"]
            assert "rest" in shown or topic == "topic299"
            if topic != "topic3":
                start = shown["start_character"]
                assert text[start - 1 :].startswith(shown["text"].split("\n")[0])
                assert "topic3 " not in shown["text"]
            assert library.read(place).text.startswith(shown["text"])


def test_passage_of_whole_lines_is_shown_with_its_comments(tmp_path: Path) -> None:
    text = "- [ ] one <!-- x -->\n\nTwo %%\nhidden\n%% lines. <!-- y -->"
    folder = write_notes(tmp_path / "notes", {"a.md": f"{text}\n"})
    with open_library(folder) as opened:
        opened.index(complete=False)
        address = opened.query("two lines").passages[0].address
        assert opened.read(address) == opened.read("a.md")


def test_column_in_a_citation_counts_in_long_lines(library: Library) -> None:
    for place in (f"words.md:3:{MIDDLE + 1}", f"words.md:3:{MIDDLE + 1}-5"):
        assert part(library, place)["text"].startswith("Minute 150:")
    for place in ("words.md:5:8", "words.md:5:99"):  # as editors write a place in a line
        assert part(library, place)["text"] == "End of words."
    assert part(library, "words.md:3:999999")["text"].startswith("Minute 0:")


def test_several_notes_share_the_budget(library: Library) -> None:
    item = f"item.md:3:{LONG['item'].index('Minute 150:') + 1}-5"
    paths = ["words.md:5", "words.md:3", item, "twice.md#L2"]
    several = read(library, paths)
    shown = several.structured["notes"][1]
    rest = shown["rest"]["start_line"]
    assert rest == f"3:{len(shown['text']) + 1}"
    assert f"(line 3 is cut here: continue with line {rest})" in several.text
    assert several.structured["left_out"] == [item, "twice.md:2-2"]
    assert part(library, item)["text"].startswith("Minute 150:")


def test_two_passages_in_one_line_are_both_read(library: Library) -> None:
    topics = ("topic20", "topic280")
    ids = [library.query(topic, path=["words.md"]).passages[0].address for topic in topics]
    notes = read(library, ids).structured["notes"]
    assert [topic in note["text"] for topic, note in zip(topics, notes, strict=True)] == [True] * 2


def test_terminal_shows_a_whole_line_or_a_part(
    tmp_path: Path, run_in: Callable[..., Result]
) -> None:
    folder = write_notes(tmp_path / "notes", {"words.md": NOTES["words.md"]})
    assert run_in(folder, "read", "words.md").stdout.endswith(f"\n\n{NOTES['words.md']}")
    lines = f"3:{MIDDLE + 1}-4"
    head = f"words.md (lines 3-4 from character {MIDDLE + 1} of 5)"
    assert run_in(folder, "read", f"words.md:{lines}").stdout == (
        f"{head}\n\n{MINUTES[MIDDLE:]}\n\n"
    )
    passage = checked(run_in(folder, "query", "topic150", "--json"), "query")["results"][0]
    shown = checked(run_in(folder, "read", passage["address"], "--json"), "read")
    rest = shown["rest"]["start_line"]
    assert run_in(folder, "read", passage["address"]).stdout.endswith(
        f"{shown['text']}\n(line 3 is cut here: continue with line {rest})\n"
    )
