"""What each tool and resource answers: compact Markdown, and the same as structured content, within
a token budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from thumbindex.background.host import LibraryHost, never, tell_nobody
from thumbindex.errors import UsageError
from thumbindex.mcp.budget import (
    LEAST_TEXT,
    Shown,
    Size,
    cut_line,
    dump,
    fit_passages,
    line_sizer,
    lines_within,
    parts_within,
    rows_within,
)
from thumbindex.model import (
    Answer,
    CitationCheck,
    Excerpt,
    ListedNote,
    OutlineEntry,
    Passage,
    Progress,
    Query,
)
from thumbindex.present.as_json import (
    as_json,
    dedup_payload,
    deduplication_payload,
    excerpt_payload,
    freshness_payload,
    passage_payload,
    related_payload,
    status_payload,
)
from thumbindex.present.editor_links import passage_link
from thumbindex.present.sentences import (
    COPIES_SHOWN,
    PASSAGE_METADATA,
    ModelState,
    answer_footer,
    citation_check_line,
    confidence_sentence,
    dedup_sentence,
    disagreement_lines,
    explanation_lines,
    fenced,
    filter_lines,
    freshness_sentence,
    hidden_text_sentence,
    index_sentence,
    indexing_sentence,
    list_lines,
    missing_folders_sentence,
    outline_lines,
    passage_context_lines,
    passage_flag_lines,
    related_groups,
    shortened_quotation,
    verification_sentence,
    why_lines,
)
from thumbindex.text import (
    SCHEME,
    format_address,
    line_range,
    one_line,
    parse_address,
    parse_citation,
    plural,
)

if TYPE_CHECKING:
    from thumbindex.library import Library


# ------------------------------------------------------------------ documents as resources

TEMPLATE = SCHEME + "{folder}/{+path}"

MIME = "text/markdown"

LONGEST_URI = 16_384
"""Characters: a path of 4,096, each of its bytes encoded."""

PAGE = 200
"""Resources listed at once: a page of a large vault stays near 40 KB."""

MOST_COMPLETIONS = 100
"""What the protocol allows in one answer."""


def parse_uri(uri: str) -> tuple[str, str]:
    """Return folder and path of an address, a passage's too. Raises UsageError for what is none."""
    if len(uri) > LONGEST_URI:
        raise UsageError(
            f"An address of {len(uri):,} characters is not a resource of this server: the "
            f"longest has {LONGEST_URI:,}."
        )
    address = parse_address(uri)
    if address is None:
        raise UsageError(
            f"{uri} is not a resource of this server: their addresses read {TEMPLATE}."
        )
    return address.folder, address.path


def _resource_link(folder: str, path: str) -> dict[str, Any]:
    """Return a link to a document, as the protocol writes it."""
    return {
        "type": "resource_link",
        "uri": format_address(folder, path),
        "name": one_line(path),
        "mimeType": MIME,
    }


def list_page(library: Library, cursor: str | None) -> tuple[tuple[OutlineEntry, ...], str | None]:
    """Return one page of documents and the cursor of the next; a cursor is the address of the last
    one listed.
    """
    after = ("", "") if cursor is None else parse_uri(cursor)
    # By comparing, not by position: documents come and go between two pages.
    page = library.browse(
        lambda every: (each for each in every if (each.folder, each.path) > after), PAGE + 1
    )
    more = len(page) > PAGE
    return page[:PAGE], format_address(page[PAGE - 1].folder, page[PAGE - 1].path) if more else None


def complete(
    library: Library, argument: str, value: str, folder: str | None = None
) -> tuple[list[str], bool]:
    """Return values for the template's `folder` or `path` that match what is typed, and whether
    there are more of them.
    """
    folders = [name for name, _ in library.folders]
    values: Iterable[str] = ()
    if argument == "folder":
        values = sorted(each for each in folders if value.casefold() in each.casefold())
    if argument == "path":
        most = len(folders) * (MOST_COMPLETIONS + 1)
        found = library.named_like(value, most, folder=folder if folder in folders else None)
        values = (each.path for each in found)
    first = list(dict.fromkeys(values))  # a path of two folders comes once
    return first[:MOST_COMPLETIONS], len(first) > MOST_COMPLETIONS


