"""What is to change in a client's files: thought out first, shown, and only then written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.serve.clients.block import put_block, read_block, take_block
from thumbindex.serve.clients.file import back_up, backups, lines_of, place, read_text, refuse_other, without_mark, write_text
from thumbindex.serve.clients.json_entry import put_json, read_json, take_json
from thumbindex.serve.clients.known import NAME, Client, Surroundings
from thumbindex.serve.clients.scan import Malformed
from thumbindex.serve.clients.toml_entry import put_toml, read_toml, take_toml


@dataclass(frozen=True, slots=True)
class Spot:
    """Our place in one file, whatever the file's form."""

    path: Path
    read: Callable[[str], Any]  # of a text, None where nothing of ours is there
    put: Callable[[str, Any], str]
    take: Callable[[str, str], str]  # of a text, and of what it was before we came


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds and what it is to hold; None is no file."""

    path: Path
    before: str | None
    after: str | None
    keep: bool = False  # whether what it holds is to be kept beside it

    @property
    def is_none(self) -> bool:
        """Tell whether nothing is to be done."""
        return self.before == self.after

    def difference(self) -> str:
        """Return what changes as a unified diff, empty where nothing does."""
        old, new = (str(self.path) if text is not None else "/dev/null" for text in (self.before, self.after))
        # One line around is enough to see where it is: more might show what others keep secret.
        return "".join(unified_diff(_lines(self.before), _lines(self.after), old, new, n=1))

    def write(self) -> Path | None:
        """Make the change; return where the old file is kept, if it had to be. Raises UsageError."""
        if self.is_none:
            return None
        refuse_other(self.path, self.before)
        kept = back_up(self.path) if self.keep else None
        write_text(self.path, self.after, self.before)
        if not self.keep:
            self._forget_backup()
        return kept

    def _forget_backup(self) -> None:
        """Delete the newest backup where the file is again what it holds."""
        newest = next(backups(self.path), None)
        if newest and read_text(newest) == self.after:
            newest.unlink()


def entry_spot(client: Client, around: Surroundings) -> Spot:
    """Return where a client's entry for our server stands. Raises UsageError for a file that cannot be read."""
    path = client.file(around)
    if client.is_toml:
        keys = (*client.keys, NAME)
        return Spot(path, partial(read_toml, keys=keys), partial(_put_toml, keys), lambda text, _: take_toml(text, keys))
    keys = (*client.keys, *_inner(client, path), NAME)
    return Spot(path, partial(read_json, keys=keys), partial(_put_json, keys), lambda text, original: take_json(text, keys, original))


def instructions_spot(client: Client, around: Surroundings) -> Spot | None:
    """Return where a client's lasting instructions say that our tools are to be used; None where it reads no such file."""
    if client.instructions is None:
        return None
    return Spot(client.instructions(around), read_block, put_block, lambda text, _: take_block(text))


def install_at(spot: Spot, entry: Any) -> Change:
    """Return the change that puts an entry there. Raises UsageError for a file that cannot be read as what it should be."""
    before = read_text(spot.path)
    with_entry = _told(spot, before, lambda: _put(spot, before, entry))
    there = _told(spot, before, lambda: _read(spot, before))
    # A file that holds nothing but our entry needs no backup: there was none before us.
    is_ours = there is not None and _put(spot, None, there) == before
    return Change(spot.path, before, with_entry, keep=there is None or (not is_ours and next(backups(spot.path), None) is None))


def uninstall_at(spot: Spot) -> Change:
    """Return the change that takes our entry out: what was there before where nothing else has changed since. Raises UsageError."""
    before = read_text(spot.path)
    entry = _told(spot, before, lambda: _read(spot, before))
    if before is None or entry is None:
        return Change(spot.path, before, before)
    originals = list(_originals(spot))
    for original in (*originals, None):
        if _put(spot, original, entry) == before:
            return Change(spot.path, before, original)
    kept = [read_text(each) or "" for each in backups(spot.path)]
    mark, text = without_mark(before)
    after = mark + spot.take(text, without_mark((*originals, *kept, "")[0])[1])
    is_ours = not kept and "".join(after.split()) in {"", "{}"}
    return Change(spot.path, before, None if is_ours else after)


def read_entry(spot: Spot) -> Any:
    """Return our entry as it stands, None where there is none. Raises UsageError."""
    before = read_text(spot.path)
    return _told(spot, before, lambda: _read(spot, before))


def entry_of(client: Client, around: Surroundings, command: Sequence[str]) -> dict[str, Any]:
    """Return the entry that has a client start a command line."""
    entry = client.entry(command)
    if _inner(client, client.file(around)):
        del entry["enabled"]  # unknown to the later form
    return entry


def _inner(client: Client, path: Path) -> tuple[str, ...]:
    """Return the key between, where a file is of the later form; one that is of both, or new, is read by both versions as the earlier one."""
    if not client.inner:
        return ()
    text = without_mark(read_text(path) or "")[1]
    try:
        earlier, later = read_json(text, (*client.keys, NAME)), read_json(text, (*client.keys, client.inner))
    except Malformed:
        return ()  # whoever reads it next says so
    # A server that is itself called so has a type.
    return (client.inner,) if earlier is None and isinstance(later, dict) and not isinstance(later.get("type"), str) else ()


def _originals(spot: Spot) -> Iterator[str]:
    """Yield what the file was before we came, the newest first."""
    for each in backups(spot.path):
        text = read_text(each)
        try:
            if text is not None and _read(spot, text) is None:
                yield text
        except Malformed:
            continue


def _put(spot: Spot, text: str | None, entry: Any) -> str:
    mark, rest = without_mark(text or "")
    return mark + spot.put(rest, entry)


def _read(spot: Spot, text: str | None) -> Any:
    return spot.read(without_mark(text or "")[1])


def _told(spot: Spot, text: str | None, attempt: Callable[[], Any]) -> Any:
    try:
        return attempt()
    except Malformed as error:
        where = place(without_mark(text or "")[1], error.offset)
        raise UsageError(f"{spot.path}:{where}: {error.what}. Nothing was changed: mend the file and run this again.") from error


def _put_json(keys: Sequence[str], text: str, entry: Any) -> str:
    return put_json(text, keys, entry)


def _put_toml(keys: Sequence[str], text: str, entry: Any) -> str:
    return put_toml(text, keys, entry)


def _lines(text: str | None) -> list[str]:
    lines = lines_of(text or "")
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
