"""Sentences and lines about answers, passages, folders and citations."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from thumbindex.model import (
    Answer,
    CitationCheck,
    CitationState,
    Edge,
    Excerpt,
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
    RetiredNote,
    TraceStep,
    TypedFilter,
    UnmetFilter,
    Verification,
    WhyReport,
)
from thumbindex.symbols import symbols, typed_symbols
from thumbindex.text import line_range, one_line, plural, words

if TYPE_CHECKING:
    from thumbindex.opening import OpenOptions

_BACKTICKS = re.compile(r"`{3,}")


def fenced(text: str) -> str:
    """Return a note's text in a fenced block.

    The fence is longer than any run of backticks in the text.
    """
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}note\n{text}\n{fence}"


CHECK_GLOB = "Check its spelling in `corpus.private.globs`; it is relative to the folder."


def unmatched_glob_warning(glob: str) -> str:
    """Return a warning that a private glob matches nothing."""
    return f"The private glob {glob!r} matches no note"


SIMILAR_TITLE = "Most similar"
"""Heading of the list of notes with a similar meaning."""

_MAX_MISSING = 3
"""Maximum words of a query that are named because no note has them."""

MAX_COPIES = 3
"""Maximum copies whose locations are listed."""

_DEDUP_STAGES = (
    "dedup_versions",
    "dedup_known",
    "dedup_hash",
    "deduplicate",
    "dedup_ngram",
    "dedup_semantic",
)
"""Stages that remove repeated candidates."""

PASSAGE_METADATA = ("created", "updated", "file_time", "status", "owner")
"""Metadata fields shown for a passage that has copies or contradictions."""

_HIGH_DEDUP_SHARE = 0.30
"""Share of removed candidates above which a warning is shown.

