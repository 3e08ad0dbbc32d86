"""What each tool answers: compact Markdown, and the same as structured content, within a token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.model import OutlineEntry, Progress
from thumbindex.serve.as_json import progress_payload, status_payload
from thumbindex.serve.background import Background, never, tell_nobody
from thumbindex.serve.budget import MOST_CHARACTERS, Frame, PassageForm, Reply, Size, beginning, dump, line_sizer, why_within, within
from thumbindex.serve.early import WITHOUT_LINKS
from thumbindex.serve.resources import link
from thumbindex.serve.tools import check_arguments
from thumbindex.serve.wording import flagged, hold_hidden, indexing, not_there, one_line, quoted, stood_on, up_to_date, why_lines, why_payload

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.serve.http.scope import Sight


_PROBLEMS_SHOWN = 5
"""Of what is wrong with a folder's files: `thumbindex status --json` has all of it."""

_EXPLAINED = 4
"""How many times as long as any other an explained answer may be that was given no budget: who asks why wants to see the passages, too."""

_ASKED = {"limit", "folder", "path", "tag", "since", "wait_fresh"}
"""Arguments of `query` that are the library's; the others are about the answer's form."""


def reply_query(
    library: Library,
    arguments: Mapping[str, Any],
    progress: Callable[[], Sequence[Progress]] = tuple,
    tell: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    attended: Callable[[], bool] = lambda: False,
) -> Reply:
    """Answer a question; `progress` says what is being indexed, `tell` hears how far a wait is, `interrupted` ends one.

    `attended` says that somebody indexes, or is about to.
    """
    if "why" in arguments:
        return reply_why(library, arguments)
    asked = {name: value for name, value in arguments.items() if name in _ASKED}
    explain = bool(arguments.get("explain"))
    answer = library.query(arguments["query"], explain=explain, progress=tell, interrupted=interrupted, attended=attended, **asked)
    several = len(library.folders) > 1
    narrowed = [f"`{name}`" for name in ("tag", "path", "since") if arguments.get(name)]
    lacking = up_to_date(answer.freshness, several) if answer.freshness else not_there(library.away())
    form = PassageForm(several, explain, library.note_tokens(answer.passages))
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * (_EXPLAINED if explain else 1)
    wholly = Frame(answer, tuple(progress()), narrowed, lacking, explain)
    return within(tokens, library.count_tokens, (wholly, wholly.barely()), form, arguments.get("seen", ()))


