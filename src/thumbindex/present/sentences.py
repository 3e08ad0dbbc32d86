"""Say it in words: how sure an answer is, what it stood on, and how a passage came to its place;
quoting notes safely.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from thumbindex.model import (
    Answer,
    CitationCheck,
    CitationState,
    Condition,
    DatabaseStatus,
    Edge,
    Explanation,
    FolderStatus,
    Freshness,
    IndexState,
    ListedNote,
    OutlineEntry,
    Passage,
    Place,
    Problem,
    Progress,
    Related,
    Step,
    Unmet,
    Verification,
    Why,
)
from thumbindex.text import line_range, one_line, plural

_TICKS = re.compile(r"`{3,}")


def quoted(text: str) -> str:
    """Return a note's text between two fences, longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}note\n{text}\n{fence}"


CHECK_GLOB = "Check its spelling in `corpus.private.globs`; it is relative to the folder."


def unmatched_glob(glob: str) -> str:
    """Return a warning of a private glob that matches nothing."""
    return f"The private glob {glob!r} matches no note"


_PROBLEMS_SHOWN = 20

SIMILAR = "Most similar"
"""What stands above the notes that are near by meaning."""

COPIES_SHOWN = 3
"""Places of copies that an answer names; the rest is counted."""

DEDUPLICATING = (
    "variants",
    "dedup_known",
    "dedup_hash",
    "deduplicate",
    "dedup_ngram",
    "dedup_semantic",
)
"""The stages that take out what says the same as another candidate."""

PASSAGE_FACTS = ("created", "updated", "file_time", "status", "owner")
"""What is said of a passage that stands in several places, or is disagreed with."""

HIGH_RATIO = 0.30
"""The share of candidates above which deduplication is warned of; 5 to 20 % is healthy
(spec/dedup.md, section 3).
"""

FEWEST_CANDIDATES = 10
"""Of fewer than these, a share that was taken out is not warned of."""

_DOING = {
    "words": ("indexed", "files"),
    "vectors": ("embedded", "texts"),
    "publishing texts": ("published", "notes"),
    "publishing words": ("published words of", "segments"),
    "publishing vectors": ("published", "vectors"),
}


def confidence_words(answer: Answer, narrowed: Sequence[str] = ()) -> str:
    """Say how many passages there are and how sure the answer is; where there are none, by which
    filters the search was `narrowed`.
    """
    narrowed = (*narrowed, *(f"`{typed(each)}`" for each in answer.filters))
    if answer.listed:
        match = "matches" if answer.listed == 1 else "match"
        shown = f", the newest first; shown: {len(answer.passages)}" if answer.listed > 1 else ""
        return f"{plural(answer.listed, 'note')} {match} {' and '.join(narrowed)}{shown}"
    if not answer.index.documents:
        return "Nothing found: no note is indexed here."
    if not answer.answerable:
        less = f" Only notes that match {' and '.join(narrowed)} were searched." if narrowed else ""
        is_unmet = any(not each.as_words for each in answer.unmet)  # by which is said below
        several = len({each.folder for each in answer.nearest}) > 1
        places = [f"{each.path}:{each.start_line}" for each in answer.nearest]
        if several:
            places = [f"{each.folder}: {each.path}:{each.start_line}" for each in answer.nearest]
        near = one_line(", ".join(places))
        nearest = f" Nearest, and probably no answer: {near}." if near else ""
        why = (
            "a filter lets no note through"
            if is_unmet
            else "no passage is close enough to this query"
        )
        return f"Nothing found: {why}.{less}{nearest}"
    doubt = " - the passages may not answer this" if answer.confidence_level == "low" else ""
    return (
        f"{plural(len(answer.passages), 'passage')}, confidence {answer.confidence_level} "
        f"({_floored(answer.confidence):.2f}){doubt}"
    )


def _floored(share: float) -> float:
    """Return a share with two digits, none of them rounded up: what is below a threshold looks
    so.
    """
    return math.floor(round(100 * share, 6)) / 100


def typed(condition: Condition) -> str:
    """Return a filter as it is typed in a query."""
    mark = "" if condition.field == "words" else f"{condition.field}:"
    is_quoted = " " in condition.value or (condition.field == "words" and not condition.excludes)
    return f"{'-' if condition.excludes else ''}{mark}" + (
        f'"{condition.value}"' if is_quoted else condition.value
    )


_UNMET = {
    "tag": "No note has the tag #{}",
    "path": "No path matches {}",
    "file": "No file is called {}",
    "title": "No title has {}",
    "words": 'No passage holds "{}"',
}