A share of 5 to 20 % is normal.
"""

_MIN_CANDIDATES = 10
"""Minimum candidates for a warning about the share of removed candidates."""

_PHASES = {
    "words": ("indexed", "notes"),
    "vectors": ("embedded", "passages"),
    "publishing texts": ("published", "notes"),
    "publishing words": ("published words of", "segments"),
    "publishing vectors": ("published", "vectors"),
}


def confidence_sentence(answer: Answer, narrowed: Sequence[str] = (), several: bool = False) -> str:
    """Return the number of passages and the confidence, or that nothing was found.

    `narrowed` are the filters given as options of the command. With `several` folders, the folder
    of the best passage is named.
    """
    narrowed = (*narrowed, *(f"`{condition.as_typed}`" for condition in answer.filters))
    if answer.listed:
        match = "matches" if answer.listed == 1 else "match"
        shown = f", the newest first; shown: {len(answer.passages)}" if answer.listed > 1 else ""
        return f"{plural(answer.listed, 'note')} {match} {' and '.join(narrowed)}{shown}"
    if not answer.index.documents:
        return "Nothing found: no note is indexed here."
    if not answer.found:
        conditions = " and ".join(narrowed)
        is_unmet = any(not unmet.as_words for unmet in answer.unmet)  # filter_lines names them
        restriction = ""
        if narrowed and not is_unmet:
            restriction = f" Only notes that match {conditions} were searched."
        nearest = " The nearest passages probably do not answer it." if answer.passages else ""
        reason = "no passage is close enough to this query"
        if is_unmet:
            reason = f"no note matches {conditions or 'the filters'}"
        elif not words(answer.query) and symbols(answer.query):
            reason = f"no note has {one_line(answer.query.strip())}"
        elif not words(answer.query) and (signs := " ".join(typed_symbols(answer.query))):
            reason = f"no note has `{signs}` in code or between spaces"
        elif answer.missing:
            missing = (f"`{one_line(word)}`" for word in answer.missing[:_MAX_MISSING])
            reason = f"no note has {', '.join(missing)}"
        return f"Nothing found: {reason}.{restriction}{nearest}"
    warning = " - the passages may not answer this" if answer.confidence_level == "low" else ""
    best_folder = f", best in {one_line(answer.passages[0].folder)}" if several else ""
    return (
        f"{plural(len(answer.passages), 'passage')}, confidence {answer.confidence_level} "
        f"({rounded_down(answer.confidence):.2f}){best_folder}{warning}"
    )


def weaker_lines(answer: Answer, limit: str) -> list[str]:
    """Return a line with the number of weaker passages, if any, and the `limit` that shows them."""
    if not answer.weaker:
        return []
    ones = "one" if answer.weaker == 1 else "ones"
    return [f"{answer.weaker} weaker {ones}: {limit} {len(answer.passages) + answer.weaker}"]


def rounded_down(share: float) -> float:
    """Round a share down to two decimals, so that rounding never lifts it to a threshold."""
    return math.floor(round(100 * share, 6)) / 100


_UNMET = {
    "tag": "No note has the tag #{}",
    "path": "No path matches {}",
    "file": "No note has the file name {}",
    "title": "No title contains {}",
    "words": 'No passage contains "{}"',
    "property": "No note matches {}",
}


def filter_lines(
    filters: Sequence[TypedFilter], unmet: Sequence[UnmetFilter], undated: int
) -> list[str]:
    """Return lines about the filters in a query.

    They list the filters, those that match nothing (with similar names), and the number of notes
    without a date.
    """
    lines = [f"Filters: {' '.join(condition.as_typed for condition in filters)}"] if filters else []
    for condition in unmet:
        mark = "#" if condition.field == "tag" else ""
        sentence, prefix = _UNMET[condition.field], ""
        if condition.field == "property" and condition.value.startswith("has:"):
            sentence, prefix = "No note has the property {}", "has:"
        nearest = ", ".join(f"{mark}{name.removeprefix(prefix)}" for name in condition.nearest)
        suggestion = (
            f": nearest {'is' if len(condition.nearest) == 1 else 'are'} {nearest}."
            if nearest
            else "."
        )
        as_words = " It was searched for as words." if condition.as_words else ""
        sentence = sentence.format(condition.value.removeprefix(prefix))
        lines.append(f"{sentence}{suggestion}{as_words}")
    if undated:
        notes = f"{undated:,} notes have no date of their own"
        if undated == 1:
            notes = "1 note has no date of its own"
        lines.append(f"{notes}: `since` and `until` exclude them.")
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
    """Return one line per heading, indented by its level, or one line per note."""
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
    """Return a note's neighbors by kind: the first `limit`, then how many more there are."""
    groups: tuple[tuple[str, Sequence[str]], ...] = (
        ("Links to", related.links),
        ("Linked from", related.backlinks),
        ("Links that lead nowhere", related.dangling),
        (SIMILAR_TITLE, [f"{note.path} ({note.score:.2f})" for note in related.similar]),
    )
    more = {
        title: [f"… and {len(names) - limit:,} more"] if len(names) > limit else []
        for title, names in groups
    }
    return [(title, [*map(one_line, names[:limit]), *more[title]]) for title, names in groups]


def index_sentence(state: IndexState) -> str:
    """Return how many notes and vectors the index has."""
    if not state.documents:
        return "index: empty so far"
    vectors = f"{state.vectors:,} of {plural(state.chunks, 'passage')}"
    limitation = ""
    if state.is_refining:
        limitation = ", refining the rest"
    elif state.pending:
        limitation = ", the rest by keywords only"
    return f"index: {plural(state.documents, 'note')}; vectors: {vectors}{limitation}"


NO_MARKDOWN = (
    "No Markdown files found. Check the folder's path, your globs (`corpus.include`, "
    "`corpus.exclude`) and ignore files."
)


def missing_vectors_sentence(
    state: IndexState, command: str = "thumbindex index --complete"
) -> str:
    """Return how many passages lack an exact vector, and the command; empty if none does.

    Without a command, a server computes them.
    """
    if not state.pending or (state.is_refining and not command):
        return ""
    pending = f"{state.pending:,} of {plural(state.chunks, 'passage')}"
    if state.is_refining:
        return (
            f"{pending} have estimated vectors, so the order may still change: "
            f"`{command}` computes the rest."
        )
    if not command:
        return f"Only words find {pending} so far: a server is computing the vectors."
    return f"To find {pending} by meaning too, run `{command}`."


ModelState = Literal["loading", "none", "loaded"]
"""Whether the model that embeds queries is loaded."""

_MISSING_MODEL: Mapping[ModelState, str] = {
    "loading": "; keywords only this time: the model is not loaded (yet)",
    "none": "; keywords only: the model could not be loaded",
    "loaded": "",  # filters may exclude everything with a vector
}


