"""The sentences in which an answer says how sure it is and what it stood on; the same on every surface."""

from __future__ import annotations

from collections.abc import Sequence

from thumbindex.model import Answer, Freshness, IndexState, Place, Progress

_PATHS_SHOWN = 5
"""Files that a sentence names; the rest is counted."""

_DOING = {
    "read": ("read", "files"),
    "words": ("indexed", "files"),
    "vectors": ("embedded", "texts"),
    "repairing": ("repairing the index: looked at", "old vectors"),
    "migrating": ("migrating the index: looked at", "old vectors"),
}


def confidence(answer: Answer) -> str:
    """Say how many passages there are and how sure the answer is."""
    if not answer.answerable:
        return "Nothing found: no passage is close enough to this query."
    number = len(answer.passages)
    doubt = " - the passages may not answer this" if answer.confidence_level == "low" else ""
    return f"{number} passage{'s' if number != 1 else ''}, confidence {answer.confidence_level} ({answer.confidence:.2f}){doubt}"


def stood_on(state: IndexState) -> str:
    """Say how much of the index an answer stood on."""
    if not state.documents:
        return "index: empty so far"
    vectors = f"{state.vectors:,} of {state.chunks:,} chunks"
    rest = (
        ""
        if not state.pending
        else ", the rest by keywords only"
        if state.vectors
        else ", keywords only until a server or `thumbindex index` has added them"
    )
    return f"index: {state.documents:,} documents; vectors: {vectors}{rest}"


def foot(answer: Answer, progress: Sequence[Progress] = (), *, is_loading: bool = False) -> str:
    """Say what an answer stood on, whether that is all that is on disk, and what is being indexed."""
    fresh = "; all that was on disk is indexed" if answer.freshness and answer.freshness.fresh else ""
    doing = f"; {indexing(progress)}" if progress else ""
    loading = "; keywords only this time: the model is still being loaded" if is_loading and answer.index.vectors else ""
    return f"{stood_on(answer.index)}{loading}{fresh}{doing}"


def also_in(places: Sequence[Place]) -> str:
    """Name the places of copies."""
    return ", ".join(f"{each.path} (lines {each.start_line}-{each.end_line})" for each in places)


def how_far(progress: Progress) -> str:
    """Say how far a run of indexing is."""
    done, what = _DOING.get(progress.phase, (progress.phase, "steps"))
    return f"{done} {progress.done:,} of {progress.total:,} {what}"


def indexing(progress: Sequence[Progress]) -> str:
    """Say what is being indexed; empty where nothing is."""
    several = len({each.folder for each in progress}) > 1
    return "; ".join(f"{f'{each.folder}: ' if several else ''}{how_far(each)} so far" for each in progress)


def up_to_date(found: Freshness | None, several: bool = False) -> str:
    """Say what an answer lacks of what is on disk; empty where it lacks nothing or nobody asked."""
    if found is None:
        return ""
    paths = [f"{folder}: {path}" if several else path for folder, path in found.unindexed]
    more = f" and {len(paths) - _PATHS_SHOWN:,} more" if len(paths) > _PATHS_SHOWN else ""
    files = "1 changed file on disk is" if len(paths) == 1 else f"{len(paths):,} changed files on disk are"
    sentences = [
        f"{files} not indexed yet: {', '.join(paths[:_PATHS_SHOWN])}{more}." if paths else "",
        f"The last words of {', '.join(found.behind)} cannot be searched yet." if found.behind else "",
        f"No process keeps {', '.join(found.untended)} up to the disk: `thumbindex index` does it once, a server as long as it runs."
        if found.untended
        else "",
        f"Not there now: {', '.join(found.gone)}; what the index holds of it is what was read last." if found.gone else "",
    ]
    return " ".join(each for each in sentences if each)
