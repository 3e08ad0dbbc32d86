"""`docs/reference/clients.md` shows what `thumbindex install` writes."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from thumbindex.install.clients import CLIENTS, Client
from thumbindex.install.edit import put_block
from thumbindex.install.plan import instruction_line

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "clients.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+)\n\n((?:(?!^##).*\n)+)", PAGE, re.M))
COMMAND = ["/opt/thumbindex", "serve", "--folder", "/notes"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_snippets_equal_what_install_writes(client: Client) -> None:
    snippet = re.search(r"```(json|toml)\n(.*?)```", SECTIONS[client.title], re.S)
    assert snippet is not None
    parse = tomllib.loads if snippet[1] == "toml" else json.loads
    expected = {"thumbindex": client.entry(COMMAND)}
    for key in reversed(client.keys):
        expected = {key: expected}
    assert parse(snippet[2]) == expected


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_sections_name_the_command_and_the_next_step(client: Client) -> None:
    text = re.sub(r"\s+", " ", SECTIONS[client.title])
    assert f"`thumbindex install {client.name}`" in text
    assert client.restart.rstrip(".").lower() in text.lower()


def test_instruction_block_is_quoted_verbatim() -> None:
    assert put_block("", (), instruction_line([("notes", Path("/notes"))])) in PAGE