def answer_footer(
    answer: Answer, progress: Sequence[Progress] = (), model: ModelState = "loading"
) -> str:
    """Return how much was searched, the freshness of the index, and the indexing progress."""
    fresh = "; everything on disk is indexed" if answer.freshness and answer.freshness.fresh else ""
    doing = f"; {indexing_sentence(progress)}" if progress else ""
    return f"{index_sentence(answer.index)}{missing_model_sentence(answer, model)}{fresh}{doing}"


def missing_model_sentence(answer: Answer, model: ModelState = "loading") -> str:
    """Return a notice if only keywords were searched because no model was loaded; else ""."""
    unasked = answer.index.has_vectors and any(
        step.stage == "search_vector" and not step.size_out for step in answer.trace
    )
    return _MISSING_MODEL[model] if unasked else ""


def place_name(place: Place, several: bool = False) -> str:
    """Return a location such as `path (lines 3-5)`, with `several` folders `folder: path (…)`."""
    folder = f"{place.folder}: " if several else ""
    return f"{folder}{place.path} ({line_range(place.start_line, place.end_line)})"


def flag_lines(flags: Sequence[str], lines: tuple[int, int]) -> list[str]:
    """Return a warning for each flag in the lines from `lines[0]` to `lines[1]`."""
    parts = (flag.partition(": ") for flag in flags)
    return [
        f"flagged, line {line}: {reason}"
        for line, _, reason in parts
        if lines[0] <= int(line) <= lines[1]
    ]


def excerpt_place(excerpt: Excerpt) -> str:
    """Return which part of its note an excerpt is: `lines 3-5 of 20`."""
    lines = line_range(excerpt.start_line, excerpt.end_line)
    inside = f" from character {excerpt.start_character}" if excerpt.start_character > 1 else ""
    return f"{lines}{inside} of {excerpt.total_lines}"


def rest_sentence(excerpt: Excerpt) -> str:
    """Return where to read on after a cut excerpt, or an empty string."""
    if (rest := excerpt.rest) is None:
        return ""
    cut = "cut here" if rest.character == 1 else f"line {rest.first} is cut here"
    first = rest.first_place
    lines = f"line {first}" if rest.first == rest.last else f"lines {first}-{rest.last}"
    return f"({cut}: continue with {lines})"


def passage_flag_lines(passage: Passage) -> list[str]:
    """Return a warning for each flag in a passage's lines."""
    return flag_lines(passage.flags, (passage.start_line, passage.end_line))


def hidden_text_sentence(notes: int) -> str:
    """Return how many notes contain hidden text or instructions to a model."""
    return (
        f"{'1 note contains' if notes == 1 else f'{notes:,} notes contain'} hidden text or "
        "instructions to a model"
    )


def folder_state_sentence(status: FolderStatus) -> str:
    """Return the state of a folder's index in a few words."""
    state, pending = status.index, ""
    if state.is_refining:
        pending = f"refining {plural(state.refining, 'passage')}"
    elif state.pending:
        pending = f"{plural(state.pending, 'passage')} without vectors"
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
        return "folder missing"
    return status.failure or ("files missing" if status.unfinished else pending) or "ready"


FEW_PROBLEMS = 3
"""Maximum problems in notes that commands list unasked."""


def problems_hint(opening: OpenOptions) -> str:
    """Return how to list all problems in notes."""
    return f"`{opening.command('status --problems')}` lists them"


def folder_warning_lines(
    status: FolderStatus, opening: OpenOptions, limit: int | None = FEW_PROBLEMS
) -> list[str]:
    """Return the warnings about a folder. More than `limit` problems in notes are only counted."""
    lines = list[str]()
    if status.is_missing:
        lines.append(
            "the folder is missing: if it is gone for good, delete its index with "
            f"`{opening.command('forget', status.root)}`"
        )
    if status.unfinished:
        lines.append(
            "the last indexing run was interrupted, and files are missing: run "
            f"`{opening.command('index', status.root)}` to continue"
        )
    skipped, flagged = problem_lines(status.skipped), problem_lines(status.flagged)
    if limit is not None and len(skipped) > limit:
        lines.append(f"{len(skipped):,} problems in notes: {problems_hint(opening)}")
    else:
        lines += skipped
    if status.flagged_count:
        few = limit is None or len(flagged) <= limit
        todo = "review this" if few else problems_hint(opening)
        lines.append(f"{hidden_text_sentence(status.flagged_count)}: {todo}")
        lines += flagged if few else ()
    return lines


