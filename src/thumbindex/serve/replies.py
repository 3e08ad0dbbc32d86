"""What each tool and resource answers: compact Markdown, and the same as structured content, within
a token budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from thumbindex.errors import UsageError
from thumbindex.model import (
    Answer,
    Excerpt,
    ListedNote,
    OutlineEntry,
    Passage,
    Progress,
    Query,
    Why,
)
from thumbindex.serve.as_json import (
    as_json,
    dedup_payload,
    deduplication_payload,
    disagreement_payload,
    excerpt_payload,
    freshness_payload,
    outline_payload,
    passage_payload,
    related_payload,
    status_payload,
    verification_payload,
    why_payload,
)
from thumbindex.serve.background import Background, BackgroundView, never, tell_nobody
from thumbindex.serve.budget import (
    LEAST_TOKENS,
    MOST_TOKEN_CHARACTERS,
    Marks,
    Shown,
    Size,
    beginning_within,
    dump,
    fit_passages,
    line_sizer,
    own_marks,
    room_for,
)
from thumbindex.serve.links import link_to
from thumbindex.serve.wording import (
    COPIES_SHOWN,
    PASSAGE_FACTS,
    ask_again,
    beside,
    check_line,
    confidence_words,
    deduplication,
    disagreement_words,
    explanation_lines,
    filter_lines,
    foot,
    hold_hidden,
    indexing,
    list_lines,
    not_there,
    outline_lines,
    passage_flags,
    quoted,
    related_groups,
    stood_on,
    up_to_date,
    verification_head,
    why_lines,
)
from thumbindex.text import (
    SCHEME,
    address_of,
    line_range,
    one_line,
    plural,
    read_address,
    split_citation,
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
    address = read_address(uri)
    if address is None:
        raise UsageError(
            f"{uri} is not a resource of this server: their addresses read {TEMPLATE}."
        )
    return address.folder, address.path


def _resource_link(folder: str, path: str) -> dict[str, Any]:
    """Return a link to a document, as the protocol writes it."""
    return {
        "type": "resource_link",
        "uri": address_of(folder, path),
        "name": one_line(path),
        "mimeType": MIME,
    }


def list_page(library: Library, cursor: str | None) -> tuple[tuple[OutlineEntry, ...], str | None]:
    """Return one page of documents and the cursor of the next; a cursor is the address of the last
    one listed.
    """
    after = ("", "") if cursor is None else parse_uri(cursor)
    # By comparing, not by position: documents come and go between two pages.
    page = tuple(
        islice(
            library.browse(
                lambda every: (each for each in every if (each.folder, each.path) > after)
            ),
            PAGE + 1,
        )
    )
    more = len(page) > PAGE
    return page[:PAGE], address_of(page[PAGE - 1].folder, page[PAGE - 1].path) if more else None


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
        found = library.named_like(value, folder=folder if folder in folders else None)
        values = (each.path for each in found)
    # a path of two folders comes once
    first = list(dict.fromkeys(islice(values, len(folders) * (MOST_COMPLETIONS + 1))))
    return first[:MOST_COMPLETIONS], len(first) > MOST_COMPLETIONS


# ------------------------------------------------------------------ the answer to a question

_DROPPED_LISTED = 5
"""Of what a stage dropped: an explanation is for reading, `query --json` has all of it."""

_FEW_TOKENS, _FEWEST_TOKENS = 25, 5
"""Of each match, where there is less room: so that all passages come, and that at last a part of
the first one's best line does.
"""

_GIVES_WAY = ("query", "corrected", "terms", "stages", "retrievers", "notes")
"""What is left out of why a note is no answer where it is too long, in this order: the caller knows
what it asked.
"""

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
    # with its citation, warnings and id alone; the briefest without the id
    brief: Literal["", "brief", "briefest"] = ""

    def briefer(self, brief: Literal["brief", "briefest"]) -> PassageForm:
        """Return the form in which less stands beside each passage's text."""
        return replace(self, brief=brief, explain=False)

    def as_text(self, shown: Shown) -> str:
        """Return a passage under its citation; of one that the caller holds, where it stands."""
        passage = shown.passage
        folder = f"{passage.folder}: " if self.several else ""
        head = f"## {passage.rank}. {one_line(folder + passage.citation)}"
        if shown.is_held:
            return f"{head}\n(you hold it: {shown.id})"
        if self.brief:
            lines = (
                *passage_flags(passage),
                *disagreement_words(passage),
                *([f"id {shown.id}"] if self.brief == "brief" else []),
            )
            return "\n".join(
                [head, quoted(passage.text), *(f"({one_line(line)})" for line in lines)]
            )
        first, last = shown.section
        cut = (
            f"cut out of {line_range(first, last)}, {shown.left_out:,} tokens more; "
            if shown.is_cut
            else ""
        )
        link = f"; {written}" if (written := self.link(passage)) else ""
        cost = (
            f"id {shown.id}; {cut}the whole note: about {self._note_tokens(passage):,} tokens{link}"
        )
        explained = explanation_lines(passage.explanation) if passage.explanation else []
        lines = (*passage_flags(passage), *beside(passage), *explained, cost)
        return "\n".join([head, quoted(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: Shown) -> dict[str, Any]:
        """Return the same as structured content."""
        passage = shown.passage
        address = address_of(passage.folder, passage.path, passage.heading, shown.digest)
        place = {
            "citation": passage.citation,
            "id": shown.id,
            "address": address,
            "folder": passage.folder,
            "path": passage.path,
        }
        lines = {
            name: getattr(passage, name)
            for name in ("start_line", "end_line", "match_start", "match_end")
        }
        if shown.is_held:
            return {**place, **lines, "seen": True}
        if self.brief:
            return self._brief_payload(shown)
        cost: dict[str, Any] = {"note_tokens": self._note_tokens(passage)}
        if link := self.link(passage):
            cost["link"] = link
        if shown.is_cut:
            cost["rest"] = {
                "start_line": shown.section[0],
                "end_line": shown.section[1],
                "tokens": shown.left_out,
            }
        if self.explain:
            return {**place, **passage_payload(passage), **cost}
        found = {**place, **lines, "text": passage.text, **cost, "dedup": dedup_payload(passage)}
        if flags := passage_flags(passage):
            found["flagged"] = flags
        if passage.also_in:
            found["also_in"] = as_json(passage.also_in[:COPIES_SHOWN])
            if more := len(passage.also_in) - len(found["also_in"]):
                found["also_in_more"] = more
        if passage.disagrees:
            found["disagrees"] = [disagreement_payload(each) for each in passage.disagrees]
        if passage.also_in or passage.disagrees:
            found |= {name: value for name in PASSAGE_FACTS if (value := getattr(passage, name))}
        elif day := passage.updated or passage.created:
            found["date"] = day
        return found

    def _brief_payload(self, shown: Shown) -> dict[str, Any]:
        passage = shown.passage
        place = {"citation": passage.citation} | (
            {"folder": passage.folder} if self.several else {}
        )
        found: dict[str, Any] = (
            place
            | ({"id": shown.id, "path": passage.path} if self.brief == "brief" else {})
            | {"text": passage.text}
        )
        if flags := passage_flags(passage):
            found["flagged"] = flags
        if passage.disagrees:
            found["disagrees"] = [disagreement_payload(each) for each in passage.disagrees]
        return found

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
    is_bare: bool = False
    has_model: bool = False

    def barely(self) -> Frame:
        """Return no more than has to be said, for the smallest budgets."""
        return replace(self, progress=(), explain=False, is_bare=True)

    def reply(self, shown: Sequence[Shown], form: PassageForm) -> Reply:
        """Write the answer."""
        left_out = len(self.answer.passages) - len(shown)
        structured = (
            self._structured()
            | {"results": [form.as_payload(each) for each in shown]}
            | ({"left_out": left_out} if left_out else {})
        )
        rest = [f"{left_out} more left out: raise `max_tokens` to see them."] if left_out else []
        if form.brief == "briefest":
            least = {
                name: structured[name]
                for name in ("answerable", "confidence_level", "results", "left_out")
                if name in structured
            }
            return Reply(
                "\n\n".join([self._head(), *map(form.as_text, shown), *rest]), least | {"index": {}}
            )
        if form.brief:
            return Reply(
                "\n\n".join([self._head(), *map(form.as_text, shown), *rest, *self._foot()]),
                structured,
            )
        links = (
            _resource_link(*place)
            for place in dict.fromkeys((each.passage.folder, each.passage.path) for each in shown)
        )
        return Reply(
            "\n\n".join([self._head(), *map(form.as_text, shown), *rest, *self._foot()]),
            structured,
            tuple(links),
        )

    def _head(self) -> str:
        answer = replace(self.answer, nearest=()) if self.is_bare else self.answer
        corrected = (
            f"Searched for: {answer.corrected}. " if answer.corrected and not self.is_bare else ""
        )
        advice = "" if answer.answerable else " Say so, or try other words."
        lacking = f" {self.lacking}" if self.lacking and not self.is_bare else ""
        again, _ = ask_again(answer, self.progress)
        filters = [] if self.is_bare else filter_lines(answer.filters, answer.unmet, answer.undated)
        return "\n".join(
            [
                f"{corrected}{confidence_words(answer, self.narrowed)}{advice}{lacking}",
                *([again] if again else []),
                *filters,
            ]
        )

    def _foot(self) -> list[str]:
        if self.is_bare:
            return [stood_on(self.answer.index)]
        trace = self.answer.trace
        steps = [
            f"{each.stage}: {each.size_in} -> {each.size_out}, {each.moved} moved" for each in trace
        ]
        return [
            *(["\n".join([*steps, deduplication(trace)])] if self.explain else []),
            foot(self.answer, self.progress, "loaded" if self.has_model else "loading"),
        ]

    def _structured(self) -> dict[str, Any]:
        answer = self.answer
        sure = {
            "answerable": answer.answerable,
            "confidence": round(answer.confidence, 4),
            "confidence_level": answer.confidence_level,
        }
        if self.is_bare:
            return sure | {"index": {"documents": answer.index.documents}}
        index = (
            as_json(answer.index)
            | freshness_payload(answer.freshness)
            | ({"progress": as_json(self.progress)} if self.progress else {})
        )
        frame: dict[str, Any] = {**sure, "kind": str(answer.kind), "results": [], "index": index}
        if self.explain:
            frame["trace"] = [
                as_json(replace(step, dropped=step.dropped[:_DROPPED_LISTED]))
                for step in answer.trace
            ]
            frame["deduplication"] = deduplication_payload(answer.trace)
        given = {
            "corrected": answer.corrected,
            "filters": as_json(answer.filters),
            "unmet": as_json(answer.unmet),
            "undated": answer.undated,
        }
        given |= {
            "listed": answer.listed,
            "nearest": as_json(answer.nearest),
            "ask_again_seconds": ask_again(answer, self.progress)[1],
        }
        return frame | {name: value for name, value in given.items() if value}


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
        up_to_date(answer.freshness, several) if answer.freshness else not_there(library.away())
    )
    lacking = " ".join(filter(None, (lacking, *unmade)))
    roots, links = dict(library.folders), library.config.serve.links if library.is_near else "none"
    form = PassageForm(
        several,
        explain,
        library.note_tokens(answer.passages),
        lambda each: link_to(each, roots[each.folder], links),
    )
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * (
        _EXPLAINED if explain else 1
    )
    frame = Frame(answer, tuple(progress()), narrowed, lacking, explain, has_model=has_model)
    marked = cache(lambda: {each.rank: each.marks for each in library.marked(answer).passages})
    return within(
        tokens,
        library.count_tokens,
        (frame, frame.barely()),
        form,
        arguments.get("seen", ()),
        lambda passage: marked()[passage.rank],
    )


def within(
    tokens: int,
    size: Size,
    frames: Sequence[Frame],
    form: PassageForm,
    held: Collection[str] = (),
    marks: Marks = own_marks,
) -> Reply:
    """Write an answer of at most so many tokens, in the first form in which all passages fit, else
    as many as do.

    Raises UsageError where not even how sure the answer is can be said.
    """
    size, last, passages = cache(size), frames[-1], frames[0].answer.passages
    brief, briefest = form.briefer("brief"), form.briefer("briefest")
    some, every = min(1, len(passages)), len(passages)
    needed = some if form.explain else every
    attempts = [(frame, form, LEAST_TOKENS, needed) for frame in frames]
    attempts += [
        (last, brief, LEAST_TOKENS, every),
        (last, brief, _FEW_TOKENS, every),
        (last, brief, LEAST_TOKENS, some),
        (last, briefest, LEAST_TOKENS, some),
        (last, briefest, _FEWEST_TOKENS, some),
    ]
    nothing = None
    for frame, each, least, wanted in attempts:
        room = tokens - count_reply(frame.reply((), each), size)
        while room >= 0:
            found = room_for(passages, room, (each.as_text, each.as_payload), size, held, least)
            if len(found.needs) < wanted:
                break
            reply = frame.reply(fit_passages(passages, found, size, held, marks), each)
            if (over := count_reply(reply, size) - tokens) <= 0:
                return reply
            # a token may go over a seam: the whole is counted, and made smaller until it fits
            room -= over
        nothing = frame.reply((), each) if room >= 0 else nothing
    if nothing is None:
        raise _too_few(tokens, "how sure the answer is")
    return nothing


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
    loading = (
        [] if library.models_ready else ["keywords only this time: the model is still being loaded"]
    )
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * _EXPLAINED
    return _why_within(
        tokens,
        library.count_tokens,
        [*map(one_line, why_lines(found, len(library.folders) > 1)), *loading],
        found,
    )


def _why_within(tokens: int, size: Size, lines: Sequence[str], found: Why) -> Reply:
    """Write it in at most so many tokens: whole lines, the first ones.

    Raises UsageError where not even one fits.
    """
    why = why_payload(found)
    for left_out in range(len(_GIVES_WAY) + 1):
        gone = list(_GIVES_WAY[:left_out])
        kept = {name: value for name, value in why.items() if name not in gone} | (
            {"left_out": gone} if gone else {}
        )
        structured = {"answerable": found.answerable, "results": [], "index": {}, "why": kept}
        if size(dump(structured)) <= tokens:
            break
    else:
        raise _too_few(tokens, "why the note is no answer")
    for shown in range(len(lines), 0, -1):
        rest = (
            [f"(lines left out: {len(lines) - shown}; raise `max_tokens` to see them)"]
            if shown < len(lines)
            else []
        )
        text = "\n".join([*lines[:shown], *rest])
        if size(text) <= tokens:
            return Reply(text, structured)
    raise _too_few(tokens, "why the note is no answer")


def _too_few(tokens: int, what: str) -> UsageError:
    return UsageError(
        f"`max_tokens` is {tokens}: not even {what} can be said in that. Give 2000, or leave "
        "it out."
    )


def ask(
    background: Background | BackgroundView,
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

_QUOTATION_TOKENS = 20
"""Of a quotation that say which one is meant: the caller has it."""

_VERIFIED_AROUND = 60
"""Tokens of what stands around the citations of a verification."""

_Entry = TypeVar("_Entry", OutlineEntry, ListedNote)

_ERROR_SHOWN = 200
"""Characters of a path that could not be read; of the error, twice as many."""

_LEAST_SHARE = 100
"""Tokens of a note that is read with others: of more notes than that is there for, the rest is
named.
"""

_PROBLEMS_LISTED = 5
"""Of what is wrong with a folder's files: `thumbindex status --json` has all of it."""


def reply_read(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Read a document or a part of it; of several paths each, within one budget."""
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
    """Read several: whole where they fit, else each cut to its share of the budget."""
    tokens, size = library.config.serve.read_tokens, library.count_tokens
    found, errors = library.read_each(paths, folder=folder)
    if not found:
        raise next(iter(errors.values()))
    most = max(1, tokens // _LEAST_SHARE)
    taken, left_out = found[:most], found[most:]
    several = len(library.folders) > 1
    failed = {
        path[:_ERROR_SHOWN]: one_line(f"{path[:_ERROR_SHOWN]}: {error}")[: 2 * _ERROR_SHOWN]
        for path, error in errors.items()
    }
    heads = [replace(each, text="") for each in taken]
    around = size(dump(failed)) + sum(size(_excerpt_text(head, head, several)) for head in heads)
    shares = _shares(
        [_text_cost(_cut_excerpt(each, tokens, size), size) for each in taken], tokens - around
    )
    shown = [_cut_excerpt(each, share, size) for each, share in zip(taken, shares, strict=True)]
    texts = [_excerpt_text(each, cut, several) for each, cut in zip(taken, shown, strict=True)]
    texts += list(failed.values())
    rest = [f"{each.path}:{each.start_line}-{each.end_line}" for each in left_out]
    texts += [one_line(f"(no room for {', '.join(rest)}: read them apart)")] if rest else []
    structured: dict[str, Any] = {
        "notes": [_excerpt_cut(each, cut) for each, cut in zip(taken, shown, strict=True)]
    }
    structured |= {"errors": failed} if failed else {}
    structured |= {"left_out": rest} if rest else {}
    links = dict.fromkeys((each.folder, each.path) for each in taken)
    return Reply("\n\n".join(texts), structured, tuple(_resource_link(*place) for place in links))


def _shares(costs: Sequence[int], room: int) -> list[int]:
    """Share a budget: what one does not need goes to those that need more."""
    shares, left = [0] * len(costs), max(room, 0)
    for rank, at in enumerate(sorted(range(len(costs)), key=costs.__getitem__)):
        shares[at] = min(costs[at], left // (len(costs) - rank))
        left -= shares[at]
    return shares


def _text_cost(excerpt: Excerpt, size: Size) -> int:
    return sum(map(line_sizer(size), excerpt.text.split("\n")))


def _cut_excerpt(excerpt: Excerpt, room: int, size: Size) -> Excerpt:
    """Return the first lines of an excerpt that fit."""
    text = _cut_lines(excerpt.text, room, size)
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
    return f"{one_line(head)}{warned}\n\n{quoted(shown.text)}{rest}"


def _excerpt_cut(excerpt: Excerpt, shown: Excerpt) -> dict[str, Any]:
    rest = {"start_line": shown.end_line + 1, "end_line": excerpt.end_line}
    return excerpt_payload(shown) | ({"rest": rest} if shown.end_line < excerpt.end_line else {})


def _cut_lines(text: str, room: int, size: Size) -> str:
    """Return as many lines as fit, of a first one that is too long its beginning."""
    of, whole, end = line_sizer(size), room, 0
    while end <= len(text):
        after = text.find("\n", end)
        after = len(text) if after < 0 else after
        # A line that is much too long is not even counted.
        room -= of(text[end:after]) if after - end <= MOST_TOKEN_CHARACTERS * room else room + 1
        if room < 0:
            break
        end = after + 1
    return text[: end - 1] if end else beginning_within(text.partition("\n")[0], whole, of)


def reply_outline(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List a document's headings, or the documents of a directory; directories with their counts
    where those are too many.
    """
    path = arguments.get("path", "")
    is_glob = "*" in path and not split_citation(path)[1]  # a heading may have a star in it
    if any(name in arguments for name in ("tag", "since", "until")) or is_glob:
        return _reply_list(library, arguments)
    directory = (arguments.get("path") or "").strip("/").removeprefix("./")
    entries = library.outline(arguments.get("path"), folder=arguments.get("folder"))
    room, size = library.config.serve.read_tokens, library.count_tokens
    shown = _first_that_fit(entries, room, size)
    # A document's own entries begin with its title, at level 0 too.
    if len(shown) < len(entries) and all(each.level == 0 for each in entries):
        entries = _directories(entries, f"{directory}/" if directory not in {"", "."} else "")
        shown = _first_that_fit(entries, room, size)
    structured = outline_payload(shown)
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
    shown = _first_that_fit(found.notes, library.config.serve.read_tokens, library.count_tokens)
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


def _first_that_fit(entries: Sequence[_Entry], room: int, size: Size) -> tuple[_Entry, ...]:
    for number, entry in enumerate(entries):
        room -= size(dump(as_json(entry)) + ",")
        if room < 0:
            return tuple(entries[:number])
    return tuple(entries)


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
            (*structured["links"], *structured["backlinks"], *(path for path, _ in related.similar))
        )
    )[:limit]
    return Reply(
        "\n".join(lines), structured, tuple(_resource_link(related.folder, path) for path in paths)
    )


def reply_verify(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Say what became of the citations in a text; of those that hold no more than that."""
    found, several, size = (
        library.verify(arguments["text"]),
        len(library.folders) > 1,
        library.count_tokens,
    )
    head, lines, shown = verification_head(found), list[str](), list[dict[str, Any]]()
    room = library.config.serve.max_tokens - size(head) - _VERIFIED_AROUND
    for number, (check, whole) in enumerate(
        zip(found.checks, verification_payload(found)["citations"], strict=True), 1
    ):
        is_there = check.state == "there"
        payload = {
            name: value
            for name, value in whole.items()
            if value and (not is_there or name in {"citation", "state"})
        }
        if check.quotation:
            payload["quotation"] = beginning_within(check.quotation, _QUOTATION_TOKENS, size)
        line = f"{number}. {check_line(check, several)}"
        room -= max(size(line) + 1, size(dump(payload)) + 1)
        if room < 0:
            break
        lines.append(line)
        shown.append(payload)
    left_out = found.left_out + len(found.checks) - len(shown)
    rest = (
        [f"… {plural(left_out, 'citation')} left out: verify a part of the text at a time."]
        if left_out
        else []
    )
    about = {"left_out": left_out, "uncited": found.uncited}
    return Reply(
        "\n".join([head, *lines, *rest]),
        {"citations": shown} | {name: value for name, value in about.items() if value},
    )


def reply_status(
    library: Library, notes: Sequence[str], progress: Sequence[Progress] = ()
) -> Reply:
    """Tell how far the index is, with what the background has to say."""
    folders = library.status()
    notes = [*notes, *filter(None, [not_there(library.away())])]
    structured = {**status_payload(folders), "notes": notes, "progress": as_json(tuple(progress))}
    for each in structured["folders"]:
        each["skipped"] = each["skipped"][:_PROBLEMS_LISTED]
        each["flagged"] = each["flagged"][:_PROBLEMS_LISTED]
        each.pop("database", None)  # that is for who runs the server: counts are of all who ask it
    lines = [
        one_line(
            f"{each.folder} ({each.root}): {stood_on(each.state)}; model "
            f"{each.state.model or 'none yet'}"
        )
        for each in folders
    ]
    lines += [
        one_line(f"{problem.path}: {problem.reason}")
        for each in folders
        for problem in each.problems[:_PROBLEMS_LISTED]
    ]
    for status in folders:
        if status.flagged_count:
            lines.append(one_line(f"{status.folder}: {hold_hidden(status.flagged_count)}"))
        lines += [
            one_line(f"{flag.path}:{flag.line}: {flag.reason}")
            for flag in status.flagged[:_PROBLEMS_LISTED]
        ]
    now = progress or [each.progress for each in folders if each.progress and each.progress.total]
    lines += [indexing(now)] if now else []
    return Reply("\n".join([*lines, *map(one_line, notes)]), structured)