def filter_lines(filters: Sequence[Condition], unmet: Sequence[Unmet], undated: int) -> list[str]:
    """Say which filters were read in a query, which of all no note meets and what comes near, and
    what a date leaves out.
    """
    lines = [f"Filters: {' '.join(map(typed, filters))}"] if filters else []
    for each in unmet:
        mark = "#" if each.field == "tag" else ""
        nearest = ", ".join(f"{mark}{name}" for name in each.nearest)
        near = (
            f": nearest {'is' if len(each.nearest) == 1 else 'are'} {nearest}." if nearest else "."
        )
        as_words = " It was searched for as words." if each.as_words else ""
        lines.append(f"{_UNMET[each.field].format(each.value)}{near}{as_words}")
    if undated:
        notes = f"{undated:,} notes have no date of their own"
        if undated == 1:
            notes = "1 note has no date of its own"
        lines.append(f"{notes}: `since` and `until` leave out what has none.")
    return [one_line(line) for line in lines]


def list_lines(notes: Sequence[ListedNote], several: bool = False) -> list[str]:
    """Return a line a note: its day, path, title and tags; that there is none where there is
    none.
    """
    lines = []
    for each in notes:
        path = f"{each.folder}: {each.path}" if several else each.path
        tags = "".join(f" #{tag}" for tag in each.tags)
        lines.append(one_line(f"{each.date or 'no date   '}  {path} - {each.title}{tags}"))
    return lines or ["No note matches."]


def outline_lines(entries: Sequence[OutlineEntry], several: bool = False) -> list[str]:
    """Return a line a heading, indented by its level, or a line a document, with its folder where
    there are several.
    """
    lines = []
    for each in entries:
        if each.level == 0:
            path = f"{each.folder}: {each.path}" if several else each.path
            line = f"{path} - {each.heading}"
        else:
            line = f"{'  ' * (each.level - 1)}- {each.heading} (line {each.line})"
        lines.append(one_line(line))
    return lines or ["Nothing is indexed here."]


def related_groups(related: Related, limit: int) -> list[tuple[str, list[str]]]:
    """Return what stands near a document, by how: the first `limit` of each, and how many more
    there are.
    """
    groups: tuple[tuple[str, Sequence[str]], ...] = (
        ("Links to", related.links),
        ("Linked from", related.backlinks),
        ("Links that lead nowhere", related.dangling),
        (SIMILAR, [f"{each.path} ({each.score:.2f})" for each in related.similar]),
    )
    more = {
        title: [f"… and {len(names) - limit:,} more"] if len(names) > limit else []
        for title, names in groups
    }
    return [(title, [*map(one_line, names[:limit]), *more[title]]) for title, names in groups]


def stood_on(state: IndexState) -> str:
    """Say how much of the index an answer stood on."""
    if not state.documents:
        return "index: empty so far"
    vectors = f"{state.vectors:,} of {plural(state.chunks, 'chunk')}"
    rest = ""
    if state.pending:
        rest = ", keywords only until they are there"
        if state.vectors:
            rest = ", the rest by keywords only"
    return f"index: {plural(state.documents, 'document')}; vectors: {vectors}{rest}"


NO_MARKDOWN = (
    "no Markdown was found: are these the folders that were meant, and do globs and ignore files "
    "let their notes through?"
)


def without_vectors(state: IndexState, command: str = "thumbindex index") -> str:
    """Say, where no server is asked, which command makes vectors; empty where none is missing."""
    missing = (
        f"{state.pending:,} of {plural(state.chunks, 'chunk')}" if state.vectors else "these notes"
    )
    return f"To find {missing} by meaning, too, run `{command}`." if state.pending else ""


ModelState = Literal["loading", "none", "loaded"]
"""Whether there is a model to ask vectors with."""

_WITHOUT_MODEL: Mapping[ModelState, str] = {
    "loading": "; keywords only this time: the model is not loaded (yet)",
    "none": "; keywords only: the model could not be loaded",
    "loaded": "",  # a filter lets nothing through that has a vector
}


def foot(answer: Answer, progress: Sequence[Progress] = (), model: ModelState = "loading") -> str:
    """Say what an answer stood on, whether that is all that is on disk, and what is being indexed;
    one `loading` may come with the next answer.
    """
    fresh = (
        "; all that was on disk is indexed" if answer.freshness and answer.freshness.fresh else ""
    )
    doing = f"; {indexing(progress)}" if progress else ""
    return f"{stood_on(answer.index)}{without_model(answer, model)}{fresh}{doing}"


