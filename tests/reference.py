"""Generate `config.toml` and `docs/reference/settings.md` from the settings.

Run `python tests/reference.py` in the root of the repository.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, get_type_hints

from thumbindex.config import (
    FOLDER_FILE_KEYS,
    MAX_FOLDER_FILE_BYTES,
    Setting,
    describe_limits,
    settings_by_key,
)
from thumbindex.settings import Config

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

On a [server for a team](../http.md), also list who may see each folder. `tokens` has names from the
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


def render_page() -> str:
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


def write_reference(root: Path) -> None:
    """Write both files to a checkout."""
    (root / "config.toml").write_text(render_config(), encoding="utf-8")
    (root / "docs" / "reference" / "settings.md").write_text(render_page(), encoding="utf-8")


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


if __name__ == "__main__":
    write_reference(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
