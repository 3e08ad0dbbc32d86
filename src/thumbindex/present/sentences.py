"""The record in words: sentences and lines about answers, passages, folders and citations."""

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
    RelatedNotes,
    TraceStep,
    TypedFilter,
    UnmetFilter,
    Verification,
    WhyReport,
)
from thumbindex.text import line_range, one_line, plural

_BACKTICKS = re.compile(r"`{3,}")


def fenced(text: str) -> str:
    """Return a note's text between two fences, longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}note\n{text}\n{fence}"


CHECK_GLOB = "Check its spelling in `corpus.private.globs`; it is relative to the folder."


def unmatched_glob_warning(glob: str) -> str:
    """Return a warning that a private glob matches nothing."""
    return f"The private glob {glob!r} matches no note"


_MAX_PROBLEMS = 20

SIMILAR_TITLE = "Most similar"
"""Heading of the list of notes with a similar meaning."""

MAX_COPIES = 3
"""Maximum places of copies that an answer names; the rest is counted."""

_DEDUP_STAGES = (
    "dedup_versions",
    "dedup_known",
    "dedup_hash",
    "deduplicate",
    "dedup_ngram",
    "dedup_semantic",
)
"""The stages that remove candidates that repeat another one."""

PASSAGE_METADATA = ("created", "updated", "file_time", "status", "owner")
"""Fields that are shown for a passage with copies or contradictions."""

_HIGH_DEDUP_SHARE = 0.30
"""Share of removed candidates above which a warning is shown; 5 to 20 % is healthy (spec/dedup.md,
section 3).
"""

_MIN_CANDIDATES = 10
"""Minimum candidates for a warning about the share of removed ones."""

_PHASES = {
    "words": ("indexed", "files"),
    "vectors": ("embedded", "texts"),
    "publishing texts": ("published", "notes"),
    "publishing words": ("published words of", "segments"),
    "publishing vectors": ("published", "vectors"),
}


def confidence_sentence(answer: Answer, narrowed: Sequence[str] = ()) -> str:
    """Return how many passages there are and how sure the answer is, or that nothing was found.
    `narrowed` are the filters that were given.
    """
    narrowed = (*narrowed, *(f"`{_filter_as_typed(each)}`" for each in answer.filters))
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
        f"({_rounded_down(answer.confidence):.2f}){doubt}"
    )


def _rounded_down(share: float) -> float:
    """Return a share with two digits, rounded down, so that it never reaches a threshold by
    rounding.
    """
    return math.floor(round(100 * share, 6)) / 100


def _filter_as_typed(condition: TypedFilter) -> str:
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


def filter_lines(
    filters: Sequence[TypedFilter], unmet: Sequence[UnmetFilter], undated: int
) -> list[str]:
    """Return the filters read from a query, those that no note meets with similar names, and the
    number of notes without a date.
    """
    lines = [f"Filters: {' '.join(map(_filter_as_typed, filters))}"] if filters else []
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
    """Return one line per note: its day, path, title and tags."""
    lines = []
    for note in notes:
        path = f"{note.folder}: {note.path}" if several else note.path
        tags = "".join(f" #{tag}" for tag in note.tags)
        lines.append(one_line(f"{note.date or 'no date   '}  {path} - {note.title}{tags}"))
    return lines or ["No note matches."]


def outline_lines(entries: Sequence[OutlineEntry], several: bool = False) -> list[str]:
    """Return one line per heading, indented by its level, or one line per document."""
    lines = []
    for entry in entries:
        if entry.level == 0:
            path = f"{entry.folder}: {entry.path}" if several else entry.path
            line = f"{path} - {entry.heading}"
        else:
            line = f"{'  ' * (entry.level - 1)}- {entry.heading} (line {entry.line})"
        lines.append(one_line(line))
    return lines or ["Nothing is indexed here."]


def related_groups(related: RelatedNotes, limit: int) -> list[tuple[str, list[str]]]:
    """Return the neighbors of a document by kind: the first `limit` of them, and how many more
    there are.
    """
    groups: tuple[tuple[str, Sequence[str]], ...] = (
        ("Links to", related.links),
        ("Linked from", related.backlinks),
        ("Links that lead nowhere", related.dangling),
        (SIMILAR_TITLE, [f"{each.path} ({each.score:.2f})" for each in related.similar]),
    )
    more = {
        title: [f"… and {len(names) - limit:,} more"] if len(names) > limit else []
        for title, names in groups
    }
    return [(title, [*map(one_line, names[:limit]), *more[title]]) for title, names in groups]


def index_sentence(state: IndexState) -> str:
    """Return how much of the index was searched."""
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


def missing_vectors_sentence(state: IndexState, command: str = "thumbindex index") -> str:
    """Return the command that makes the missing vectors; empty if none is missing."""
    missing = (
        f"{state.pending:,} of {plural(state.chunks, 'chunk')}" if state.vectors else "these notes"
    )
    return f"To find {missing} by meaning, too, run `{command}`." if state.pending else ""


ModelState = Literal["loading", "none", "loaded"]
"""Whether the model that embeds queries is loaded."""

_MISSING_MODEL: Mapping[ModelState, str] = {
    "loading": "; keywords only this time: the model is not loaded (yet)",
    "none": "; keywords only: the model could not be loaded",
    "loaded": "",  # a filter lets nothing through that has a vector
}


def answer_footer(
    answer: Answer, progress: Sequence[Progress] = (), model: ModelState = "loading"
) -> str:
    """Return how much was searched, whether the index is up to date, and what is being indexed."""
    fresh = (
        "; all that was on disk is indexed" if answer.freshness and answer.freshness.fresh else ""
    )
    doing = f"; {indexing_sentence(progress)}" if progress else ""
    return f"{index_sentence(answer.index)}{missing_model_sentence(answer, model)}{fresh}{doing}"


def missing_model_sentence(answer: Answer, model: ModelState = "loading") -> str:
    """Return that vectors were not searched for lack of a model; empty if they were."""
    unasked = answer.index.vectors and any(
        step.stage == "search_vector" and not step.size_out for step in answer.trace
    )
    return _MISSING_MODEL[model] if unasked else ""


def places_sentence(places: Sequence[Place]) -> str:
    """Return the first places of copies and how many more there are."""
    more = f" and {len(places) - MAX_COPIES:,} more" if len(places) > MAX_COPIES else ""
    return (
        ", ".join(
            f"{place.path} ({line_range(place.start_line, place.end_line)})"
            for place in places[:MAX_COPIES]
        )
        + more
    )


def flag_lines(flags: Sequence[str], lines: tuple[int, int]) -> list[str]:
    """Return a warning for each flag in a range of lines."""
    parts = (flag.partition(": ") for flag in flags)
    return [
        f"flagged, line {line}: {reason}"
        for line, _, reason in parts
        if lines[0] <= int(line) <= lines[1]
    ]


def passage_flag_lines(passage: Passage) -> list[str]:
    """Return a warning for each flag in a passage's lines."""
    return flag_lines(passage.flags, (passage.start_line, passage.end_line))