def without_model(answer: Answer, model: ModelState = "loading") -> str:
    """Say that there are vectors which nobody could ask; empty where they were asked."""
    unasked = answer.index.vectors and any(
        step.stage == "search_vector" and not step.size_out for step in answer.trace
    )
    return _WITHOUT_MODEL[model] if unasked else ""


def also_in(places: Sequence[Place]) -> str:
    """Name the places of copies."""
    more = f" and {len(places) - COPIES_SHOWN:,} more" if len(places) > COPIES_SHOWN else ""
    return (
        ", ".join(
            f"{each.path} ({line_range(each.start_line, each.end_line)})"
            for each in places[:COPIES_SHOWN]
        )
        + more
    )


def flagged(flags: Sequence[str], lines: tuple[int, int]) -> list[str]:
    """Warn of what is flagged in some lines of a note, from the first to the last."""
    parts = (flag.partition(": ") for flag in flags)
    return [
        f"flagged, line {line}: {reason}"
        for line, _, reason in parts
        if lines[0] <= int(line) <= lines[1]
    ]


def passage_flags(passage: Passage) -> list[str]:
    """Warn of what is flagged in a passage's lines."""
    return flagged(passage.flags, (passage.start_line, passage.end_line))


def hold_hidden(notes: int) -> str:
    """Say how many notes hold what nobody sees, or what speaks to a model."""
    return (
        f"{'1 note holds' if notes == 1 else f'{notes:,} notes hold'} text that is hidden or "
        "speaks to a model"
    )


def condition_of(status: FolderStatus) -> str:
    """Say in a few words how the index of a folder is."""
    pending = (
        f"{plural(status.index.pending, 'chunk')} without vectors" if status.index.pending else ""
    )
    if status.progress:
        return (
            f"process {status.progress.pid} is "
            f"indexing{f': {how_far(status.progress)}' if status.progress.total else ''}"
        )
    if status.writing:
        return f"indexing{f', {pending}' if pending else ''}"
    if not status.indexed:
        return "no index yet"
    if status.away and not status.failure:
        return "folder not there"
    return status.failure or ("files missing" if status.unfinished else pending) or "ready"


