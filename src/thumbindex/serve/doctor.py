"""`thumbindex doctor`: looks at everything that has to be right for an answer, and says what to do where something is not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import typer

from thumbindex.errors import ConfigError, ThumbindexError
from thumbindex.serve.checks import (
    Check,
    check_client,
    check_folder,
    check_handshake,
    check_index,
    check_model,
    check_notes,
    check_own_file,
    check_packages,
    check_watches,
    command_of,
    options_of,
)
from thumbindex.serve.clients.known import CLIENTS, Surroundings
from thumbindex.serve.clients.plan import entry_spot, read_entry
from thumbindex.serve.install import surroundings
from thumbindex.serve.opening import Opening
from thumbindex.serve.options import JsonOption, open_for, takes_opening
from thumbindex.serve.outcome import FOUND, NOT_FOUND, reported
from thumbindex.serve.render import print_json
from thumbindex.settings import Config

_COLORS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


@reported
@takes_opening
def doctor(
    ctx: typer.Context,
    opening: Opening,
    as_json: JsonOption = False,
) -> int:
    """Check the installation, the folders (those of --folder, else the configured ones, else those that clients name) and the clients."""
    checks = []
    for each in examine(opening, surroundings(), lambda one: open_for(ctx, one)):
        checks.append(each)
        if not as_json:
            _print(each)
    failed, doubtful = (sum(each.state == state for each in checks) for state in ("fail", "warn"))
    if as_json:
        print_json({"failed": failed, "warnings": doubtful, "checks": [asdict(each) for each in checks]})
    else:
        typer.echo(f"{failed} failed, {doubtful} to look at, {len(checks) - failed - doubtful} right")
    return NOT_FOUND if failed else FOUND


def examine(opening: Opening, around: Surroundings, opener: Callable[[Opening], Any]) -> Iterator[Check]:
    """Yield what is found, one subject after another; the server that is started last writes what every server does, and nothing else does."""
    yield check_packages(requires("thumbindex") or (), _version_of)
    try:
        config = opening.load()
    except ConfigError as error:
        yield Check("configuration", "fail", str(error), "Mend it: no command goes on without.")
        return
    folders, source = _folders(opening, config, around)
    yield Check("configuration", "ok", f"{len(config.written)} keys are set, {len(config.folders)} folders are named")
    there = yield from _examine_folders([replace(opening, folder=(each,)) for each in folders], source, config, opener)
    yield from _examine_clients(around)
    if there:
        yield check_handshake(replace(opening, folder=there).arguments())
    else:
        # A server without folders would take the current one in, which may be anything.
        with tempfile.TemporaryDirectory(prefix="thumbindex-doctor-") as made:
            (Path(made) / "empty").mkdir()
            empty = Opening((str(Path(made).resolve() / "empty"),), Path(made).resolve() / "index", None, opening.overrides)
            yield check_handshake(empty.arguments())


def _folders(opening: Opening, config: Config, around: Surroundings) -> tuple[tuple[str, ...], str]:
    """Return the folders that are to be looked at, and who names them."""
    if opening.folder:
        return opening.folder, "--folder"
    return (tuple(config.folders), "[folders] in the configuration") if config.folders else (tuple(_folders_of_clients(around)), "a client's entry")


def _examine_folders(
    openings: Sequence[Opening], source: str, config: Config, opener: Callable[[Opening], Any]
) -> Generator[Check, None, tuple[str, ...]]:
    """Yield what is found; return the folders that a server can be started with."""
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.library.health import AUTO, SCHEMA, is_whole

    models, roots, there = set[str](), list[Path](), list[str]()
    for each in openings:
        try:
            with opener(each) as library:
                for folder, status in zip(library.opened, library.status(), strict=True):
                    yield check_folder(status)
                    if wrong := check_own_file(status):
                        yield wrong
                    yield check_index(status, lambda folder=folder: is_whole(folder), SCHEMA)  # type: ignore[misc]
                    if found := check_notes(status):
                        yield found
                    roots.append(folder.root)
                    models |= {status.state.model} - {""}
            there += each.folder
        except ThumbindexError as error:
            yield Check(
                f"folder {each.folder[0]}", "fail", str(error), _mend_folder(Path(config.folders.get(each.folder[0], each.folder[0])), source)
            )
    if not openings:
        yield Check("folders", "warn", "none is named", "Name yours: `thumbindex install CLIENT --folder DIR`, or [folders] in the configuration.")
    # What was chosen for an index stays: `auto` is only for those to come.
    for name in sorted(models if models and config.encode.embed.model == AUTO else models | {config.encode.embed.model}):
        yield check_model(name)
    watches = check_watches(roots)
    if watches:
        yield watches
    return tuple(there)


def _mend_folder(path: Path, source: str) -> str:
    """Say where a folder is named that cannot be had, and which one beside it was meant, where its name is mistyped."""
    root = path.expanduser().absolute()
    try:
        beside = [] if root.is_dir() else [each.name for each in root.parent.iterdir() if each.is_dir()]
    except OSError:
        beside = []
    near = get_close_matches(root.name, beside, n=1)
    return (
        f"Did you mean {root.parent / near[0]}? It is {source} that names it."
        if near
        else f"Mend the path, or leave it out: it is {source} that names it."
    )


def _examine_clients(around: Surroundings) -> Iterator[Check]:
    found = [each for each in (check_client(client, around) for client in CLIENTS) if each]
    yield from found
    if not found:
        yield Check("clients", "warn", "none starts thumbindex", "Run `thumbindex install CLIENT`; `thumbindex install --help` lists them.")


def _folders_of_clients(around: Surroundings) -> Iterator[str]:
    """Yield the folders that clients have servers started with, each once; files that cannot be read are told of later."""
    seen = set()
    for client in CLIENTS:
        try:
            named = list(options_of(command_of(read_entry(entry_spot(client, around))), "--folder"))
        except ThumbindexError:
            continue
        for each in named:
            if each not in seen:
                seen.add(each)
                yield each


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _print(check: Check) -> None:
    typer.echo(f"{typer.style(f'{check.state:<4}', fg=_COLORS[check.state])}  {check.subject}: {check.found}")
    for place in check.places:
        typer.echo(f"      {place}")
    if check.remedy:
        typer.echo(f"      {check.remedy}")
