"""Replies of the tools `read`, `outline`, `related`, `verify` and `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thumbindex.errors import UsageError
from thumbindex.mcp.budget import (
    MIN_TEXT_TOKENS,
    CountTokens,
    compact_json,
    fit_lines,
    fit_rows,
    line_counter,
)
from thumbindex.mcp.query_reply import Reply
from thumbindex.model import CitationCheck, Excerpt, ListedNote, OutlineEntry, Progress
from thumbindex.present.as_json import as_json, excerpt_payload, related_payload, status_payload
from thumbindex.present.sentences import (
    citation_check_line,
    excerpt_place,
    fenced,
    filter_lines,
    hidden_text_sentence,
    index_sentence,
    indexing_sentence,
    list_lines,
    missing_folders_sentence,
    outline_lines,
    related_groups,
    rest_sentence,
    shortened_quotation,
    verification_sentence,
)
from thumbindex.text import Lines, one_line, parse_citation, plural

if TYPE_CHECKING:
    from thumbindex.library import Library


_VERIFY_OVERHEAD = 60
"""Tokens reserved for the text and fields around verified citations."""

_MAX_ERROR_CHARS = 200
"""Maximum characters of an unreadable path in a reply; error messages may be twice as long."""

_MAX_PROBLEMS = 5
"""Maximum problems listed per folder; `thumbindex status --json` lists all."""


_NARROWING = ("tag", "since", "until", "where")
"""Arguments of `outline` for which it lists notes instead of headings."""


def reply_read(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Read documents or excerpts within one token budget."""
    paths, folder, heading, lines = (
        arguments["path"],
        *(arguments.get(name) for name in ("folder", "heading", "lines")),
    )
    if len(paths) > 1:
        if heading is not None or lines is not None:
            raise UsageError(
                "`heading` and `lines` apply to a single path. For several paths, write each as "
                "path#heading or path:12-40."
            )
        return _read_several(library, paths, folder)
    excerpt = library.read(paths[0], folder=folder, heading=heading, lines=lines)
    shown = _cut_excerpt(excerpt, library.config.serve.read_tokens, library.count_tokens)
    return Reply(_excerpt_text(shown), excerpt_payload(shown))


def _read_several(library: Library, paths: Sequence[str], folder: str | None) -> Reply:
    """Read documents in order until the budget is used up, and list those left out."""
    size, several = library.count_tokens, len(library.folders) > 1
    excerpts, errors = library.read_each(paths, folder=folder)
    if not excerpts:
        raise next(iter(errors.values()))
    failed = {
        path[:_MAX_ERROR_CHARS]: one_line(f"{path[:_MAX_ERROR_CHARS]}: {error}")[
            : 2 * _MAX_ERROR_CHARS
        ]
        for path, error in errors.items()
    }
    ranges = [Lines(item.start_line, item.end_line, item.start_character) for item in excerpts]
    citations = [
        f"{item.path}:{lines.first_place}-{lines.last}"
        for item, lines in zip(excerpts, ranges, strict=True)
    ]
    overhead = size(compact_json(failed)) + size(compact_json(citations))
    room = library.config.serve.read_tokens - overhead
    texts, notes = list[str](), list[dict[str, Any]]()

    def cost(shown: Excerpt) -> int:
        text = size(_excerpt_text(shown, several))
        return max(text, size(compact_json(excerpt_payload(shown))))

    for excerpt in excerpts:
        rest = Lines(excerpt.end_line, excerpt.end_line, len(excerpt.text) + 2)  # the longest
        text_room = room - cost(replace(excerpt, text="", rest=rest))
        if text_room < MIN_TEXT_TOKENS:
            break
        shown = _cut_excerpt(excerpt, text_room, size)
        room -= cost(shown)
        texts.append(_excerpt_text(shown, several))
        notes.append(excerpt_payload(shown))
        if shown != excerpt:
            break
    structured: dict[str, Any] = {"notes": notes}
    texts += failed.values()
    if failed:
        structured["errors"] = failed
    if left_out := citations[len(notes) :]:
        structured["left_out"] = left_out
        texts.append(one_line(f"(left out: {', '.join(left_out)}; call `read` again for these)"))
    return Reply("\n\n".join(texts), structured)


def _cut_excerpt(excerpt: Excerpt, room: int, size: CountTokens) -> Excerpt:
    return excerpt.part(0, len(fit_lines(excerpt.text, room, line_counter(size))))


def _excerpt_text(excerpt: Excerpt, several: bool = False) -> str:
    """Return the citation and text of an excerpt, and where to read on."""
    folder = f"{excerpt.folder}: " if several else ""
    head = one_line(f"{folder}{excerpt.path} ({excerpt_place(excerpt)})")
    flags = "".join(f"\n({one_line(line)})" for line in excerpt_payload(excerpt).get("flagged", ()))
    parts = (f"{head}{flags}", fenced(excerpt.text), rest_sentence(excerpt))
    return "\n\n".join(filter(None, parts))