def warnings_of(status: FolderStatus) -> list[str]:
    """Say what is wrong with a folder and its notes, a line each."""
    lines, root = list[str](), shlex.quote(status.root)
    if status.away:
        lines.append(
            f"the folder is not there now: `thumbindex forget --folder {root}` deletes its index, "
            "if it is gone for good"
        )
    if status.unfinished:
        lines.append(
            "the last run of indexing was cut off, and files are missing: "
            f"`thumbindex index --folder {root}` goes on from there"
        )
    lines += problem_lines(status.skipped)
    if status.flagged_count:
        lines.append(f"{hold_hidden(status.flagged_count)}: look there before a model does")
        lines += problem_lines(status.flagged)
    return lines


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem, and one for those that are not listed."""
    lines = list[str]()
    for each in problems[:_PROBLEMS_SHOWN]:
        where = f"{each.path}:{each.line}" if each.line else each.path
        lines.append(f"{where}: {each.reason}")
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(
            f"… and {len(problems) - _PROBLEMS_SHOWN:,} more: `thumbindex status --json` lists all"
        )
    return lines


def beside(passage: Passage) -> list[str]:
    """Say of a passage that stands in several places, or is disagreed with, where and in which
    words, a line each; of any other one its day.
    """
    said = facts(passage)
    return [*copies_words(passage), *([said] if said else []), *disagreement_words(passage)]


def facts(passage: Passage) -> str:
    """Return the day of a passage; if it stands in several places or is disagreed with, all that
    is known of it.
    """
    known = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name in PASSAGE_FACTS
        if (value := getattr(passage, name))
    )
    if known and (passage.also_in or passage.disagrees):
        return known
    day = passage.updated or passage.created
    return f"dated {day}" if day else ""


def copies_words(passage: Passage) -> list[str]:
    """Say where else a passage stands."""
    return [f"also in: {also_in(passage.also_in)}"] if passage.also_in else []


def disagreement_words(passage: Passage) -> list[str]:
    """Say what disagrees with a passage, a line each."""
    sentences = []
    for other in passage.disagrees:
        where = line_range(other.start_line, other.end_line)
        if other.date:
            where = f"{where}, {other.date}"
        sentences.append(f"these two disagree: {other.differs} in {other.path} ({where})")
    return sentences


def deduplicated(trace: Sequence[Step]) -> tuple[int, int]:
    """Return how many candidates came to deduplication, and how many of them it left."""
    steps = [step for step in trace if step.stage in DEDUPLICATING]
    return (steps[0].size_in, steps[-1].size_out) if steps else (0, 0)


def dedup_share(trace: Sequence[Step]) -> float:
    """Return the share of candidates that deduplication took out, 0 to 1."""
    came, left = deduplicated(trace)
    return (came - left) / came if came else 0.0


def is_much(trace: Sequence[Step]) -> bool:
    """Tell whether deduplication took out so much that the notes repeat themselves; a share of a
    few candidates says nothing.
    """
    return dedup_share(trace) > HIGH_RATIO and deduplicated(trace)[0] >= FEWEST_CANDIDATES


def deduplication(trace: Sequence[Step]) -> str:
    """Say what deduplication took out, and warn where that is much."""
    came, left = deduplicated(trace)
    much = (
        " - more than 30 %: the same texts stand in many places, `thumbindex duplicates` lists them"
        if is_much(trace)
        else ""
    )
    return (
        f"deduplication: {came:,} → {plural(left, 'candidate')} ({dedup_share(trace):.0%} taken "
        f"out as copies){much}"
    )


def doing(phase: str) -> str:
    """Name what a run of indexing counts in a phase."""
    return " ".join(_DOING.get(phase, (phase, "steps"))).strip()


def how_far(progress: Progress) -> str:
    """Say how far a run of indexing is."""
    done, what = _DOING.get(progress.phase, (progress.phase, "steps"))
    return (
        f"{done} {progress.done:,} of {progress.total:,} "
        f"{what.removesuffix('s') if progress.total == 1 else what}"
    )


def indexing(progress: Sequence[Progress]) -> str:
    """Say what is being indexed; empty where nothing is."""
    several = len({each.folder for each in progress}) > 1
    return "; ".join(
        f"{f'{each.folder}: ' if several else ''}{how_far(each)} so far" for each in progress
    )


def up_to_date(found: Freshness | None) -> str:
    """Say what an answer may lack of what is on disk; empty if nothing, or if nobody asked."""
    if found is None:
        return ""
    sentences = []
    if found.behind:
        sentences.append(f"The last changes in {', '.join(found.behind)} may not be indexed yet.")
    if found.untended:
        sentences.append(
            f"No process keeps {', '.join(found.untended)} up to date: `thumbindex index` does it "
            "once, a server as long as it runs."
        )
    sentences += [lagging(found.lag_seconds), not_there(found.gone)]
    return " ".join(each for each in sentences if each)


def lagging(seconds: float) -> str:
    """Say how far the server of a database is behind that answers; empty where that is little."""
    if not seconds:
        return ""
    return (
        f"The database is read from a standby that is {seconds:,.0f} s behind its primary server."
    )


def database_in_words(status: DatabaseStatus) -> str:
    """Say which server of a database answers, how far it is behind, and how busy it is with this
    process.
    """
    who = "the primary server"
    if status.standby:
        lag = status.lag_seconds or 0.0
        who = (
            f"a standby, {lag:,.1f} s behind"
            if lag
            else "a standby that is up to its primary server"
        )
    busy = f"{plural(status.used, 'connection')} in use, {status.waiting:,} waiting"
    return f"database {status.place}: {status.server} answers, {who}; {busy}"


def not_there(folders: Sequence[str]) -> str:
    """Say which folders are away, and what answers stand on; empty where none is."""
    if not folders:
        return ""
    return f"Not there now: {', '.join(folders)}; what the index holds of it is what was read last."


def as_written(value: object) -> str:
    """Return a setting's value as a configuration file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value) if isinstance(value, tuple) else value)


_FATES = {
    "shown": "is in the answer",
    "copy": "is named beside a copy",
    "dropped": "was found, but is not in the answer",
    "not_found": "was not found",
    "filtered": "was not searched",
    "not_indexed": "is not in the index",
}

_EDGES_SHOWN = 3
"""Of the links that led to a document: the first are of those that were found best."""


def explanation_lines(found: Explanation) -> list[str]:
    """Say in a few lines how a passage came to its place."""
    stages = " → ".join(f"{each.stage} {each.rank}" for each in found.effects)
    evidence = "; ".join(
        f"{each.retriever} rank {each.rank} ({each.score:.2f})" for each in found.evidence
    )
    sentences = (evidence, f"rank after {stages}" if stages else "", *explanation_rest(found))
    return [each for each in sentences if each]