def reply_why(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Tell why a note is, or is not, among the answers to a question."""
    filters = {name: arguments[name] for name in ("limit", "folder", "tag", "since") if name in arguments}
    found = library.why(arguments["why"], arguments["query"], glob=arguments.get("path", ()), **filters)
    loading = [] if library.models_ready else ["keywords only this time: the model is still being loaded"]
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * _EXPLAINED
    lines = [*map(one_line, why_lines(found, len(library.folders) > 1)), *loading]
    return why_within(tokens, library.count_tokens, lines, why_payload(found))


def reply_read(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Read a document or a part of it."""
    if "heading" in arguments and "lines" in arguments:
        raise UsageError("`heading` and `lines` exclude each other: give one of them.")
    excerpt = library.read(arguments["path"], folder=arguments.get("folder"), heading=arguments.get("heading"), lines=arguments.get("lines"))
    text = _cut_lines(excerpt.text, library.config.serve.read_tokens, library.count_tokens)
    end = excerpt.start_line + text.count("\n") if text != excerpt.text else excerpt.end_line
    rest = f"\n\n(cut here: go on with lines {end + 1}-{excerpt.end_line})" if end < excerpt.end_line else ""
    structured = {
        "folder": excerpt.folder,
        "path": excerpt.path,
        "start_line": excerpt.start_line,
        "end_line": end,
        "total_lines": excerpt.total_lines,
        "text": text,
    }
    if warnings := flagged(excerpt.flags, (excerpt.start_line, end)):
        structured["flagged"] = warnings
    head = f"{one_line(excerpt.path)} (lines {excerpt.start_line}-{end} of {excerpt.total_lines})"
    warned = "".join(f"\n({one_line(line)})" for line in warnings)
    return Reply(f"{head}{warned}\n\n{quoted(text)}{rest}", structured, (link(excerpt.folder, excerpt.path),))


def reply_outline(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List headings, or documents."""
    directory = (arguments.get("path") or "").strip("/").removeprefix("./")
    entries = _outline(library, directory, arguments.get("folder"))
    room, size = library.config.serve.read_tokens, library.count_tokens
    # A document's own entries begin with its title, at level 0 too.
    if all(each.level == 0 for each in entries) and len(_first_that_fit(entries, room, size)) < len(entries):
        entries = _directories(entries, f"{directory}/" if directory else "")
    shown = _first_that_fit(entries, room, size)
    structured: dict[str, Any] = {"entries": [_entry(each) for each in shown]}
    text = "\n".join(_outline_line(each) for each in shown) or "Nothing is indexed here."
    if left_out := len(entries) - len(shown):
        structured["left_out"] = left_out
        text += f"\n… {left_out} more: give a directory as `path`."
    return Reply(text, structured)


def reply_related(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List what stands near a document."""
    limit = arguments.get("limit", 10)
    related = library.related(arguments["path"], folder=arguments.get("folder"), limit=limit)
    links, backlinks, dangling = related.links[:limit], related.backlinks[:limit], related.dangling[:limit]
    structured = {
        "path": related.path,
        "links": list(links),
        "backlinks": list(backlinks),
        "dangling": list(dangling),
        "similar": [{"path": path, "score": round(score, 4)} for path, score in related.similar],
    }
    groups = (
        ("Links to", links, len(related.links)),
        ("Linked from", backlinks, len(related.backlinks)),
        ("Links that lead nowhere", dangling, len(related.dangling)),
        ("Most similar", [f"{path} ({score:.2f})" for path, score in related.similar], len(related.similar)),
    )
    paths = dict.fromkeys((*links, *backlinks, *(path for path, _ in related.similar)))
    return Reply(
        "\n".join([one_line(related.path), *(_group(*group) for group in groups)]),
        structured,
        tuple(link(related.folder, path) for path in list(paths)[:limit]),
    )


def reply_status(library: Library, notes: Sequence[str], progress: Sequence[Progress] = ()) -> Reply:
    """Tell how far the index is, with what the background has to say."""
    folders = library.status()
    structured = {**status_payload(folders), "notes": list(notes), "progress": [progress_payload(each) for each in progress]}
    for each in structured["folders"]:
        each["skipped"] = each["skipped"][:_PROBLEMS_SHOWN]
        each["flagged"] = each["flagged"][:_PROBLEMS_SHOWN]
    lines = [f"{each.folder} ({each.root}): {stood_on(each.state)}; model {each.state.model or 'none yet'}" for each in folders]
    lines += [one_line(f"{problem.path}: {problem.reason}") for each in folders for problem in each.problems[:_PROBLEMS_SHOWN]]
    for each in folders:
        lines += [f"{each.folder}: {hold_hidden(each.flagged_count)}"] if each.flagged_count else []
        lines += [one_line(f"{flag.path}:{flag.line}: {flag.reason}") for flag in each.flagged[:_PROBLEMS_SHOWN]]
    doing = progress or [each.progress for each in folders if each.progress and each.progress.total]
    lines += [indexing(doing)] if doing else []
    return Reply("\n".join([*lines, *notes]), structured)


def _cut_lines(text: str, room: int, size: Size) -> str:
    """Return as many lines as fit, of a first one that is too long its beginning."""
    of, whole, end = line_sizer(size), room, 0
    while end <= len(text):
        after = text.find("\n", end)
        after = len(text) if after < 0 else after
        # A line that is much too long is not even counted.
        room -= of(text[end:after]) if after - end <= MOST_CHARACTERS * room else room + 1
        if room < 0:
            break
        end = after + 1
    return text[: end - 1] if end else beginning(text.partition("\n")[0], whole, of)


def _outline(library: Library, path: str, folder: str | None) -> tuple[OutlineEntry, ...]:
    """Return the documents of a directory, or a document's headings where no directory has that name."""
    documents = library.outline(folder=folder)
    if path in {"", "."}:
        return documents
    return tuple(each for each in documents if each.path.startswith(f"{path}/")) or library.outline(path, folder=folder)


def _entry(entry: OutlineEntry) -> dict[str, Any]:
    return {"folder": entry.folder, "path": entry.path, "level": entry.level, "heading": entry.heading, "line": entry.line}


def _outline_line(entry: OutlineEntry) -> str:
    if entry.level == 0:
        return one_line(f"{entry.path} - {entry.heading}")
    return one_line(f"{'  ' * (entry.level - 1)}- {entry.heading} (line {entry.line})")


def _first_that_fit(entries: Sequence[OutlineEntry], room: int, size: Size) -> list[OutlineEntry]:
    shown: list[OutlineEntry] = []
    for entry in entries:
        room -= size(dump(_entry(entry)) + ",")
        if room < 0:
            break
        shown.append(entry)
    return shown


def _directories(entries: Sequence[OutlineEntry], inside: str) -> tuple[OutlineEntry, ...]:
    """Return the directories below `inside` with how many documents each holds, in place of the documents."""
    held = Counter((each.folder, _next_part(each.path, inside)) for each in entries)
    return tuple(OutlineEntry(folder, part, 0, f"{count} document{'s' if count != 1 else ''}", 1) for (folder, part), count in held.items())


def _next_part(path: str, inside: str) -> str:
    name, slash, _ = path[len(inside) :].partition("/")
    return inside + name + slash


def _group(title: str, paths: Sequence[str], total: int) -> str:
    more = f" … and {total - len(paths)} more" if total > len(paths) else ""
    return f"{title}: {', '.join(map(one_line, paths)) or 'none'}{more}"


def ask(
    background: Background | Sight,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = tell_nobody,
    interrupted: Callable[[], bool] = never,
) -> Reply:
    """Answer a question once there are words to search, and the model where it comes in time."""
    background.await_words(tell=tell, interrupted=interrupted)
    background.await_model(interrupted)
    return reply_query(background.library(), arguments, background.progress, tell, interrupted, lambda: background.is_attended)


_RESERVED = "io.modelcontextprotocol/"
"""How names begin that the protocol gives to what is added to a request."""


def answer_first(background: Background, asked: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return the answer to a call of `query` as the package gives it in a version of the protocol.

    None is for what is better left to it: other tools, mistakes and damage, progress that somebody wants to hear of, and every long wait.
    """
    is_plain = asked.get("name") == "query" and asked.keys() <= {"name", "arguments", "_meta"} and _asks_for_nothing(asked.get("_meta"))
    if not is_plain or not background.is_settled:
        return None
    try:
        arguments = check_arguments("query", asked.get("arguments"))
        if "wait_fresh" in arguments or not background.library().indexed:
            return None
        reply = ask(background, arguments)
    except ThumbindexError:
        return None
    links = () if version in WITHOUT_LINKS else reply.links
    return {"content": [{"type": "text", "text": reply.text}, *links], "structuredContent": reply.structured, "isError": False}


def _asks_for_nothing(meta: object) -> bool:
    """Tell whether what a client adds to a call is its own business, such as an id: progress and the protocol's own names are the package's."""
    return meta is None or (isinstance(meta, dict) and not any(each == "progressToken" or each.startswith(_RESERVED) for each in meta))
