"""`broken` says why a link is broken, and lists nothing that exists; to others than the notes'
owner, a private target is a missing one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import open_library
from thumbindex.library import Library
from thumbindex.model import BrokenLink


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def reasons(library: Library, *, for_owner: bool = False) -> list[tuple[str, str]]:
    library.index(complete=False)
    return [(link.written, link.reason) for link in library.broken(for_owner=for_owner).links]


@pytest.mark.parametrize(
    ("file", "link"),
    [
        ("src/main.rs2", "[x](src/)"),
        ("src/main.rs2", "[x](src)"),
        ("LICENSE", "[x](LICENSE)"),
        ("Makefile", "[x](../Makefile)"),
        ("Makefile", "[x](/Makefile#L5)"),
        ("docs/Dockerfile", "[x](./Dockerfile)"),
        ("docs/two words", "[x](<two words>) [y](two%20words)"),
        ("docs/größe.drawio", "[x](größe.drawio)"),
        ("a b/.env.example", "[x](../a%20b/.env.example)"),
        ("data.edn", "[x](..\\\\data.edn)"),
        ("web/docs/x.mdoc", "[x](/docs/)"),
        ("docs/src/Foo", "[x](@site/docs/src/Foo)"),
        ("x", "[x](..)"),
    ],
)
def test_file_or_directory_is_not_broken(tmp_path: Path, file: str, link: str) -> None:
    write(tmp_path / "vault/docs/a.md", f"# A\n\n{link} [gone](gone.md) [too](gone)\n")
    write(tmp_path / "vault" / file)
    with open_library(tmp_path / "vault") as library:
        expected = [("[gone](gone.md)", "missing note"), ("[too](gone)", "missing note")]
        assert reasons(library) == expected
        assert library.related("docs/a.md").dangling == ("gone", "gone.md")


@pytest.mark.parametrize(
    "link",
    [
        "[x](../secret)",
        "[x](../vault/../secret)",
        "[x](/../secret)",
        "[x](../outside/)",
        "[x](out/secret)",
        "[x](out)",
        "[x](%00)",
        "[x](" + "y" * 3000 + ")",
        "[[docs]]",
        "[x](docs/a%00)",
        "[x](/etc/hosts)",
    ],
)
def test_nothing_outside_the_folder_is_looked_at(tmp_path: Path, link: str) -> None:
    write(tmp_path / "secret")
    write(tmp_path / "outside/secret")
    write(tmp_path / "vault/a.md", link)
    write(tmp_path / "vault/docs/pic.x")
    (tmp_path / "vault/out").symlink_to(tmp_path / "outside")
    with open_library(tmp_path / "vault") as library:
        assert [reason for _, reason in reasons(library)] == ["missing note"]


PRIVATE = [
    ("---\nprivate: true\n---\nx", "b.md", "[x](b.md) [[b]] [y](/b) [z](./b.html)"),
    ("Text #private", "people/Anna.md", "[[Anna]] [[people/Anna]] [x](people/Anna.md) ![[anna]]"),
    ("x", "journal/2024.md", "[[2024]] [x](journal/2024.md) [y](journal/2024) [z](journal/)"),
    ("x", "journal/data.edn", "[x](journal/data.edn) [y](journal) [z](./journal/)"),
    ("x", "journal/deep/er/a", "[x](journal/deep/) [y](journal/deep/er/a)"),
    ("#private", "c/_index.md", "[x](/c/_index.md) [y](c/_index)"),
    ("#private", "Größe.md", "[[größe]] [x](Gr%C3%B6%C3%9Fe.md)"),
    ("---\nprivate: true\n---\nx", "Node.js.md", "[[Node.js]] [x](Node.js) [y](Node.js.md)"),
    ("#private", "x.mdx", '[x](x.mdx) [y]({{< ref "x" >}}) [z]({% link x.mdx %})'),
]


@pytest.mark.parametrize(("text", "path", "links"), PRIVATE)
def test_private_target_looks_like_a_missing_one(
    tmp_path: Path, text: str, path: str, links: str
) -> None:
    vault = tmp_path / "vault"
    globs = 'corpus.private.globs=["journal/**"]'

    def seen(library: Library) -> tuple[tuple[BrokenLink, ...], tuple[str, ...]]:
        return library.broken().links, library.related("a.md").dangling

    write(vault / "a.md", f"# A\n\n{links}\n")
    with open_library(vault, overrides=[globs]) as library:
        library.index(complete=False)
        missing = seen(library)
        write(vault / path, text)
        assert seen(library) == missing
        library.index(complete=False)
        assert seen(library) == missing


def test_public_note_that_becomes_private_looks_missing_at_once(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write(vault / "a.md", "[[b]] [x](b.md) [[Node.js]]")
    with open_library(vault) as library:
        missing = reasons(library)
        for name in ("b.md", "Node.js.md"):
            write(vault / name)
        assert reasons(library) == []
        for name in ("b.md", "Node.js.md"):
            write(vault / name, "#private")
        assert [(link.written, link.reason) for link in library.broken().links] == missing


@pytest.mark.parametrize(("text", "path", "links"), PRIVATE)
def test_owner_learns_which_target_is_private(
    tmp_path: Path, text: str, path: str, links: str
) -> None:
    vault = tmp_path / "vault"
    write(vault / "a.md", f"# A\n\n{links}\n\n[[gone]]\n")
    write(vault / path, text)
    with open_library(vault, overrides=['corpus.private.globs=["journal/**"]']) as library:
        broken = dict(reasons(library, for_owner=True))
    assert broken.pop("[[gone]]") == "missing note"
    is_note = path.endswith((".md", ".mdx"))
    of_note = {link: reason for link, reason in broken.items() if not link.endswith("/)")}
    assert set(of_note.values()) == {"private note" if is_note else "missing note"}


def test_link_to_a_missing_heading_or_block_is_broken(tmp_path: Path) -> None:
    there = "[[b#Tea]] [[b#^x1]] [x](b.md#green-tea) [y](b.md#L2) [[#Here]] [[b#Tea#Green tea]]"
    write(tmp_path / "a.md", f"# Here\n\n{there}\n\n[[b#Milk]] [x](b.md#milk) ![[b#^x2]] [[#No]]\n")
    write(tmp_path / "b.md", "# Tea\n\n## Green tea\n\nBrew it. ^x1\n")
    with open_library(tmp_path) as library:
        assert reasons(library) == [
            ("[[b#Milk]]", "missing heading"),
            ("[x](b.md#milk)", "missing heading"),
            ("![[b#^x2]]", "missing block"),
            ("[[#No]]", "missing heading"),
        ]
        write(tmp_path / "b.md", "#private")
        assert {reason for link, reason in reasons(library) if "b" in link} == {"missing note"}