def explanation_rest(found: Explanation) -> list[str]:
    """Say what is no table: the name that the query is, words, cosine, the reranker's score, links,
    and what was taken out as a copy.
    """
    named = f"the query is its {found.name_kind}: it comes first" if found.name_kind else ""
    cosine = f"cosine {found.cosine:.2f}" if found.cosine is not None else ""
    reranked = f"reranker {found.reranked:.2f}" if found.reranked is not None else ""
    copies = [
        f"{each.stage} took out {each.path}:{each.line}: {each.reason}" for each in found.copies
    ]
    near = "; ".join(each for each in (cosine, reranked) if each)
    sentences = [
        named,
        terms(found.terms),
        near,
        links(found.edges),
        *copies,
    ]
    return [each for each in sentences if each]


def terms(found: Mapping[str, Sequence[str]]) -> str:
    """Say in which fields the query's words stand, and which are missing; of `code`, words as they
    are written, only where it is alone.
    """
    present, missing = [], []
    for term, fields in found.items():
        if fields:
            named = [name for name in fields if name != "code"] or ["as written"]
            present.append(f"{term} ({', '.join(named)})")
        else:
            missing.append(term)
    parts = []
    if present:
        parts.append(f"words: {', '.join(present)}")
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    return "; ".join(parts)


def links(edges: Sequence[Edge]) -> str:
    """Say which documents' links led to a document; empty where none did."""
    named = [f"linked from {each.path} (found as {each.rank})" for each in edges[:_EDGES_SHOWN]]
    more = f" and {len(edges) - _EDGES_SHOWN} more" if len(edges) > _EDGES_SHOWN else ""
    return ", ".join(named) + more


def fate(found: Why, several: bool = False) -> str:
    """Say what became of a note, and why."""
    heading = f"#{found.heading}" if found.heading else ""
    folder = f"{found.folder}: " if several and found.folder else ""
    by = f" (stage `{found.stage}`)" if found.fate == "dropped" else ""
    return f"{folder}{found.path}{heading} {_FATES[found.fate]}: {found.reason}{by}"


def why_rest(found: Why) -> list[str]:
    """Say what is no table: a note's words, its cosine, its vectors, and how it is on disk."""
    lacking = (
        f"without a vector yet, found by words alone: {found.without_vector:,} of "
        f"{plural(found.chunks, 'chunk')}"
    )
    cosine = f"best cosine {found.cosine:.2f}" if found.cosine is not None else ""
    sentences = [
        f"searched for: {found.corrected}" if found.corrected else "",
        "; ".join(each for each in (terms(found.terms), cosine) if each),
        lacking if found.without_vector else "",
        *found.notes,
    ]
    return [each for each in sentences if each]


def why_lines(found: Why, several: bool = False) -> list[str]:
    """Say in a few lines what became of a note."""
    stages = " → ".join(
        f"{each.stage} {each.rank if each.rank is not None else '-'}" for each in found.stages
    )
    ranks = [f"rank after {stages}"] if stages else []
    return [fate(found, several), *ranks, *why_rest(found)]


# ------------------------------------------------------------------ whether citations hold

_QUOTATION_SHOWN = 60
"""Characters of a quotation that say which one is meant."""


def verification_head(found: Verification) -> str:
    """Count what became of the citations of a text."""
    counts = Counter(each.state for each in found.citations)
    states = ", ".join(
        f"{counts[state]} {state_words(state)}"
        for state in get_args(CitationState)
        if counts[state]
    )
    uncited = f" {plural(found.uncited, 'quotation')} without a citation." if found.uncited else ""
    if found.citations:
        return f"{plural(len(found.citations), 'citation')}: {states}.{uncited}"
    return f"No citation of a note was found.{uncited}"


def state_words(state: CitationState) -> str:
    """Name what became of a citation."""
    return state.replace("_", " ")


def short_quotation(check: CitationCheck) -> str:
    """Return the beginning of what a citation is given for."""
    quotation = " ".join(check.quotation.split())
    return quotation if len(quotation) <= _QUOTATION_SHOWN else f"{quotation[:_QUOTATION_SHOWN]}…"


def check_line(check: CitationCheck, several: bool) -> str:
    """Say in a line what became of a citation; of one that holds, no more than that."""
    short = short_quotation(check)
    said = f' "{short}"' if short else ""
    line = f"{state_words(check.state)}: {check.citation}{said}"
    if check.state in {"moved", "changed"}:
        line += f" -> {f'{check.folder}: ' if several else ''}{check.now}"
    more = "; ".join(filter(None, (check.differs, check.reason)))
    return one_line(f"{line} ({more})" if more and check.state != "there" else line)