def reply_outline(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List a document's headings or a directory's documents.

    If a directory has too many documents for the budget, list its subdirectories instead.
    """
    path = arguments.get("path", "")
    is_glob = "*" in path and not parse_citation(path)[1]  # a heading may contain a star
    if any(name in arguments for name in _NARROWING) or is_glob:
        return _reply_listing(library, arguments)
    directory = (arguments.get("path") or "").strip("/").removeprefix("./")
    entries = library.outline(arguments.get("path"), folder=arguments.get("folder"))
    room, cost = library.config.serve.read_tokens, _row_tokens(library.count_tokens)
    shown = fit_rows(entries, room, cost)
    # level 0 means documents; headings of one document have higher levels
    if len(shown) < len(entries) and all(entry.level == 0 for entry in entries):
        entries = _directories(entries, f"{directory}/" if directory not in {"", "."} else "")
        shown = fit_rows(entries, room, cost)
    structured = {"entries": as_json(tuple(shown))}
    text = "\n".join(outline_lines(shown, len(library.folders) > 1))
    if left_out := len(entries) - len(shown):
        structured["left_out"] = left_out
        text += f"\n… {left_out} more: set `path` to a directory."
    return Reply(text, structured)


def _reply_listing(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List the documents that match filters, newest first, with dates and tags."""
    path, folder = arguments.get("path"), arguments.get("folder")
    filters: Any = {name: arguments.get(name) for name in _NARROWING}
    listing = library.listing(
        path=(path,) if path else (), folder=(folder,) if folder else (), **filters
    )
    room, cost = library.config.serve.read_tokens, _row_tokens(library.count_tokens)
    shown = fit_rows(listing.notes, room, cost)
    entries = [
        {
            "folder": note.folder,
            "path": note.path,
            "heading": note.title,
            "date": note.date,
            "tags": list(note.tags),
        }
        for note in shown
    ]
    left_out = len(listing.notes) - len(shown)
    lines = [
        *list_lines(shown, len(library.folders) > 1),
        *filter_lines((), listing.unmet, listing.undated),
    ]
    if left_out:
        lines.append(f"… {left_out} more: narrow by `path`, `tag`, `where` or `since`.")
    details = {"left_out": left_out, "unmet": as_json(listing.unmet), "undated": listing.undated}
    return Reply(
        "\n".join(lines),
        {"entries": entries} | {name: value for name, value in details.items() if value},
    )


def _row_tokens(size: CountTokens) -> Callable[[OutlineEntry | ListedNote], int]:
    return lambda row: size(compact_json(as_json(row)) + ",")


def _directories(entries: Sequence[OutlineEntry], parent: str) -> tuple[OutlineEntry, ...]:
    """Return the directories and documents directly in `parent`, with document counts."""
    parts = ((entry.folder, entry.path[len(parent) :].partition("/")) for entry in entries)
    counts = Counter((folder, parent + name + slash) for folder, (name, slash, _) in parts)
    return tuple(
        OutlineEntry(folder, path, 0, plural(count, "document"), 1)
        for (folder, path), count in counts.items()
    )


def reply_related(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """List a document's links, backlinks and similar documents."""
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
    return Reply("\n".join(lines), structured)


def reply_verify(library: Library, arguments: Mapping[str, Any]) -> Reply:
    """Return the state of each citation in a text."""
    verification = library.verify(arguments["text"])
    several, size = len(library.folders) > 1, library.count_tokens
    head = verification_sentence(verification)
    rows = [
        (
            f"{number}. "
            + citation_check_line(check, f"{check.folder}: {check.now}" if several else check.now),
            _citation_payload(check),
        )
        for number, check in enumerate(verification.citations, 1)
    ]
    room = library.config.serve.max_tokens - size(head) - _VERIFY_OVERHEAD
    shown = fit_rows(rows, room, lambda row: 1 + max(size(row[0]), size(compact_json(row[1]))))
    left_out = verification.left_out + len(verification.citations) - len(shown)
    lines = [head, *(line for line, _ in shown)]
    if left_out:
        lines.append(f"… {plural(left_out, 'citation')} left out: verify the text in parts.")
    details = {"left_out": left_out, "uncited": verification.uncited}
    return Reply(
        "\n".join(lines),
        {"citations": [payload for _, payload in shown]}
        | {name: value for name, value in details.items() if value},
    )


def _citation_payload(check: CitationCheck) -> dict[str, Any]:
    payload = {
        name: value
        for name, value in as_json(check).items()
        if value
        and (
            check.state not in {"there", "not_compared"} or name in {"citation", "state", "reason"}
        )
    }
    if check.quotation:
        payload["quotation"] = shortened_quotation(check)
    return payload


def reply_status(
    library: Library, notes: Sequence[str], progress: Sequence[Progress] = ()
) -> Reply:
    """Return the state of each folder's index.

    `notes` are the library host's messages, and `progress` is its indexing progress.
    """
    folders = library.status()
    notes = [*notes, *filter(None, [missing_folders_sentence(library.missing_folders())])]
    structured = {**status_payload(folders), "notes": notes, "progress": as_json(tuple(progress))}
    structured["properties"] = keys = list(library.frequent_keys())
    for payload in structured["folders"]:
        payload["skipped"] = payload["skipped"][:_MAX_PROBLEMS]
        payload["flagged"] = payload["flagged"][:_MAX_PROBLEMS]
        payload.pop("database", None)  # only for the server's operator: its counts cover all users
    lines = [
        one_line(
            f"{folder.folder} ({folder.root}): {index_sentence(folder.index)}; model: "
            f"{folder.index.model or 'none yet'}"
        )
        for folder in folders
    ]
    lines += [
        one_line(f"{problem.path}: {problem.reason}")
        for folder in folders
        for problem in folder.skipped[:_MAX_PROBLEMS]
    ]
    for status in folders:
        if status.flagged_count:
            lines.append(one_line(f"{status.folder}: {hidden_text_sentence(status.flagged_count)}"))
        lines += [
            one_line(f"{flag.path}:{flag.line}: {flag.reason}")
            for flag in status.flagged[:_MAX_PROBLEMS]
        ]
    lines += [one_line(f"properties for `where`: {', '.join(keys)}")] if keys else []
    current = progress or [
        folder.progress for folder in folders if folder.progress and folder.progress.total
    ]
    lines += [indexing_sentence(current)] if current else []
    return Reply("\n".join([*lines, *map(one_line, notes)]), structured)
