"""`docs/clients.md` shows what `thumbindex install` writes."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from thumbindex.install.clients import CLIENTS, Client
from thumbindex.install.edit import put_block
from thumbindex.install.plan import instruction_line

PAGE = (Path(__file__).parents[1] / "docs" / "clients.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+)\n\n((?:(?!^##).*\n)+)", PAGE, re.M))
COMMAND = ["/opt/thumbindex", "serve", "--folder", "/notes"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.name)
def test_a_snippet_is_what_install_writes(client: Client) -> None:
    found = re.search(r"```(json|toml)\n(.*?)```", SECTIONS[client.title], re.S)
    assert found is not None
    read = tomllib.loads if found[1] == "toml" else json.loads
    expected = {"thumbindex": client.entry(COMMAND)}
    for key in reversed(client.keys):
        expected = {key: expected}
    assert read(found[2]) == expected


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.name)
def test_a_section_names_the_command_and_what_to_do_next(client: Client) -> None:
    text = re.sub(r"\s+", " ", SECTIONS[client.title])
    assert f"`thumbindex install {client.name}`" in text
    assert client.restart.rstrip(".").lower() in text.lower()


def test_the_block_of_instructions_is_shown_as_it_is_written() -> None:
    assert put_block("", (), instruction_line([("notes", Path("/notes"))])) in PAGE
