"""Generate `config.toml` and `docs/reference`: from the settings, commands, docstrings and tools.

Run `python tests/reference.py` in the root of the repository.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import click
from typer.main import get_command

from thumbindex import errors
from thumbindex.cli.app import app
from thumbindex.config import (
    FOLDER_FILE_KEYS,
    MAX_FOLDER_FILE_BYTES,
    Setting,
    describe_limits,
    settings_by_key,
)
from thumbindex.library import Library
from thumbindex.library.decisions import DuplicateDecisions, Judgments
from thumbindex.library.library import PUBLIC_NAMES
from thumbindex.mcp.tools import TOOLS
from thumbindex.settings import Config

ROOT = Path(__file__).parents[1]

_CONFIG_HEAD = """\
# All settings of thumbindex at their defaults. `make docs` generates this file from settings.py.
# Copy the lines to change into your own file. `docs/reference/settings.md` says where it is.
"""

_PAGE_HEAD = """\
# Settings

`make docs` generates this page from `src/thumbindex/settings.py`.

To change a setting, write it into your own configuration file:

- Linux: `~/.config/thumbindex/config.toml`
- macOS: `~/Library/Application Support/thumbindex/config.toml`
- Windows: `%LOCALAPPDATA%\\thumbindex\\thumbindex\\config.toml`

Indexes lie outside of your notes: `thumbindex status` prints where. By default:

- Linux: `~/.local/share/thumbindex/indexes`
- macOS: `~/Library/Application Support/thumbindex/indexes`
- Windows: `%LOCALAPPDATA%\\thumbindex\\thumbindex\\indexes`

Settings come from these layers. Later ones override earlier ones:

1. the defaults below, also in `config.toml`;
2. your own configuration file;
3. `thumbindex.toml` in the indexed folder. It may come from anyone, so it may only set {harmless},
   in at most {size:,} bytes. If it has an error, only its settings that exclude notes are used, and
   `status`, `doctor` and `index` report the error ([details](../security.md#a-folders-own-file));
4. a file given with `--config FILE`;
5. `--set TABLE.KEY=VALUE` options: `--set query.limit=10 --set corpus.exclude=drafts/**,tmp/**`.

Restart a server after a change. In your own files and in `--set`, an unknown key or a wrong value
is an error. `HF_HUB_OFFLINE=1` in the environment forbids all network access, except to fetch the
keys of an `issuer` for `serve --http`.

Your own file lists the folders to use if no `--folder` is given. `thumbindex add` and
`thumbindex remove` edit this list, and `thumbindex folders` prints it:

```toml
[folders]
notes = "~/notes"
handbook = "~/work/handbook"
```

On a [server for a team](../team.md), also list who may see each folder. `tokens` has names from the
token file, or `sub:`, `scope:` or `group:` names from an issuer's tokens; `"*"` means every token.
If one folder has `tokens`, all folders need them.

```toml
[[folders]]
name = "handbook"
path = "~/work/handbook"
tokens = ["*"]

[[folders]]
name = "salaries"
path = "~/work/salaries"
tokens = ["alice", "group:finance"]
```
"""


_TABLE_HEAD = "| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n"


def render_config() -> str:
    """Return the text of `config.toml`."""
    parts = [_CONFIG_HEAD]
    for table, group in _tables():
        parts.append(f"\n[{table}]\n" + "".join(_entry(setting) for setting in group))
    return "".join(parts)


def render_settings() -> str:
    """Return the text of `docs/reference/settings.md`, one section per table."""
    parts = [_PAGE_HEAD.format(harmless=_harmless(), size=MAX_FOLDER_FILE_BYTES)]
    descriptions = dict(_descriptions(Config, ""))
    for table, group in _tables():
        parts.append(
            f"\n## [{table}]\n\n{descriptions.get(table, 'Name = path.')}\n\n{_TABLE_HEAD}"
        )
        parts.extend(_row(setting) for setting in group)
    return "".join(parts)


def _harmless() -> str:
    return ", ".join(f"`{key}*`" if key.endswith(".") else f"`{key}`" for key in FOLDER_FILE_KEYS)


def _tables() -> Iterator[tuple[str, list[Setting]]]:
    for table, group in groupby(
        settings_by_key().values(), key=lambda each: each.key.rpartition(".")[0] or each.key
    ):
        yield table, list(group)


def _descriptions(table: Any, prefix: str) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(table)
    for field in fields(table):
        if is_dataclass(kind := hints[field.name]):
            yield f"{prefix}{field.name}", " ".join((kind.__doc__ or "").split())
            yield from _descriptions(kind, f"{prefix}{field.name}.")


def _entry(setting: Setting) -> str:
    allowed = _allowed(setting)
    comment = f"# {setting.meaning}" + (f" ({allowed})" if allowed else "") + "\n"
    if isinstance(setting.default, Mapping):
        return comment + '# notes = "~/notes"\n'
    return f"{comment}{setting.key.rpartition('.')[2]} = {_toml(setting.default)}\n"


def _row(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2] if "." in setting.key else "*name*"
    default = "" if isinstance(setting.default, Mapping) else f"`{_toml(setting.default)}`"
    return f"| `{name}` | {default} | {_allowed(setting)} | {setting.meaning} |\n".replace(
        "`*name*`", "*name*"
    )


def _allowed(setting: Setting) -> str:
    return ", ".join(setting.choices) if setting.choices else describe_limits(setting)


def _toml(value: Any) -> str:
    # strings, numbers, booleans and lists are the same in JSON and TOML
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


# ------------------------------------------------------------------ commands

_COMMANDS_HEAD = """\
# Commands

`make docs` generates this page from the commands' help (`thumbindex COMMAND --help`).

Exit codes: 0 found or done, 1 nothing found (`doctor`: a check failed), 2 wrong usage, 3 failure,
130 interrupted. `thumbindex --install-completion` sets up completion for your shell.

## Shared options

"""

_MIN_SHARED = 3
"""An option of at least this many commands is described once, with its commands."""

_Row = tuple[str, ...]


def render_commands() -> str:
    """Return the text of `docs/reference/commands.md`."""
    sections: dict[str, list[tuple[str, Any]]] = {}
    for name, command in get_command(app).commands.items():
        entries = sections.setdefault(command.rich_help_panel, [])
        entries.append((name, command))
        entries += [(f"{name} {sub}", each) for sub, each in _subcommands(command).items()]
    takers: dict[_Row, list[str]] = {}
    for path, command in chain(*sections.values()):
        for row in _options(path, command):
            takers.setdefault(row, []).append(path)
    shared = {row: paths for row, paths in takers.items() if len(paths) >= _MIN_SHARED}
    runnable = [path for path, each in chain(*sections.values()) if each.params]
    rows = [(name, _list_takers(shared[name, text], runnable), text) for name, text in shared]
    parts = [_COMMANDS_HEAD, _table(("option", "commands", "meaning"), rows)]
    for section, entries in sections.items():
        parts.append(f"\n## {section}\n")
        for path, command in entries:
            own = [row for row in _options(path, command) if row not in shared]
            parts.append(f"\n###{'#' * path.count(' ')} {path}\n\n{_describe(path, command)}")
            parts.append("\n" + _table(("option", "meaning"), own) if own else "")
    return "".join(parts)


def _subcommands(command: Any) -> Mapping[str, Any]:
    return getattr(command, "commands", {})


def _options(path: str, command: Any) -> list[_Row]:
    context = click.Context(command, info_name=f"thumbindex {path}")
    records = (parameter.get_help_record(context) for parameter in command.params)
    return [(f"`{names}`", " ".join(text.split())) for names, text in filter(None, records)]


def _list_takers(paths: list[str], runnable: list[str]) -> str:
    others = [path for path in runnable if path not in paths]
    if len(others) < len(paths):
        return f"all but {_code(others)}"
    return _code(paths)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _describe(path: str, command: Any) -> str:
    """Return a command's help, usage and examples."""
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    examples = textwrap.dedent(command.epilog.partition("Examples:\n")[2])
    code = f"thumbindex {path} {usage}\n\n{examples}"
    return f"{_prose(inspect.cleandoc(command.help))}\n```text\n{code.strip()}\n```\n"


def _prose(text: str) -> str:
    """Return paragraphs on one line each, and preformatted ones as blocks of code."""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append(f"```text\n{textwrap.dedent(paragraph[2:])}\n```")
        elif paragraph.startswith(" "):
            parts.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(parts) + "\n"


def _table(head: _Row, rows: Iterable[_Row]) -> str:
    lines = [head, ("---",) * len(head)]
    lines += [tuple(cell.replace("|", r"\|") for cell in row) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ------------------------------------------------------------------ Python

_PYTHON_HEAD = """\
# Python

`make docs` generates this page from the source. Other names may change in any release.

```python
from thumbindex import Library

with Library.open(["~/notes"]) as library:
    library.index()
    answer = library.query("who decided on PostgreSQL?", limit=3)
    for passage in answer.passages:
        print(passage.citation, passage.text)
```

With other [settings](settings.md):

```python
from thumbindex.config import load_config

config = load_config(overrides=["query.recency.bias=0.5"])
library = Library.open(["~/notes"], config=config)
```

As a retriever of LlamaIndex, with the arguments of `query`. It returns no nodes if there is no
answer:

```python
from thumbindex.llama_index import ThumbindexRetriever

retriever = ThumbindexRetriever(library, limit=3, path=["plans/**"])
nodes = retriever.retrieve("who decided on PostgreSQL?")
```
"""

_PUBLIC: Mapping[type, Iterable[str]] = {
    Library: PUBLIC_NAMES,
    **{
        owner: [name for name in vars(owner) if not name.startswith("_")]
        for owner in (DuplicateDecisions, Judgments)
    },
}
"""Classes with public methods and properties, and their names."""

_MAX_SIGNATURE = 90
"""Longer signatures have one line per parameter."""


def render_python() -> str:
    """Return the text of `docs/reference/python.md`."""
    parts = [_PYTHON_HEAD]
    for owner, names in _PUBLIC.items():
        parts.append(f"\n## {owner.__name__}\n\n{_prose(inspect.getdoc(owner) or '')}")
        parts += [f"\n### {name}\n\n{_describe_member(owner, name)}" for name in names]
    parts.append("\n## Records\n")
    for record in sorted(_records(), key=lambda record: record.__name__):
        parts.append(f"\n### {record.__name__}\n\n```python\n{_source_of_fields(record)}```\n")
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    return "".join(parts) + f"\n## Errors\n\n```text\n{tree.strip()}\n```\n"


def _function(owner: type, name: str) -> Any:
    member = inspect.getattr_static(owner, name)
    return member.fget if isinstance(member, property) else getattr(owner, name)


def _describe_member(owner: type, name: str) -> str:
    """Return the signature and docstring of a method or property."""
    function = _function(owner, name)
    signature = re.sub(r"(: |-> )'([^']++)'", r"\1\2", str(inspect.signature(function)))
    signature = re.sub(r"\(self(?:, )?+", "(", signature)
    if isinstance(vars(owner)[name], property):
        signature = signature.replace("() ->", ":")
    if len(name + signature) > _MAX_SIGNATURE:
        parameters, _, result = signature[1:].rpartition(") ->")
        parameters = re.sub(r", (?=\*|/|\w++:)", ",\n    ", parameters)
        signature = f"(\n    {parameters},\n) ->{result}"
    return f"```python\n{name}{signature}\n```\n\n{_prose(inspect.getdoc(function) or '')}"


def _records() -> set[type]:
    """Return the records that methods return, those in their fields, and typed arguments."""
    hints = [
        hint
        for owner in _PUBLIC
        for name in _PUBLIC[owner]
        for hint in get_type_hints(_function(owner, name)).items()
    ]
    waiting = [
        kind
        for name, hint in hints
        for kind in _classes(hint)
        if name == "return" or is_typeddict(kind)
    ]
    records: set[type] = set()
    while waiting:
        record = waiting.pop()
        if record not in records and (is_dataclass(record) or is_typeddict(record)):
            records.add(record)
            waiting += [kind for hint in get_type_hints(record).values() for kind in _classes(hint)]
    return records


def _classes(hint: Any) -> Iterator[type]:
    """Yield the classes of thumbindex in a type."""
    if getattr(hint, "__module__", "").startswith("thumbindex"):
        yield hint
    for argument in get_args(hint):
        yield from _classes(argument)


def _source_of_fields(record: type) -> str:
    """Return the source of a class as far as its first method, and its properties."""
    source = inspect.getsource(record)
    source = re.split(r"^    (?:@|def )", source.partition("class ")[2], maxsplit=1, flags=re.M)[0]
    properties = [
        f"    {name}: {inspect.signature(member.fget).return_annotation}"
        f"  # {(inspect.getdoc(member) or '').removeprefix('Return ').splitlines()[0]}\n"
        for name, member in vars(record).items()
        if isinstance(member, property)
    ]
    return f"class {source.rstrip()}\n" + "".join(properties)


# ------------------------------------------------------------------ tools

_TOOLS_PAGE = "docs/reference/tools.md"

_TOOL_BLOCK = re.compile(r"<!-- generated: (\w++) -->\n.*?<!-- end -->\n", re.DOTALL)


def render_tools() -> str:
    """Return `docs/reference/tools.md` with the current description and arguments of each tool."""
    page = (ROOT / _TOOLS_PAGE).read_text(encoding="utf-8")
    blocks = {tool["name"]: _describe_tool(tool) for tool in TOOLS}
    page = _TOOL_BLOCK.sub(lambda match: blocks.pop(match[1], ""), page)
    return page + "".join(f"\n## {name}\n\n{block}" for name, block in blocks.items())


def _describe_tool(tool: Mapping[str, Any]) -> str:
    schema = tool["inputSchema"]
    rows = [
        (f"`{name}`", _type(argument, name in schema.get("required", ())), argument["description"])
        for name, argument in schema["properties"].items()
    ]
    table = "\n" + _table(("argument", "type", "meaning"), rows) if rows else ""
    return f"<!-- generated: {tool['name']} -->\n> {tool['description']}\n{table}<!-- end -->\n"


def _type(argument: Mapping[str, Any], is_required: bool) -> str:
    parts = ["list of strings" if argument["type"] == "array" else argument["type"]]
    if "minimum" in argument:
        most = f" to {argument['maximum']}" if "maximum" in argument else " or more"
        parts.append(f"{argument['minimum']}{most}")
    if "maxItems" in argument:
        parts.append(f"up to {argument['maxItems']}")
    return ", ".join(parts + ["required"] * is_required)


# ------------------------------------------------------------------ main


PAGES: Mapping[str, Callable[[], str]] = {
    "config.toml": render_config,
    "docs/reference/settings.md": render_settings,
    "docs/reference/commands.md": render_commands,
    "docs/reference/python.md": render_python,
    _TOOLS_PAGE: render_tools,
}
"""The text of each generated file, by its path in the repository."""

if __name__ == "__main__":
    for path, render in PAGES.items():
        (ROOT / path).write_text(render(), encoding="utf-8")