def problem_lines(problems: Sequence[Problem]) -> list[str]:
    """Return one line for each problem."""
    return list(
        dict.fromkeys(
            f"{problem.path}:{problem.line}: {problem.reason}"
            if problem.line
            else f"{problem.path}: {problem.reason}"
            for problem in problems
        )
    )


def passage_context_lines(passage: Passage, name: Callable[[Place], str]) -> list[str]:
    """Return why a passage is not in force, its copies, metadata and contradictions."""
    lines = [retired_line(passage), *copy_lines(passage, name), passage_metadata(passage)]
    return [line for line in (*lines, *disagreement_lines(passage)) if line]


def retired_line(passage: Passage) -> str:
    """Return why the note of a passage is not in force, and its successor; empty if it is."""
    return "" if passage.in_force else f"not in force: {retirement(passage)}"


def retirement(note: Passage | RetiredNote) -> str:
    """Return why a note is not in force: `superseded by new.md (2026-03-01)`."""
    day = f" ({note.successor_date})" if note.successor_date else ""
    return f"{note.retired} by {note.successor}{day}" if note.successor else note.retired


def retired_note_sentence(note: RetiredNote) -> str:
    """Return why a note is not in force, and which of its successors are missing."""
    are = "is" if len(note.missing) == 1 else "are"
    missing = f"{', '.join(note.missing)}, which {are} not in the index" if note.missing else ""
    if missing and note.retired == "superseded" and not note.successor:
        return f"superseded by {missing}"
    return f"{retirement(note)}; also by {missing}" if missing else retirement(note)


def passage_metadata(passage: Passage) -> str:
    """Return a passage's date, or all metadata if the passage has copies or contradictions."""
    metadata = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name in PASSAGE_METADATA
        if (value := getattr(passage, name))
    )
    if metadata and (passage.also_in or passage.disagrees):
        return metadata
    day = passage.updated or passage.created
    return f"dated {day}" if day else ""


def copy_lines(
    passage: Passage, name: Callable[[Place], str], fits: Callable[[str], bool] = lambda line: True
) -> list[str]:
    """Return a line with the first copies' locations, and how many more there are.

    The line has at least one location, and as many more as it `fits`. No copies, no line.
    """
    names = [name(place) for place in passage.also_in]
    lines = list[str]()
    for shown in range(1, min(len(names), MAX_COPIES) + 1):
        more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
        lines.append(f"also in: {', '.join(names[:shown])}{more}")
    return [line for line in lines if fits(line)][-1:] or lines[:1]


def disagreement_lines(passage: Passage) -> list[str]:
    """Return one line for each passage that contradicts `passage`."""
    sentences = []
    for other in passage.disagrees:
        place = line_range(other.start_line, other.end_line)
        if other.date:
            place = f"{place}, {other.date}"
        sentences.append(f"these two disagree: {other.differs} in {other.path} ({place})")
    return sentences


def dedup_counts(trace: Sequence[TraceStep]) -> tuple[int, int]:
    """Return the number of candidates before and after deduplication."""
    steps = [step for step in trace if step.stage in _DEDUP_STAGES]
    return (steps[0].size_in, steps[-1].size_out) if steps else (0, 0)


def dedup_share(trace: Sequence[TraceStep]) -> float:
    """Return the share of candidates that deduplication removed, 0 to 1."""
    before, after = dedup_counts(trace)
    return (before - after) / before if before else 0.0


def is_dedup_share_high(trace: Sequence[TraceStep]) -> bool:
    """Return whether deduplication removed so many candidates that a warning is due."""
    return dedup_share(trace) > _HIGH_DEDUP_SHARE and dedup_counts(trace)[0] >= _MIN_CANDIDATES


def dedup_sentence(trace: Sequence[TraceStep]) -> str:
    """Return how many candidates deduplication removed, with a warning if these are too many."""
    before, after = dedup_counts(trace)
    warning = (
        " - more than 30 %: many passages are repeated; `thumbindex duplicates` lists them"
        if is_dedup_share_high(trace)
        else ""
    )
    return (
        f"deduplication: {before:,} → {plural(after, 'candidate')} ({dedup_share(trace):.0%} "
        f"removed as copies){warning}"
    )


