"""Words, numbers and signs as they are written: quotes, apostrophes, separators and emoji."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from folders import open_library, write_notes
from thumbindex.library import Library
from thumbindex.ports import Embedder

OTHERS = {
    "zz/beds.md": "# Beds\n\nThe geese pond lies behind the tomatoes. Weeding is done at noon.",
    "zz/bike.md": "# Bike\n\nNew tires and a chain, 40 euros at the corner.",
    "zz/rent.md": "# Rent\n\nPaid on the 3rd of each month by standing order.",
    "zz/soup.md": "# Soup\n\nLeeks, cream and salt. Feeding six takes half an hour.",
}

Open = Callable[[Mapping[str, str]], Library]


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, real_embedder: Embedder) -> Iterator[Open]:
    """Return a function that indexes notes, once per set of notes."""
    opened: dict[int, Library] = {}

    def open_notes(notes: Mapping[str, str]) -> Library:
        if id(notes) not in opened:
            root = tmp_path_factory.mktemp("exact") / "vault"
            opened[id(notes)] = open_library(
                write_notes(root, {**OTHERS, **notes}), embedder=real_embedder
            )
            opened[id(notes)].index()
        return opened[id(notes)]

    yield open_notes
    for library in opened.values():
        library.close()


def first(library: Library, query: str) -> str:
    """Return the name of the first note of an answer with high confidence, or ""."""
    answer = library.query(query)
    if not answer.passages or answer.confidence_level == "low":
        return ""
    return answer.passages[0].path.removesuffix(".md")


# ------------------------------------------------------------------ names

NAMES = {
    "net.md": "# net\n\nThe fishing net has a hole.",
    "help.md": "# help\n\nAsk the neighbors for a hand.",
    "home.md": "# home\n\nThe house by the lake.",
    "env.md": "# env\n\nThe mood at the office.",
    "path.md": "# path\n\nGravel, from the gate to the shed.",
    "assemblies.md": "# .NET notes\n\nAssemblies.",
    "film.md": "# ... and justice\n\nA film.",
    "@anna.md": "# @anna\n\nShe sings.",
    "¿Qué tal.md": "# ¿Qué tal?\n\nA greeting.",
    "🚀 Launch.md": "# 🚀 Launch\n\nIt went well.",
}


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (".NET", None),
        ("--help", None),
        ("-help", None),
        ("$HOME", None),
        (".env", None),
        ("%PATH%", None),
        (".net notes", "assemblies"),
        ("net notes", None),
        ("net", "net"),
        ("net.md", "net"),
        ("./net.md", "net"),
        ("HOME", "home"),
        ("and justice", "film"),
        ("anna", "@anna"),
        ("que tal", "¿Qué tal"),
        ("launch", "🚀 Launch"),
    ],
)
def test_signs_before_a_name_are_part_of_it(vault: Open, typed: str, name: str | None) -> None:
    answer = vault(NAMES).query(typed, explain=True)
    named = [
        passage.path
        for passage in answer.passages
        if passage.explanation and passage.explanation.name_kind
    ]
    assert named == ([] if name is None else [f"{name}.md"])
