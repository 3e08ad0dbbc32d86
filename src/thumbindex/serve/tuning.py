"""The command `tune`: choose settings on a folder's own queries and keep them beside its index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.model import Tuned
from thumbindex.serve.opening import FOUND, NOT_FOUND, WITH_VOCABULARY, Opening, reported
from thumbindex.serve.options import JsonOption, open_for, takes_opening
from thumbindex.serve.terminal import ProgressDisplay, output, plain, print_json
from thumbindex.serve.wording import as_written
from thumbindex.study.queries import LabeledQuery, load_queries

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.library.folders import Folder
    from thumbindex.study.tune import Tuning


_UNTUNED = Opening(overrides=("query.tuned=false",))


@reported
@takes_opening
def tune(
    ctx: typer.Context,
    opening: Opening,
    queries: Annotated[Path | None, typer.Option("--queries", metavar="FILE", help="Your own labeled queries, beside those in the notes.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Go back to the defaults.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Decide from a folder's own links and descriptions how it is searched best; the defaults stay where nothing is clearly better."""
    if undo:
        return _undo(ctx, opening, as_json)
    given = load_queries(queries) if queries else ()
    with open_for(ctx, opening.over(_UNTUNED)) as library:
        folder = _only_folder(library)
    found = _tune(ctx, opening.over(_UNTUNED), folder, given)
    if found.tried:  # else nothing was decided, and what was found before holds
        _keep(folder, found)
    payload = {"folder": folder.name, "location": str(folder.places.tuned) if found.tried else None, **tuning_payload(found)}
    if as_json:
        print_json(payload)
    else:
        print_tuning(found, folder)
    return FOUND


def _tune(ctx: typer.Context, opening: Opening, folder: Folder, given: Sequence[LabeledQuery]) -> Tuning:
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.study.tune import tune

    # what a --set says goes over ours: whoever switches expansion off has no vocabulary made
    with open_for(ctx, opening.over(WITH_VOCABULARY)) as library, ProgressDisplay() as show:
        library.index(progress=show, after_others=True)
        library.load_models()
        return tune(library, folder.config, given, show)


def _only_folder(library: Library) -> Folder:
    if len(library.opened) != 1:
        raise UsageError("Folders are tuned one at a time: name one with --folder.")
    return library.opened[0]


def _keep(folder: Folder, found: Tuning) -> None:
    from thumbindex.library.folders import write_tuned

    made = datetime.now().astimezone().isoformat(timespec="seconds")
    write_tuned(folder.places, Tuned(found.settings, found.reason, made, found.model, tuning_payload(found)))


def _undo(ctx: typer.Context, opening: Opening, as_json: bool) -> int:
    from thumbindex.library.folders import undo_tuned

    with open_for(ctx, opening.over(_UNTUNED)) as library:
        undone = {folder.name: undo_tuned(folder.places) for folder in library.opened}
    if as_json:
        print_json({"undone": undone})
    else:
        for name, there in undone.items():
            output().print(plain(f"{name}: {'back to the defaults' if there else 'was not tuned'}"))
    return FOUND if any(undone.values()) else NOT_FOUND


def tuning_payload(found: Tuning) -> dict[str, Any]:
    """Return what `tune --json` prints, and what is kept as evidence."""
    return {
        "settings": dict(found.settings),
        "reason": found.reason,
        "queries": found.queries,
        "documents": found.documents,
        "choices": list(found.choices),
        "gain": _rounded(found.gain.mean, found.gain.low, found.gain.high) if found.gain else None,
        "kinds": {
            kind: {"n": each.queries, "decides": each.decides, "before": round(each.before, 4), "after": round(each.after, 4)}
            for kind, each in found.kinds.items()
        },
        "tried": [
            {"name": each.choice.name, "settings": dict(each.choice.values), "gain": _rounded(each.gain.mean, each.gain.low, each.gain.high)}
            for each in found.tried
        ],
        "seconds": round(found.seconds, 1),
    }


def _rounded(*numbers: float) -> list[float]:
    return [round(number, 4) for number in numbers]


def print_tuning(found: Tuning, folder: Folder) -> None:
    """Print what was tried, what the choice does to each kind of query, and what was decided."""
    from rich.table import Table

    console = output()
    if found.tried:
        table = Table("alone against the defaults", "nDCG@10", "95 %", box=None, pad_edge=False, header_style="bold")
        for each in found.tried:
            table.add_row(each.choice.name, f"{each.gain.mean:+.3f}", f"[{each.gain.low:+.3f}, {each.gain.high:+.3f}]")
        console.print(table)
    if found.choices:
        table = Table(f"\n{'; '.join(found.choices)}", "\nn", "\nbefore", "\nafter", box=None, pad_edge=False, header_style="bold")
        for kind, of in found.kinds.items():
            table.add_row(kind if of.decides else f"{kind} (only watched)", str(of.queries), f"{of.before:.3f}", f"{of.after:.3f}")
        console.print(table)
    console.print(plain(f"\n{found.reason}"), style="bold", soft_wrap=True)
    for key, value in found.settings.items():
        console.print(plain(f"  {key} = {as_written(value)}"))
    kept = f"kept in {folder.places.tuned}; `thumbindex tune --undo` deletes it; {found.seconds:.0f} s"
    if not found.tried:
        kept = f"nothing was decided: {'what was kept before stays' if folder.places.tuned.exists() else 'nothing is kept'}"
    console.print(plain(kept), style="dim", soft_wrap=True)
