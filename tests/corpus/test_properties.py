"""The properties of a note, in each form that programs write."""

from __future__ import annotations

import pytest

from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "---\nStatus: doing\nrating: 4.50\ndone: true\ndue:\nauthors: [Ada L, Bo]\n"
            "book:\n  ISBN: 007\nsee: [[notes/Alpha|a]]\n---\n",
            {
                "status": ("doing",),
                "rating": ("4.50",),
                "done": ("true",),
                "authors": ("Ada L", "Bo"),
                "book.isbn": ("007",),
                "see": ("[[notes/Alpha|a]]",),
            },
            id="yaml",
        ),
        pytest.param(
            "+++\nrating = 4\ndue = 2026-12-01\ndone = false\n[extra]\nlevels = [1, 2.5]\n+++\n",
            {
                "rating": ("4",),
                "due": ("2026-12-01",),
                "done": ("false",),
                "extra.levels": ("1", "2.5"),
            },
            id="toml",
        ),
        pytest.param(
            "+++\nstatus = 'doing'\nbroken = [\n+++\n",
            {"status": ("doing",), "broken": ("[",)},
            id="broken-toml",
        ),
        pytest.param(
            '{"title": "T", "weight": 3, "draft": true}\n\nText.\n',
            {"title": ("T",), "weight": ("3",), "draft": ("true",)},
            id="json",
        ),
        pytest.param(
            "tags:: a, [[b c]]\nstatus:: doing\n\n- Text\n  id:: 64f0\n  rating:: 4\n",
            {"tags": ("[[b c]]",), "status": ("doing",), "rating": ("4",)},
            id="logseq",
        ),
        pytest.param(
            "# A\n\n> author:: [[Ada]] and [[Bo|B.]]\n\n- [ ] due:: 2026-12-01\n**Two Words**:: x\n"
            'Next:: "quoted"\n\n1. **Cost::** 12\n',
            {
                "author": ("[[Ada]]", "[[Bo|B.]]"),
                "due": ("2026-12-01",),
                "two words": ("x",),
                "next": ("quoted",),
                "cost": ("12",),
            },
            id="dataview-lines",
        ),
        pytest.param(
            "Buy milk [due:: [[2026-12-01]]] for (price:: 3) or [price:: 4] with `[not:: a]`.\n",
            {"due": ("[[2026-12-01]]",), "price": ("3", "4")},
            id="dataview-in-prose",
        ),
        pytest.param(
            "Call std::vector and a::b.\n`x:: y` is code. [[c:: d]]\n<!-- e:: f -->\n%% g:: h %%"
            "\n\n```\ni:: j\n```\n\n    k:: l\n\n- m\n\n  ```\n  n:: o\n  ```\n",
            {},
            id="code-and-comments",
        ),
        pytest.param(
            f"---\nlist: [{', '.join(map(str, range(1_100)))}]\n---\nlong:: {'x' * 900}\n",
            {"list": tuple(map(str, range(1_000)))},
            id="at-most-1000-values",
        ),
        pytest.param(f"long:: {'x' * 900}\n", {"long": ("x" * 500,)}, id="at-most-500-characters"),
    ],
)
def test_properties_are_read(text: str, expected: dict[str, tuple[str, ...]]) -> None:
    document = parse_document("a.md", text.encode(), CorpusSettings()).document
    assert document.properties == expected