# ------------------------------------------------------------------ the answer to a question

_DROPPED_LISTED = 5
"""Of what a stage dropped: an explanation is for reading, `query --json` has all of it."""

_WHY_AROUND = 100
"""Tokens of what stands around why a note is no answer."""

_EXPLAINED = 4
"""How many times as long as any other an explained answer may be that was given no budget: who asks
why wants to see the passages, too.
"""

_ASKED = ("also", "passage", "limit", "folder", "path", "tag", "since", "until")
"""Arguments of `query` beside its text; the others are about the answer's form."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's answer in both forms."""

    text: str
    structured: dict[str, Any]
    links: tuple[dict[str, Any], ...] = ()  # to the documents that it speaks of


@dataclass(frozen=True, slots=True)
class PassageForm:
    """How the passages of one answer are written."""

    several: bool = False  # folders: then each is named
    explain: bool = False
    # about what each note costs to read, by folder and path
    note_tokens: Mapping[tuple[str, str], int] = field(default_factory=dict)
    link: Callable[[Passage], str] = lambda _: ""  # what opens it in a program

    def cost(self, shown: Shown, size: Size) -> int:
        """Return the tokens of a passage in the larger of its two forms, with its link."""
        passage = shown.passage
        link = (
            size(dump(_resource_link(passage.folder, passage.path))) if shown.form == "text" else 0
        )
        return 1 + max(size(self.as_text(shown)) + link, size(dump(self.as_payload(shown))))

    def as_text(self, shown: Shown) -> str:
        """Return a passage under its citation; without its text only where it stands."""
        passage = shown.passage
        folder = f"{passage.folder}: " if self.several else ""
        head = f"## {passage.rank}. {one_line(folder + passage.citation)}"
        if shown.form == "held":
            return f"{head}\n(you hold it: {shown.id})"
        first, last = shown.section
        if shown.form == "citation":
            said = [
                *passage_flag_lines(passage),
                *disagreement_lines(passage),
                f"no room for its text, {plural(shown.left_out, 'token')}: `read` it",
            ]
            return "\n".join([head, *(f"({one_line(line)})" for line in said)])
        cut = (
            f"cut out of {line_range(first, last)}, {shown.left_out:,} tokens more; "
            if shown.left_out
            else ""
        )
        link = f"; {written}" if (written := self.link(passage)) else ""
        cost = (
            f"id {shown.id}; {cut}the whole note: about {self._note_tokens(passage):,} tokens{link}"
        )
        explained = explanation_lines(passage.explanation) if passage.explanation else []
        lines = (*passage_flag_lines(passage), *passage_context_lines(passage), *explained, cost)
        return "\n".join([head, fenced(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: Shown) -> dict[str, Any]:
        """Return the same as structured content."""
        passage = shown.passage
        place: dict[str, Any] = {
            "citation": passage.citation,
            "id": shown.id,
            "address": format_address(passage.folder, passage.path, passage.heading, shown.digest),
            "folder": passage.folder,
            "path": passage.path,
        }
        lines = {"start_line": passage.start_line, "end_line": passage.end_line}
        if shown.form == "held":
            return {**place, **lines, "seen": True}
        first, last = shown.section
        rest = {"start_line": first, "end_line": last, "tokens": shown.left_out}
        if shown.form == "citation":
            del place["address"]
            return {**place, "rest": rest} | self._warnings(passage)
        cost: dict[str, Any] = {"note_tokens": self._note_tokens(passage)}
        if link := self.link(passage):
            cost["link"] = link
        if shown.left_out:
            cost["rest"] = rest
        if self.explain:
            return {**place, **passage_payload(passage), **cost}
        found = {**place, **lines, "text": passage.text, **cost}
        if passage.cluster_size > 1:
            found["dedup"] = dedup_payload(passage)
        found |= self._warnings(passage)
        if passage.also_in:
            found["also_in"] = as_json(passage.also_in[:COPIES_SHOWN])
            if more := len(passage.also_in) - len(found["also_in"]):
                found["also_in_more"] = more
        if passage.also_in or passage.disagrees:
            found |= {name: value for name in PASSAGE_METADATA if (value := getattr(passage, name))}
        elif day := passage.updated or passage.created:
            found["date"] = day
        return found

    def _warnings(self, passage: Passage) -> dict[str, Any]:
        warnings = {
            "flagged": passage_flag_lines(passage),
            "disagrees": as_json(passage.disagrees),
        }
        return {name: value for name, value in warnings.items() if value}

    def _note_tokens(self, passage: Passage) -> int:
        return self.note_tokens.get((passage.folder, passage.path), 0)


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around an answer's passages."""

    answer: Answer
    progress: tuple[Progress, ...] = ()
    narrowed: Sequence[str] = ()  # the filters that were given
    lacking: str = ""  # of what is on disk, in words
    explain: bool = False
    has_model: bool = False

    def reply(self, shown: Sequence[Shown], form: PassageForm, room: int, size: Size) -> Reply:
        """Write the answer, with as much of the frame as fits."""
        first, *rest = self._head()
        first = cut_line(first, room, size)
        head = [first, *rows_within(rest, room - size(first), size)]
        foot = rows_within(self._foot(), room - sum(map(size, head)), size)
        left_out = len(self.answer.passages) - len(shown)
        more = [f"{left_out} more left out: raise `max_tokens` to see them."] if left_out else []
        structured = self._structured(room, size)
        structured["results"] = [form.as_payload(each) for each in shown]
        if left_out:
            structured["left_out"] = left_out
        links = dict.fromkeys(
            (each.passage.folder, each.passage.path) for each in shown if each.form == "text"
        )
        return Reply(
            "\n\n".join(["\n".join(head), *map(form.as_text, shown), *more, *foot]),
            structured,
            tuple(_resource_link(*place) for place in links),
        )

    def _head(self) -> list[str]:
        answer = self.answer
        corrected = f"Searched for: {answer.corrected}. " if answer.corrected else ""
        advice = "" if answer.answerable else " Say so, or try other words."
        filters = filter_lines(answer.filters, answer.unmet, answer.undated)
        sure = f"{corrected}{confidence_sentence(answer, self.narrowed)}{advice}"
        return [sure, *filter(None, [self.lacking]), *filters]

    def _foot(self) -> list[str]:
        trace = self.answer.trace
        steps = [
            f"{each.stage}: {each.size_in} -> {each.size_out}, {each.moved} moved" for each in trace
        ]
        explained = ["\n".join([*steps, dedup_sentence(trace)])] if self.explain else []
        model: ModelState = "loaded" if self.has_model else "loading"
        return [*explained, answer_footer(self.answer, self.progress, model)]

    def _structured(self, room: int, size: Size) -> dict[str, Any]:
        """Return what is said beside the results, the most important first."""
        answer = self.answer
        sure: dict[str, Any] = {
            "answerable": answer.answerable,
            "confidence": round(answer.confidence, 4),
            "confidence_level": answer.confidence_level,
            "kind": str(answer.kind),
            "results": [],
            "index": as_json(answer.index),
        }
        given = {
            "corrected": answer.corrected,
            "undated": answer.undated,
            "listed": answer.listed,
            "unmet": as_json(answer.unmet),
            "filters": as_json(answer.filters),
            "nearest": as_json(answer.nearest),
        }
        state = freshness_payload(answer.freshness)
        if self.progress:
            state["progress"] = as_json(self.progress)
        explained: dict[str, Any] = {}
        if self.explain:
            explained["deduplication"] = deduplication_payload(answer.trace)
            explained["trace"] = [
                as_json(replace(step, dropped=step.dropped[:_DROPPED_LISTED]))
                for step in answer.trace
            ]
        given = {name: value for name, value in given.items() if value}
        parts = parts_within({**state, **given, **explained}, room - size(dump(sure)), size)
        index = {name: parts.pop(name) for name in state if name in parts}
        return sure | {"index": sure["index"] | index} | parts


def reply_query(
    library: Library,
    arguments: Mapping[str, Any],
    progress: Callable[[], Sequence[Progress]] = tuple,
    tell: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = never,
    attended: Callable[[], bool] = never,
    unmade: Sequence[str] = (),
) -> Reply:
    """Answer a question; `progress` says what is being indexed, `tell` hears how far a wait is,
    `interrupted` ends one.

    `attended` says that somebody indexes, or is about to, `unmade` why there is no index of some of
    the folders. Links that open notes are for callers on this machine.
    """
    given: Any = {name: arguments.get(name) for name in _ASKED}
    asked = Query.of(arguments["query"], **given)
    if "why" in arguments:
        return _reply_why(library, asked, arguments)
    explain, has_model = bool(arguments.get("explain")), library.models_ready
    answer = library.query(
        asked,
        wait_fresh=arguments.get("wait_fresh", 0.0),
        explain=explain,
        progress=tell,
        interrupted=interrupted,
        attended=attended,
    )
    several = len(library.folders) > 1
    narrowed = [f"`{name}`" for name in dict(asked.filters.given()) if name != "folder"]
    lacking = (
        freshness_sentence(answer.freshness)
        if answer.freshness
        else missing_folders_sentence(library.away())
    )
    lacking = " ".join(filter(None, (lacking, *unmade)))
    roots, links = dict(library.folders), library.config.serve.links if library.is_near else "none"
    form = PassageForm(
        several,
        explain,
        library.note_tokens(answer.passages),
        lambda each: passage_link(each, roots[each.folder], links),
    )
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * (
        _EXPLAINED if explain else 1
    )
    frame = Frame(answer, tuple(progress()), narrowed, lacking, explain, has_model)
    with_marks = cache(lambda: {each.rank: each for each in library.marked(answer).passages})
    return within(
        tokens,
        library.count_tokens,
        frame,
        form,
        arguments.get("seen", ()),
        lambda passage: with_marks()[passage.rank],
    )


def within(
    tokens: int,
    size: Size,
    frame: Frame,
    form: PassageForm,
    held: Collection[str] = (),
    marked: Callable[[Passage], Passage] = lambda passage: passage,
) -> Reply:
    """Write an answer of at most so many tokens."""
    size, passages = cache(size), frame.answer.passages
    around = tokens // 2
    room = tokens - count_reply(frame.reply((), form, around, size), size)
    while room > 0:
        shown = fit_passages(passages, room, lambda each: form.cost(each, size), size, held, marked)
        reply = frame.reply(shown, form, around, size)
        over = count_reply(reply, size) - tokens
        if over <= 0:
            return reply
        room -= over  # a token may go over a seam: the whole is counted
    return frame.reply((), form, around, size)


def count_reply(reply: Reply, size: Size) -> int:
    """Return the tokens of a reply in the larger of its two forms: its text with the links, and its
    structured content.
    """
    return max(
        size(reply.text) + sum(size(dump(each)) for each in reply.links),
        size(dump(reply.structured)),
    )


def _reply_why(library: Library, asked: Query, arguments: Mapping[str, Any]) -> Reply:
    """Tell why a note is, or is not, among the answers to a question."""
    found = library.why(arguments["why"], asked)
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * _EXPLAINED
    size = library.count_tokens
    lines = [*map(one_line, why_lines(found, len(library.folders) > 1))]
    if not library.models_ready:
        lines.append("keywords only this time: the model is still being loaded")
    room = tokens - _WHY_AROUND
    first = cut_line(lines[0], room, size)
    shown = [first, *rows_within(lines[1:], room - size(first), size)]
    if left_out := len(lines) - len(shown):
        shown.append(f"(lines left out: {left_out}; raise `max_tokens` to see them)")
    parts = as_json(found)
    why = parts_within(parts, room, size)
    if gone := [name for name in parts if name not in why]:
        why["left_out"] = gone
    return Reply(
        "\n".join(shown),
        {"answerable": found.answerable, "results": [], "index": {}, "why": why},
    )


def ask(
    background: LibraryHost,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = tell_nobody,
    interrupted: Callable[[], bool] = never,
    is_near: bool = True,
) -> Reply:
    """Answer a question once there are words to search, and the model where it comes in time."""
    background.await_words(tell=tell, interrupted=interrupted)
    background.await_model(interrupted)
    return reply_query(
        background.library() if is_near else background.library().from_afar(),
        arguments,
        background.progress,
        tell,
        interrupted,
        attended=lambda: background.is_attended,
        unmade=background.unmade(),
    )


# ------------------------------------------------------------------ the other tools

_VERIFIED_AROUND = 60
"""Tokens of what stands around the citations of a verification."""

_ERROR_SHOWN = 200
"""Characters of a path that could not be read; of the error, twice as many."""

_PROBLEMS_LISTED = 5
"""Of what is wrong with a folder's files: `thumbindex status --json` has all of it."""


def reply_read(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Read a document, a part of it, or several, within one budget."""
    paths, folder, heading, lines = (
        arguments["path"],
        *(arguments.get(name) for name in ("folder", "heading", "lines")),
    )
    if len(paths) > 1:
        if heading is not None or lines is not None:
            raise UsageError(
                "`heading` and `lines` go with one path: of several, write each as "
                "path#heading or path:12-40."
            )
        return _reply_several(library, paths, folder)
    excerpt = library.read(paths[0], folder=folder, heading=heading, lines=lines)
    shown = _cut_excerpt(excerpt, library.config.serve.read_tokens, library.count_tokens)
    return Reply(
        _excerpt_text(excerpt, shown),
        _excerpt_cut(excerpt, shown),
        (_resource_link(excerpt.folder, excerpt.path),),
    )


def _reply_several(library: Library, paths: Sequence[str], folder: str | None) -> Reply:
    """Read several in the order given until the budget ends, and name the rest."""
    size, several = library.count_tokens, len(library.folders) > 1
    found, errors = library.read_each(paths, folder=folder)
    if not found:
        raise next(iter(errors.values()))
    failed = {
        path[:_ERROR_SHOWN]: one_line(f"{path[:_ERROR_SHOWN]}: {error}")[: 2 * _ERROR_SHOWN]
        for path, error in errors.items()
    }
    places = [f"{each.path}:{each.start_line}-{each.end_line}" for each in found]
    room = library.config.serve.read_tokens - size(dump(failed)) - size(dump(places))
    texts, notes = list[str](), list[dict[str, Any]]()

    def cost(excerpt: Excerpt, shown: Excerpt) -> int:
        link = size(dump(_resource_link(excerpt.folder, excerpt.path)))
        text = size(_excerpt_text(excerpt, shown, several))
        return max(text + link, size(dump(_excerpt_cut(excerpt, shown))))

    for excerpt in found:
        left = room - cost(excerpt, replace(excerpt, text=""))
        if left < LEAST_TEXT:
            break
        shown = _cut_excerpt(excerpt, left, size)
        room -= cost(excerpt, shown)
        texts.append(_excerpt_text(excerpt, shown, several))
        notes.append(_excerpt_cut(excerpt, shown))
        if shown != excerpt:
            break
    structured: dict[str, Any] = {"notes": notes}
    texts += failed.values()
    if failed:
        structured["errors"] = failed
    if rest := places[len(notes) :]:
        structured["left_out"] = rest
        texts.append(one_line(f"(left out: {', '.join(rest)}; read them apart)"))
    links = dict.fromkeys((each.folder, each.path) for each in found[: len(notes)])
    return Reply("\n\n".join(texts), structured, tuple(_resource_link(*each) for each in links))


def _cut_excerpt(excerpt: Excerpt, room: int, size: Size) -> Excerpt:
    """Return the first lines of an excerpt that fit."""
    text = lines_within(excerpt.text, room, line_sizer(size))
    if text == excerpt.text:
        return excerpt
    return replace(excerpt, text=text, end_line=excerpt.start_line + text.count("\n"))


def _excerpt_text(excerpt: Excerpt, shown: Excerpt, several: bool = False) -> str:
    """Write the lines that are shown of an excerpt under their place, and where the rest of them
    is.
    """
    head = (
        f"{f'{excerpt.folder}: ' if several else ''}{excerpt.path} "
        f"({line_range(excerpt.start_line, shown.end_line)} of {excerpt.total_lines})"
    )
    warned = "".join(f"\n({one_line(line)})" for line in excerpt_payload(shown).get("flagged", ()))
    rest = (
        f"\n\n(cut here: go on with {line_range(shown.end_line + 1, excerpt.end_line)})"
        if shown.end_line < excerpt.end_line
        else ""
    )
    return f"{one_line(head)}{warned}\n\n{fenced(shown.text)}{rest}"


def _excerpt_cut(excerpt: Excerpt, shown: Excerpt) -> dict[str, Any]:
    rest = {"start_line": shown.end_line + 1, "end_line": excerpt.end_line}
    return excerpt_payload(shown) | ({"rest": rest} if shown.end_line < excerpt.end_line else {})


def reply_outline(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List a document's headings, or the documents of a directory; directories with their counts
    where those are too many.
    """
    path = arguments.get("path", "")
    is_glob = "*" in path and not parse_citation(path)[1]  # a heading may have a star in it
    if any(name in arguments for name in ("tag", "since", "until")) or is_glob:
        return _reply_list(library, arguments)
    directory = (arguments.get("path") or "").strip("/").removeprefix("./")
    entries = library.outline(arguments.get("path"), folder=arguments.get("folder"))
    room, cost = library.config.serve.read_tokens, _row_cost(library.count_tokens)
    shown = rows_within(entries, room, cost)
    # A document's own entries begin with its title, at level 0 too.
    if len(shown) < len(entries) and all(each.level == 0 for each in entries):
        entries = _directories(entries, f"{directory}/" if directory not in {"", "."} else "")
        shown = rows_within(entries, room, cost)
    structured = {"entries": as_json(tuple(shown))}
    text = "\n".join(outline_lines(shown, len(library.folders) > 1))
    if left_out := len(entries) - len(shown):
        structured["left_out"] = left_out
        text += f"\n… {left_out} more: give a directory as `path`."
    return Reply(text, structured)


def _reply_list(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List the documents that filters let through, the newest first, with their dates and tags."""
    path, folder = arguments.get("path"), arguments.get("folder")
    given: Any = {name: arguments.get(name) for name in ("tag", "since", "until")}
    found = library.listing(
        path=(path,) if path else (), folder=(folder,) if folder else (), **given
    )
    room, cost = library.config.serve.read_tokens, _row_cost(library.count_tokens)
    shown = rows_within(found.notes, room, cost)
    entries = [
        {
            "folder": each.folder,
            "path": each.path,
            "heading": each.title,
            "date": each.date,
            "tags": list(each.tags),
        }
        for each in shown
    ]
    left_out = len(found.notes) - len(shown)
    lines = [
        *list_lines(shown, len(library.folders) > 1),
        *filter_lines((), found.unmet, found.undated),
    ]
    rest = [f"… {left_out} more: give `path`, `tag`, `since` or `until`."] if left_out else []
    about = {"left_out": left_out, "unmet": as_json(found.unmet), "undated": found.undated}
    return Reply(
        "\n".join([*lines, *rest]),
        {"entries": entries} | {name: value for name, value in about.items() if value},
    )


def _row_cost(size: Size) -> Callable[[OutlineEntry | ListedNote], int]:
    return lambda row: size(dump(as_json(row)) + ",")


def _directories(entries: Sequence[OutlineEntry], inside: str) -> tuple[OutlineEntry, ...]:
    """Return the directories below `inside` with how many documents each holds, in place of the
    documents.
    """
    below = ((each.folder, each.path[len(inside) :].partition("/")) for each in entries)
    counts = Counter((folder, inside + name + slash) for folder, (name, slash, _) in below)
    return tuple(
        OutlineEntry(folder, path, 0, plural(count, "document"), 1)
        for (folder, path), count in counts.items()
    )


def reply_related(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List what stands near a document."""
    limit = arguments.get("limit", 10)
    related = library.related(arguments["path"], folder=arguments.get("folder"), limit=limit)
    structured = related_payload(related, limit)
    lines = [
        one_line(related.path),
        *(
            f"{title}: {', '.join(names) or 'none'}"
            for title, names in related_groups(related, limit)
        ),
    ]
    paths = list(
        dict.fromkeys(
            (
                *structured["links"],
                *structured["backlinks"],
                *(each.path for each in related.similar),
            )
        )
    )[:limit]
    return Reply(
        "\n".join(lines), structured, tuple(_resource_link(related.folder, path) for path in paths)
    )


def reply_verify(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Say what became of the citations in a text; of those that hold no more than that."""
    found = library.verify(arguments["text"])
    several, size = len(library.folders) > 1, library.count_tokens
    head = verification_sentence(found)
    rows = [
        (f"{number}. {citation_check_line(check, several)}", _check_payload(check))
        for number, check in enumerate(found.citations, 1)
    ]
    room = library.config.serve.max_tokens - size(head) - _VERIFIED_AROUND
    shown = rows_within(rows, room, lambda row: 1 + max(size(row[0]), size(dump(row[1]))))
    left_out = found.left_out + len(found.citations) - len(shown)
    rest = (
        [f"… {plural(left_out, 'citation')} left out: verify a part of the text at a time."]
        if left_out
        else []
    )
    about = {"left_out": left_out, "uncited": found.uncited}
    return Reply(
        "\n".join([head, *(line for line, _ in shown), *rest]),
        {"citations": [payload for _, payload in shown]}
        | {name: value for name, value in about.items() if value},
    )


def _check_payload(check: CitationCheck) -> dict[str, Any]:
    """Return what became of a citation; of one that holds, no more than that."""
    payload = {
        name: value
        for name, value in as_json(check).items()
        if value and (check.state != "there" or name in {"citation", "state"})
    }
    if check.quotation:
        payload["quotation"] = shortened_quotation(check)
    return payload


def reply_status(
    library: Library, notes: Sequence[str], progress: Sequence[Progress] = ()
) -> Reply:
    """Tell how far the index is, with what the background has to say."""
    folders = library.status()
    notes = [*notes, *filter(None, [missing_folders_sentence(library.away())])]
    structured = {**status_payload(folders), "notes": notes, "progress": as_json(tuple(progress))}
    for each in structured["folders"]:
        each["skipped"] = each["skipped"][:_PROBLEMS_LISTED]
        each["flagged"] = each["flagged"][:_PROBLEMS_LISTED]
        each.pop("database", None)  # that is for who runs the server: counts are of all who ask it
    lines = [
        one_line(
            f"{each.folder} ({each.root}): {index_sentence(each.index)}; model "
            f"{each.index.model or 'none yet'}"
        )
        for each in folders
    ]
    lines += [
        one_line(f"{problem.path}: {problem.reason}")
        for each in folders
        for problem in each.skipped[:_PROBLEMS_LISTED]
    ]
    for status in folders:
        if status.flagged_count:
            lines.append(one_line(f"{status.folder}: {hidden_text_sentence(status.flagged_count)}"))
        lines += [
            one_line(f"{flag.path}:{flag.line}: {flag.reason}")
            for flag in status.flagged[:_PROBLEMS_LISTED]
        ]
    now = progress or [each.progress for each in folders if each.progress and each.progress.total]
    lines += [indexing_sentence(now)] if now else []
    return Reply("\n".join([*lines, *map(one_line, notes)]), structured)