def phase_words(phase: str) -> str:
    """Return the name of an indexing phase."""
    return " ".join(_PHASES.get(phase, (phase, "steps"))).strip()


def progress_sentence(progress: Progress) -> str:
    """Return the progress of an indexing run."""
    verb, unit = _PHASES.get(progress.phase, (progress.phase, "steps"))
    return (
        f"{verb} {progress.done:,} of {progress.total:,} "
        f"{unit.removesuffix('s') if progress.total == 1 else unit}"
    )


def indexing_sentence(progress: Sequence[Progress]) -> str:
    """Return the progress of all indexing runs; empty if there are none."""
    several = len({run.folder for run in progress}) > 1
    return "; ".join(
        f"{f'{run.folder}: ' if several else ''}{progress_sentence(run)} so far" for run in progress
    )


def freshness_sentence(freshness: Freshness | None) -> str:
    """Return sentences about changes that an answer may lack; empty if none are known."""
    if freshness is None:
        return ""
    sentences = []
    if freshness.behind:
        sentences.append(
            f"The last changes in {', '.join(freshness.behind)} may not be indexed yet."
        )
    if freshness.without_indexer:
        sentences.append(
            f"No process keeps {', '.join(freshness.without_indexer)} up to date: run `thumbindex "
            "index` now, or a server to keep it up to date."
        )
    sentences.append(missing_folders_sentence(freshness.missing))
    return " ".join(sentence for sentence in sentences if sentence)


def missing_folders_sentence(folders: Sequence[str]) -> str:
    """Return a sentence that names the missing folders; empty if there are none."""
    if not folders:
        return ""
    return f"Missing now: {', '.join(folders)}; answers use the notes as last indexed."


_OUTCOMES = {
    "shown": "is in the answer",
    "copy": "is listed as a copy",
    "dropped": "was found, but is not in the answer",
    "not_found": "was not found",
    "filtered": "was not searched",
    "not_indexed": "is not in the index",
}

_MAX_EDGES = 3
"""Maximum notes listed that link to a passage. Further notes are only counted."""


def explanation_lines(explanation: Explanation) -> list[str]:
    """Return lines that explain a passage's rank: evidence, rank after each stage, details."""
    stages = " → ".join(f"{stage.stage} {stage.rank}" for stage in explanation.rank_by_stage)
    evidence = "; ".join(
        f"{match.retriever} rank {match.rank} ({match.score:.2f})" for match in explanation.evidence
    )
    cosine = f"similarity {explanation.cosine:.2f}" if explanation.cosine is not None else ""
    reranked = f"reranker {explanation.reranked:.2f}" if explanation.reranked is not None else ""
    name = explanation.name_kind
    sentences = [
        evidence,
        f"rank after {stages}" if stages else "",
        f"the query is its {name}: it comes first" if name else "",
        matched_terms(explanation.terms),
        "; ".join(part for part in (cosine, reranked) if part),
        linked_from_sentence(explanation.edges),
        *(
            f"{copy.stage} removed {copy.path}:{copy.line}: {copy.reason}"
            for copy in explanation.copies
        ),
    ]
    return [sentence for sentence in sentences if sentence]


_MAX_TERMS = 8
"""Maximum terms of a query that are named together. Further terms are only counted."""


def matched_terms(fields_by_term: Mapping[str, Sequence[str]]) -> str:
    """Return which of the query's terms a passage or note has, where, and which it lacks.

        has "tea" in title and text, "cup" in text and lacks "milk"

    A term that is only in the field `code` is marked "as written".
    """
    terms_by_place: dict[str, list[str]] = {}
    for term, fields in fields_by_term.items():
        # the best field is enough: a title is often repeated in the path and the headings
        named = [name for name in fields if name not in {"body", "code"}][:1]
        named += ["text"] if "body" in fields else []
        place = f"in {_and(named)}" if named else "as written" if fields else ""
        terms_by_place.setdefault(place, []).append(f'"{term}"')
    lacking = terms_by_place.pop("", [])
    has = [f"{_and(terms)} {place}" for place, terms in terms_by_place.items()]
    has[:1] = [f"has {has[0]}"] if has else []
    return _and([*has, f"lacks {_and(lacking)}"] if lacking else has)


