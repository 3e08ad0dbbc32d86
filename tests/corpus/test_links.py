import unicodedata

import pytest

from thumbindex.corpus.links import LinkResolver
from thumbindex.model import Document, Link, LinkKind

W, M = LinkKind.WIKILINK, LinkKind.MARKDOWN

PATHS = (
    *(
        "Home.md",
        "a/Note.md",
        "a/b/Note.md",
        "c/Note.md",
        "c/Only.markdown",
        "Release 1.2.md",
        "docs/guide/index.md",
        "docs/api.md",
        "x/api.md",
    ),
    unicodedata.normalize("NFD", "Café.md"),
)
RESOLVER = LinkResolver.of(
    Document(
        path, f"Title of {path}", aliases=("Nickname", "How to/Do it") if path == "Home.md" else ()
    )
    for path in PATHS
)


def resolve(target: str, source: str = "Home.md", kind: LinkKind = W) -> str | None:
    return RESOLVER.resolve(Link(kind, target, "", "", 1), source)


@pytest.mark.parametrize(
    ("target", "source", "path"),
    [
        ("a/Note", "Home.md", "a/Note.md"),
        ("a/note.md", "Home.md", "a/Note.md"),
        ("Only", "Home.md", "c/Only.markdown"),
        ("Note", "a/x.md", "a/Note.md"),
        ("Note", "c/d/x.md", "c/Note.md"),
        ("Note", "Home.md", "a/Note.md"),
        ("../Home", "a/x.md", "Home.md"),
        ("Release 1.2", "Home.md", "Release 1.2.md"),
        ("Caf\u00e9", "Home.md", PATHS[-1]),
        ("nickname", "c/Note.md", "Home.md"),
        ("Title of docs/api.md", "Home.md", "docs/api.md"),
        ("", "c/Note.md", "c/Note.md"),
        ("Nowhere", "Home.md", None),
    ],
)
def test_wikilinks_resolve_as_in_obsidian(target: str, source: str, path: str | None) -> None:
    assert resolve(target, source) == path


@pytest.mark.parametrize(
    ("target", "source", "path"),
    [
        ("api.md", "x/y.md", "x/api.md"),
        ("../docs/api.md", "x/api.md", "docs/api.md"),
        ("docs/api.md", "x/api.md", "docs/api.md"),
        ("/docs/api", "x/api.md", "docs/api.md"),
        ("api.html", "docs/x.md", "docs/api.md"),
        ("guide/", "docs/api.md", "docs/guide/index.md"),
        ("../../../etc/passwd", "docs/api.md", None),
        ("Title of docs/api.md", "Home.md", None),
    ],
)
def test_markdown_links_resolve_from_their_own_folder(
    target: str, source: str, path: str | None
) -> None:
    assert resolve(target, source, M) == path


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/Guides/a/Note", "a/Note.md"),
        ("/guides/Guides/Note", None),
        ("/Guides/../../x", None),
        ("Guides/c/Only", None),
        ("/docs/api", "docs/api.md"),
    ],
)
def test_site_link_may_begin_with_the_folder_name(target: str, path: str | None) -> None:
    resolver = LinkResolver.of((Document(name, "t") for name in PATHS), "Guides")
    assert resolver.resolve(Link(M, target, "", "", 1), "x/api.md") == path
