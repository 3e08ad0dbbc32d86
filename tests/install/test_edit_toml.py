"""Editing one table of a TOML file leaves every other line alone."""

import tomllib

import pytest

from thumbindex.install.edit import MalformedError, put_table, read_table, take_table

KEYS = ("mcp_servers", "thumbindex")
ENTRY = {"command": r"C:\Program Files\thumbindex.exe", "args": ["serve", "--folder", "/ü"]}

FILES = {
    "plain": 'model = "x" # mine\nlimit = nan\n\n[mcp_servers.a]\ncommand = "y"\n',
    "CRLF": 'model = "x"\r\n[profiles.a]\r\nb = 1\r\n',
    "many lines": '# top\nnotes = """\n[mcp_servers.another]\nno header\n"""\n'
    "list = [\n  1, # one\n  [2],\n]\n[t]\na.b = {c = 1}\n[[many]]\nx = 1\n[[many]]\nx = 2\n",
    "blank at the end": "a = 1\n\n\n",
    "apart": '[mcp_servers.a]\ncommand = "y"\n\n[other]\nx = 1\n\n[mcp_servers.b]\ncommand = "z"\n',
    "dotted": 'mcp_servers.a.command = "y"\n',
    "quoted": '[ "mcp_servers" . \'a b\' ]\ncommand = "y"\n',
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_adding_and_removing_a_table_restores_every_byte(text: str) -> None:
    put = put_table(text, KEYS, ENTRY)
    assert put.startswith(text)
    assert tomllib.loads(put)["mcp_servers"]["thumbindex"] == ENTRY
    assert take_table(put, KEYS) == text


def test_new_lines_use_the_line_ends_of_the_file() -> None:
    assert (
        put_table("a = 1\r\n", KEYS, {"b": 1})
        == "a = 1\r\n\r\n[mcp_servers.thumbindex]\r\nb = 1\r\n"
    )
    assert put_table("a = 1", KEYS, {"b": 1}) == "a = 1\n\n[mcp_servers.thumbindex]\nb = 1\n"


def test_updated_table_keeps_the_users_additions() -> None:
    mine = '[mcp_servers.thumbindex]\ntool_timeout_sec = 90 # slow\nargs = ["old"] # old\n'
    mine += '\n[mcp_servers.thumbindex.env]\nA = "1"\n\n# of the next\n[next]\n'
    put = put_table(mine, KEYS, {"command": "x", "args": ["serve"]})
    assert put.startswith(
        '[mcp_servers.thumbindex]\ncommand = "x"\nargs = ["serve"]\n'
        'tool_timeout_sec = 90 # slow\n\n[mcp_servers.thumbindex.env]\nA = "1"\n'
    )
    assert read_table(put, KEYS) == {
        "tool_timeout_sec": 90,
        "args": ["serve"],
        "command": "x",
        "env": {"A": "1"},
    }


def test_removing_a_table_removes_its_subtables_and_keeps_other_comments() -> None:
    text = (
        'a = 1\n\n[mcp_servers.thumbindex]\ncommand = "x"\n[mcp_servers.thumbindex.env]\n'
        'A = "1"\n\n# of the next\n[next]\n'
    )
    assert take_table(text, KEYS) == "a = 1\n\n# of the next\n[next]\n"


def test_value_that_looks_like_our_table_is_left_alone() -> None:
    text = FILES["many lines"]
    assert (read_table(text, KEYS), take_table(text, KEYS)) == (None, text)


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {}\n",
        "mcp_servers = {thumbindex = {command = 'x'}}\n",
        "[mcp_servers]\nthumbindex = {command = 'x'}\n",
        "[[mcp_servers]]\na = 1\n",
        "[[mcp_servers.thumbindex]]\na = 1\n",
        "mcp_servers = 1\n",
        "[mcp_servers.thumbindex]\nargs = [\n  'old',\n]\n",
        'x = """\n[mcp_servers.thumbindex]\n"""\nmcp_servers.thumbindex.a = 1\n',
    ],
)
def test_table_that_cannot_be_edited_by_lines_is_left_alone(text: str) -> None:
    with pytest.raises(
        MalformedError, match=r"one key per line: \[mcp_servers\.thumbindex\]; command ="
    ):
        put_table(text, KEYS, ENTRY)


@pytest.mark.parametrize(
    ("text", "place"), [("a = 1\nb = = 2\n", "2:5"), ("a = 1\na = 2\n", "2:6"), ('x = """', "1:1")]
)
def test_syntax_errors_are_reported_with_their_position(text: str, place: str) -> None:
    with pytest.raises(MalformedError, match=f"^{place}: "):
        put_table(text, KEYS, ENTRY)