def hidden_text_sentence(notes: int) -> str:
    """Return how many notes hold hidden text or instructions to a model."""
    return (
        f"{'1 note holds' if notes == 1 else f'{notes:,} notes hold'} text that is hidden or "
        "speaks to a model"
    )


def folder_state_sentence(status: FolderStatus) -> str:
    """Return the state of a folder's index in a few words."""
    pending = (
        f"{plural(status.index.pending, 'chunk')} without vectors" if status.index.pending else ""
    )
    if status.progress:
        return (
            f"process {status.progress.pid} is "
            f"indexing{f': {progress_sentence(status.progress)}' if status.progress.total else ''}"
        )
    if status.writing:
        return f"indexing{f', {pending}' if pending else ''}"
    if not status.indexed:
        return "no index yet"
    if status.is_missing and not status.failure:
        return "folder not there"
    return status.failure or ("files missing" if status.unfinished else pending) or "ready"


def folder_warning_lines(status: FolderStatus) -> list[str]:
    """Return one line for each problem of a folder and its notes."""
    lines, root = list[str](), shlex.quote(status.root)
    if status.is_missing:
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
        lines.append(
            f"{hidden_text_sentence(status.flagged_count)}: look there before a model does"
        )
        lines += problem_lines(status.flagged)
    return lines


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Return one line for each of the first problems, and how many more there are."""
    lines = list[str]()
    for problem in problems[:_MAX_PROBLEMS]:
        where = f"{problem.path}:{problem.line}" if problem.line else problem.path
        lines.append(f"{where}: {problem.reason}")
    if len(problems) > _MAX_PROBLEMS:
        lines.append(
            f"… and {len(problems) - _MAX_PROBLEMS:,} more: `thumbindex status --json` lists all"
        )
    return lines


def passage_context_lines(passage: Passage) -> list[str]:
    """Return a passage's copies, metadata and contradictions, one line each."""
    said = passage_metadata(passage)
    return [*copy_lines(passage), *([said] if said else []), *disagreement_lines(passage)]


def passage_metadata(passage: Passage) -> str:
    """Return the date of a passage, or all its metadata if it has copies or contradictions."""
    known = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name in PASSAGE_METADATA
        if (value := getattr(passage, name))
    )
    if known and (passage.also_in or passage.disagrees):
        return known
    day = passage.updated or passage.created
    return f"dated {day}" if day else ""