def _and(items: Sequence[str]) -> str:
    if len(items) > _MAX_TERMS:
        items = [*items[: _MAX_TERMS - 1], f"{len(items) - _MAX_TERMS + 1:,} more"]
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def linked_from_sentence(edges: Sequence[Edge]) -> str:
    """Return the notes through whose links a passage was found; empty if there are none."""
    sources = [f"linked from {edge.path} (rank {edge.rank})" for edge in edges[:_MAX_EDGES]]
    more = f" and {len(edges) - _MAX_EDGES} more" if len(edges) > _MAX_EDGES else ""
    return ", ".join(sources) + more


def outcome_sentence(report: WhyReport, several: bool = False) -> str:
    """Return a sentence that says whether a note is in the answer, and why."""
    heading = f"#{report.heading}" if report.heading else ""
    folder = f"{report.folder}: " if several and report.folder else ""
    stage = f" (stage `{report.stage}`)" if report.outcome == "dropped" and report.stage else ""
    return f"{folder}{report.path}{heading} {_OUTCOMES[report.outcome]}: {report.reason}{stage}"


def why_summary(report: WhyReport, several: bool = False) -> list[str]:
    """Return sentences: the outcome, the terms that a note has and lacks, what its owner can do."""
    terms = matched_terms(report.terms)
    is_missed = report.outcome in {"dropped", "not_found"} and not all(report.terms.values())
    lacking = (
        f"found by keywords only, since they have no vectors yet: {report.without_vector:,} of "
        f"{plural(report.chunks, 'passage')}"
    )
    advice = "To find it by the words that it lacks, put them into a heading or an alias."
    sentences = [
        outcome_sentence(report, several),
        f"It {terms}." if terms else "",
        advice if is_missed else "",
        lacking if report.without_vector else "",
    ]
    return [sentence for sentence in sentences if sentence]


def why_details(report: WhyReport) -> list[str]:
    """Return the corrected query, and a note's similarity."""
    sentences = [
        f"searched for: {report.corrected}" if report.corrected else "",
        f"best similarity {report.cosine:.2f}" if report.cosine is not None else "",
    ]
    return [sentence for sentence in sentences if sentence]


def why_lines(report: WhyReport, several: bool = False) -> list[str]:
    """Return a note's summary, ranks and details."""
    stages = " → ".join(
        f"{stage.stage} {stage.rank if stage.rank is not None else '-'}" for stage in report.stages
    )
    ranks = [f"rank after {stages}"] if stages else []
    return [*why_summary(report, several), *ranks, *why_details(report)]


# ------------------------------------------------------------------ citations

_MAX_QUOTATION_CHARS = 60
"""Maximum characters of a quotation."""


def verification_sentence(verification: Verification) -> str:
    """Return a sentence with the number of citations in each state."""
    counts = Counter(citation.state for citation in verification.citations)
    states = ", ".join(
        f"{counts[state]} {_citation_state_words(state)}"
        for state in get_args(CitationState)
        if counts[state]
    )
    uncited = (
        f" {plural(verification.uncited, 'quotation')} without a citation."
        if verification.uncited
        else ""
    )
    if verification.citations:
        return f"{plural(len(verification.citations), 'citation')}: {states}.{uncited}"
    return f"No citation of a note was found.{uncited}"


def _citation_state_words(state: CitationState) -> str:
    """Return the state of a citation as words."""
    return state.replace("_", " ")


def shortened_quotation(check: CitationCheck) -> str:
    """Return the quotation of a citation, cut after `_MAX_QUOTATION_CHARS`."""
    quotation = " ".join(check.quotation.split())
    return (
        quotation
        if len(quotation) <= _MAX_QUOTATION_CHARS
        else f"{quotation[:_MAX_QUOTATION_CHARS]}…"
    )


def citation_check_line(check: CitationCheck, now: str) -> str:
    """Return a citation with its state. Unless the state is `there`, add the details.

    `now` is the current place of a moved or changed text.
    """
    short = shortened_quotation(check)
    quotation = f' "{short}"' if short else ""
    line = f"{_citation_state_words(check.state)}: {check.citation}{quotation}"
    if check.state in {"moved", "changed"}:
        line += f" -> {now}"
    details = "; ".join(filter(None, (check.differs, check.reason)))
    return one_line(f"{line} ({details})" if details and check.state != "there" else line)
