"""The limits in docs/reference/protocol.md are exact: one more is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.markdown import Block, parse_markdown
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.read import read_bytes
from thumbindex.errors import UsageError
from thumbindex.mcp.resources import parse_uri
from thumbindex.mcp.tools import check_arguments
from thumbindex.query.expansion import split_compounds
from thumbindex.settings import CorpusSettings


def count_links(text: str) -> int:
    return len(parse_document("a.md", text.encode(), CorpusSettings()).links)


def count_tags(text: str) -> int:
    return len(parse_document("a.md", text.encode(), CorpusSettings()).document.tags)


def is_within_limits(text: str) -> bool:
    return parse_markdown(text).limits == ()


def is_valid_block(block: str) -> bool:
    return read_front_matter("a.md", f"---\n{block}\n---\n").problems == ()


def is_valid_query(**arguments: Any) -> bool:
    with suppress(UsageError):
        return bool(check_arguments("query", {"query": "x", **arguments}))
    return False


def is_valid_address(length: int) -> bool:
    with suppress(UsageError):
        return bool(parse_uri("thumbindex://vault/".ljust(length, "a")))
    return False


class TwoWords:
    """A keyword index with no compound words, but with all their halves."""

    def chunks_with_all_words(self, word: str, fields: object) -> bool:
        return False

    def chunk_frequency(self, term: str) -> int:
        return 0

    def phrase_frequency(self, phrase: str) -> bool:
        return phrase.endswith(" note")


def is_split(length: int) -> bool:
    word = "a" * (length - 4) + "note"
    return bool(list(split_compounds(word, [[word]], TwoWords())))


def depth_of(block: Block) -> int:
    return 1 + max(map(depth_of, block.children), default=0)


LIMITS: dict[str, tuple[int, Callable[[int], bool]]] = {
    "characters of front matter": (
        200_000,
        lambda size: is_valid_block("x: ".ljust(size - 1, "y")),
    ),
    "values of front matter": (
        20_000,
        lambda count: is_valid_block(f"x: [{','.join('1' * (count - 3))}]"),
    ),
    "levels of front matter": (
        20,
        lambda depth: is_valid_block(f"x: {'[' * (depth - 1)}{']' * (depth - 1)}"),
    ),
    "brackets in a paragraph": (800, lambda count: count_links("[ " * (count - 2) + "[[b]]") == 1),
    "characters of a heading": (
        5_000,
        lambda size: len(parse_markdown(f"# {'h' * size}\n").regions[-1].heading) == size,
    ),
    "lines of a note": (200_000, lambda count: is_within_limits("\n" * (count - 1) + "a")),
    "vertical bars of a note": (200_000, lambda count: is_within_limits("|" * count)),
    "headings of a note": (20_000, lambda count: is_within_limits("# a\n" * count)),
    "links of a note": (10_000, lambda count: count_links("[[b]]\n\n" * count) == count),
    "tags of a note": (
        10_000,
        lambda count: count_tags("".join(f"#t{n}\n" for n in range(count))) == count,
    ),
    "characters of a question": (10_000, lambda size: is_valid_query(query="x" * size)),
    "letters of a word that is split": (60, is_split),
    "characters of another argument": (4_096, lambda size: is_valid_query(why="x" * size)),
    "values of an argument": (100, lambda count: is_valid_query(path=["x"] * count)),
    "characters of an address": (16_384, is_valid_address),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit_is_exact(name: str) -> None:
    limit, is_accepted = LIMITS[name]
    assert (is_accepted(limit), is_accepted(limit + 1)) == (True, False)


def test_front_matter_aliases_count_at_each_use() -> None:
    assert [
        is_valid_block(f"a: &a [{','.join('1' * 97)}]\nb: [{','.join(['*a'] * count)}]")
        for count in (200, 210)
    ] == [True, False]


def test_file_is_read_up_to_size_limit(tmp_path: Path) -> None:
    limit = CorpusSettings().max_file_bytes
    assert limit == 10_000_000
    for size in (limit, limit + 1):
        with (tmp_path / "a.md").open("wb") as file:
            file.truncate(size)
        assert isinstance(read_bytes(tmp_path, "a.md", CorpusSettings()), bytes) == (size == limit)


def test_blocks_nest_at_most_forty_deep() -> None:
    depths = [
        depth_of(parse_markdown("> " * count + "deep\n").regions[0].body) for count in (10, 1000)
    ]
    assert depths == [12, 41]  # including the root and a paragraph