def copy_lines(passage: Passage) -> list[str]:
    """Return the other places of a passage's text."""
    return [f"also in: {places_sentence(passage.also_in)}"] if passage.also_in else []


def disagreement_lines(passage: Passage) -> list[str]:
    """Return one line for each passage that contradicts this one."""
    sentences = []
    for other in passage.disagrees:
        where = line_range(other.start_line, other.end_line)
        if other.date:
            where = f"{where}, {other.date}"
        sentences.append(f"these two disagree: {other.differs} in {other.path} ({where})")
    return sentences


def dedup_counts(trace: Sequence[TraceStep]) -> tuple[int, int]:
    """Return the numbers of candidates before and after deduplication."""
    steps = [step for step in trace if step.stage in _DEDUP_STAGES]
    return (steps[0].size_in, steps[-1].size_out) if steps else (0, 0)


def dedup_share(trace: Sequence[TraceStep]) -> float:
    """Return the share of candidates that deduplication removed, 0 to 1."""
    came, left = dedup_counts(trace)
    return (came - left) / came if came else 0.0


def is_dedup_share_high(trace: Sequence[TraceStep]) -> bool:
    """Return whether deduplication removed too many of the candidates."""
    return dedup_share(trace) > _HIGH_DEDUP_SHARE and dedup_counts(trace)[0] >= _MIN_CANDIDATES


def dedup_sentence(trace: Sequence[TraceStep]) -> str:
    """Return what deduplication removed, with a warning if that is much."""
    came, left = dedup_counts(trace)
    much = (
        " - more than 30 %: the same texts stand in many places, `thumbindex duplicates` lists them"
        if is_dedup_share_high(trace)
        else ""
    )
    return (
        f"deduplication: {came:,} → {plural(left, 'candidate')} ({dedup_share(trace):.0%} taken "
        f"out as copies){much}"
    )


def phase_words(phase: str) -> str:
    """Return the name of an indexing phase."""
    return " ".join(_PHASES.get(phase, (phase, "steps"))).strip()


def progress_sentence(progress: Progress) -> str:
    """Return how far an indexing run is."""
    done, what = _PHASES.get(progress.phase, (progress.phase, "steps"))
    return (
        f"{done} {progress.done:,} of {progress.total:,} "
        f"{what.removesuffix('s') if progress.total == 1 else what}"
    )


def indexing_sentence(progress: Sequence[Progress]) -> str:
    """Return what is being indexed; empty if nothing is."""
    several = len({each.folder for each in progress}) > 1
    return "; ".join(
        f"{f'{each.folder}: ' if several else ''}{progress_sentence(each)} so far"
        for each in progress
    )


def freshness_sentence(found: Freshness | None) -> str:
    """Return which changes an answer may lack; empty if none, or if that was not asked."""
    if found is None:
        return ""
    sentences = []
    if found.behind:
        sentences.append(f"The last changes in {', '.join(found.behind)} may not be indexed yet.")
    if found.without_indexer:
        sentences.append(
            f"No process keeps {', '.join(found.without_indexer)} up to date: `thumbindex index` "
            "does it once, a server as long as it runs."
        )
    sentences += [lag_sentence(found.lag_seconds), missing_folders_sentence(found.missing)]
    return " ".join(sentence for sentence in sentences if sentence)


def lag_sentence(seconds: float) -> str:
    """Return how far a standby is behind its primary server; empty if it is not."""
    if not seconds:
        return ""
    return (
        f"The database is read from a standby that is {seconds:,.0f} s behind its primary server."
    )


def database_sentence(status: DatabaseStatus) -> str:
    """Return which server of a database answers, how far it is behind, and its connections."""
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


def missing_folders_sentence(folders: Sequence[str]) -> str:
    """Return which folders cannot be reached now; empty if all can."""
    if not folders:
        return ""
    return f"Not there now: {', '.join(folders)}; what the index holds of it is what was read last."


_OUTCOMES = {
    "shown": "is in the answer",
    "copy": "is named beside a copy",
    "dropped": "was found, but is not in the answer",
    "not_found": "was not found",
    "filtered": "was not searched",
    "not_indexed": "is not in the index",
}

_MAX_EDGES = 3
"""Maximum linking documents that are named, the best ranked first."""


def explanation_lines(found: Explanation) -> list[str]:
    """Return evidence, ranks and details of a passage's position."""
    stages = " → ".join(f"{each.stage} {each.rank}" for each in found.rank_by_stage)
    evidence = "; ".join(
        f"{each.retriever} rank {each.rank} ({each.score:.2f})" for each in found.evidence
    )
    sentences = (evidence, f"rank after {stages}" if stages else "", *explanation_details(found))
    return [sentence for sentence in sentences if sentence]


