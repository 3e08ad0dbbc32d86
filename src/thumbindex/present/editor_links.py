"""Links that open a note at its line or heading in a program on the same machine."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from thumbindex.config import obsidian_vault


def vscode_link(path: Path, line: int) -> str:
    """Return the link that opens a file at a line in VS Code."""
    return f"vscode://file/{quote(os.fsencode(path.as_posix().lstrip('/')), safe='/:')}:{line}"


def obsidian_link(path: Path, heading: str) -> str:
    """Return the link that opens a note at a heading in Obsidian; empty if it is not in a vault."""
    vault = obsidian_vault(path)
    if vault is None:
        return ""
    file = path.relative_to(vault).as_posix().removesuffix(".md") + (
        f"#{heading}" if heading else ""
    )
    vault_name = quote(os.fsencode(vault.name), safe="")
    return f"obsidian://open?vault={vault_name}&file={quote(os.fsencode(file), safe='')}"


def available_links(path: Path, heading: str, line: int) -> list[tuple[str, str]]:
    """Return the names and links of the programs that can open a note."""
    links = (("Obsidian", obsidian_link(path, heading)), ("VS Code", vscode_link(path, line)))
    return [(name, link) for name, link in links if link]
