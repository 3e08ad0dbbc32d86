"""Color code: adapter for Pygments."""

from __future__ import annotations

import time
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pygments.lexer import Lexer

MAX_HIGHLIGHTED_CHARS = 20_000
"""Maximum characters of a block that are colored."""

_MAX_LINE_CHARS = 500
"""Blocks with a longer line are not colored: some lexers take quadratic time for a line."""

_MAX_SECONDS = 0.25
"""Maximum processor time for a block; then it is not colored."""

_LANGUAGES = frozenset(
    "bash c c++ console cpp cs csharp css dart diff docker dockerfile go graphql hcl html ini java "
    "javascript js json json5 jsonc jsx kotlin less lua make makefile nginx objective-c php "
    "powershell ps1 py python r rb ruby rust rs scala scss sh shell sql svelte swift terraform "
    "toml ts tsx typescript vue xml yaml yml zsh".split()
)
"""Languages that are colored. Lexers of rarer ones are less tested, and may be slow."""

_ALIASES = {"jsonc": "json5", "svelte": "html", "vue": "html", "tsx": "ts", "ps1": "powershell"}

_CLASSES = (
    ("Comment", "c"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Tag", "k"),
    ("Literal.String", "s"),
    ("Literal.Number", "m"),
    ("Literal.Date", "m"),
    ("Name.Function", "f"),
    ("Name.Class", "f"),
    ("Name.Decorator", "f"),
    ("Name.Attribute", "f"),
    ("Name.Builtin", "f"),
    ("Generic.Deleted", "gd"),
    ("Generic.Inserted", "gi"),
    ("Generic.Heading", "k"),
    ("Generic.Subheading", "k"),
    ("Generic.Prompt", "c"),
)
"""Types of tokens, and the class of each."""


def highlight(code: str, language: str, show: Callable[[str], str] = escape) -> str | None:
    """Return code as HTML with a class for each kind of token; None if it cannot be colored.

    `show` turns text without a line feed into HTML. No element contains a line feed.
    """
    if language not in _LANGUAGES or len(code) > MAX_HIGHLIGHTED_CHARS:
        return None
    if max(map(len, code.split("\n"))) > _MAX_LINE_CHARS:
        return None
    lexer, end = _lexer(language), time.thread_time() + _MAX_SECONDS
    pieces: list[tuple[str, str]] = []
    for kind, value in lexer.get_tokens(code):
        pieces.append((str(kind)[6:], value))
        if time.thread_time() > end:
            return None
    if "".join(value for _, value in pieces) != code:  # Pygments changes line ends
        return None
    return "".join(
        "\n".join(_element(_class_of(kind), part, show) for part in value.split("\n"))
        for kind, value in pieces
    )


@lru_cache
def _lexer(language: str) -> Lexer:
    # imported here, because most notes have no code
    from pygments.lexers import get_lexer_by_name

    name = _ALIASES.get(language, language)
    lexer: Lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    return lexer


@lru_cache(maxsize=512)
def _class_of(kind: str) -> str:
    return next((name for start, name in _CLASSES if kind.startswith(start)), "")


def _element(name: str, text: str, show: Callable[[str], str]) -> str:
    return f'<span class="hl-{name}">{show(text)}</span>' if name and text else show(text)