def explanation_details(found: Explanation) -> list[str]:
    """Return what fits no table: the matched name, terms, cosine, reranker score, links, and
    removed copies.
    """
    named = f"the query is its {found.name_kind}: it comes first" if found.name_kind else ""
    cosine = f"cosine {found.cosine:.2f}" if found.cosine is not None else ""
    reranked = f"reranker {found.reranked:.2f}" if found.reranked is not None else ""
    copies = [
        f"{copy.stage} took out {copy.path}:{copy.line}: {copy.reason}" for copy in found.copies
    ]
    near = "; ".join(each for each in (cosine, reranked) if each)
    sentences = [
        named,
        _matched_terms_sentence(found.terms),
        near,
        linked_from_sentence(found.edges),
        *copies,
    ]
    return [sentence for sentence in sentences if sentence]


def _matched_terms_sentence(found: Mapping[str, Sequence[str]]) -> str:
    """Return the fields that hold the query's terms, and the missing terms. The field `code` is
    named only if it is the only one.
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


def linked_from_sentence(edges: Sequence[Edge]) -> str:
    """Return the documents whose links led to a document; empty if none did."""
    named = [f"linked from {edge.path} (found as {edge.rank})" for edge in edges[:_MAX_EDGES]]
    more = f" and {len(edges) - _MAX_EDGES} more" if len(edges) > _MAX_EDGES else ""
    return ", ".join(named) + more


def outcome_sentence(found: WhyReport, several: bool = False) -> str:
    """Return what became of a note, and why."""
    heading = f"#{found.heading}" if found.heading else ""
    folder = f"{found.folder}: " if several and found.folder else ""
    by = f" (stage `{found.stage}`)" if found.outcome == "dropped" else ""
    return f"{folder}{found.path}{heading} {_OUTCOMES[found.outcome]}: {found.reason}{by}"


def why_details(found: WhyReport) -> list[str]:
    """Return what fits no table: a note's terms, cosine, missing vectors and state on disk."""
    lacking = (
        f"without a vector yet, found by words alone: {found.without_vector:,} of "
        f"{plural(found.chunks, 'chunk')}"
    )
    cosine = f"best cosine {found.cosine:.2f}" if found.cosine is not None else ""
    sentences = [
        f"searched for: {found.corrected}" if found.corrected else "",
        "; ".join(each for each in (_matched_terms_sentence(found.terms), cosine) if each),
        lacking if found.without_vector else "",
        *found.notes,
    ]
    return [sentence for sentence in sentences if sentence]


def why_lines(found: WhyReport, several: bool = False) -> list[str]:
    """Return what became of a note, its ranks and its details."""
    stages = " → ".join(
        f"{stage.stage} {stage.rank if stage.rank is not None else '-'}" for stage in found.stages
    )
    ranks = [f"rank after {stages}"] if stages else []
    return [outcome_sentence(found, several), *ranks, *why_details(found)]


# ------------------------------------------------------------------ whether citations hold

_MAX_QUOTATION_CHARS = 60
"""Maximum characters of a quotation."""


def verification_sentence(found: Verification) -> str:
    """Return how many citations have which state."""
    counts = Counter(citation.state for citation in found.citations)
    states = ", ".join(
        f"{counts[state]} {_citation_state_words(state)}"
        for state in get_args(CitationState)
        if counts[state]
    )
    uncited = f" {plural(found.uncited, 'quotation')} without a citation." if found.uncited else ""
    if found.citations:
        return f"{plural(len(found.citations), 'citation')}: {states}.{uncited}"
    return f"No citation of a note was found.{uncited}"


def _citation_state_words(state: CitationState) -> str:
    """Return the state of a citation as words."""
    return state.replace("_", " ")


def shortened_quotation(check: CitationCheck) -> str:
    """Return the beginning of the text that a citation is given for."""
    quotation = " ".join(check.quotation.split())
    return (
        quotation
        if len(quotation) <= _MAX_QUOTATION_CHARS
        else f"{quotation[:_MAX_QUOTATION_CHARS]}…"
    )


def citation_check_line(check: CitationCheck, several: bool) -> str:
    """Return the state of a citation, and the details unless it holds."""
    short = shortened_quotation(check)
    said = f' "{short}"' if short else ""
    line = f"{_citation_state_words(check.state)}: {check.citation}{said}"
    if check.state in {"moved", "changed"}:
        line += f" -> {f'{check.folder}: ' if several else ''}{check.now}"
    more = "; ".join(filter(None, (check.differs, check.reason)))
    return one_line(f"{line} ({more})" if more and check.state != "there" else line)
