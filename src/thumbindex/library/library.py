"""`Library` opens folders, indexes them and answers queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, partial, wraps
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, Unpack

from thumbindex import postgres
from thumbindex.config import configured_roots, load_config, real_folder
from thumbindex.corpus.ignore import PathCache, is_private_by_glob
from thumbindex.corpus.private import why_private
from thumbindex.corpus.walk import unmatched_private_globs, walk_with_private
from thumbindex.encode.embed import open_embedder, token_counter
from thumbindex.encode.models import CrossEncoderReranker
from thumbindex.encode.provisional import TokenTable, table_for
from thumbindex.errors import (
    IndexDamagedError,
    ModelError,
    StorageError,
    UnknownFolderError,
    UsageError,
)
from thumbindex.index.builds import delete_index, repair_index
from thumbindex.index.locks import is_held
from thumbindex.index.private_files import count_private_states
from thumbindex.index.refresh_requests import complete_requests, pending_requests
from thumbindex.index.writer import Writer, keep_stores_open
from thumbindex.library.answering import (
    MAX_CONCURRENT_QUERIES,
    answer_query,
    folder_index_state,
)
from thumbindex.library.citations import verify_citations
from thumbindex.library.comparison import is_empty_folder
from thumbindex.library.decisions import DuplicateDecisions, Judgments, list_duplicates
from thumbindex.library.embedding import embed_folder
from thumbindex.library.freshness import (
    ChangeTracker,
    current_progress,
    is_folder_up_to_date,
    publish_progress,
    validate_wait,
    wait_for_other_run,
    wait_until_fresh,
)
from thumbindex.library.indexed_folders import (
    Folder,
    find_folders,
    find_indexes,
    open_folder,
)
from thumbindex.library.indexing import IndexingOptions, index_folders, update_commit_dates
from thumbindex.library.near_copies import duplicate_steps
from thumbindex.library.note_lookup import NoteLookup, complete_names
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.library.reading import (
    NoteText,
    count_properties,
    list_notes,
    outline_entry,
    outline_headings,
    read_excerpt,
    read_named,
    read_notes,
)
from thumbindex.library.related import list_broken, list_orphans, related_to, unlinked_pairs
from thumbindex.library.retired import list_retired
from thumbindex.library.status import status_of
from thumbindex.library.visibility import all_documents, files_checked_once, filter_visible
from thumbindex.library.why_note import explain_note
from thumbindex.model import (
    Answer,
    BrokenLinks,
    Document,
    DuplicateReport,
    Excerpt,
    FilterArguments,
    Filters,
    FolderStatus,
    IdleTime,
    IndexReport,
    IndexState,
    NoteList,
    NotePage,
    OutlineEntry,
    Passage,
    PrivateNote,
    Progress,
    PropertyCount,
    Query,
    QueryArguments,
    RelatedNotes,
    RetiredNotes,
    UnlinkedPair,
    Verification,
    WhyReport,
    is_filter_key,
)
from thumbindex.ports import Embedder, Reranker
from thumbindex.process import is_offline
from thumbindex.settings import Config, EmbedSettings, QuerySettings

_LOG = logging.getLogger(__name__)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _never() -> bool:
    return False


def consistent_read(
    method: Callable[Concatenate[Library, _Parameters], _Result],
) -> Callable[Concatenate[Library, _Parameters], _Result]:
    """Make a method read everything from the same generation of each index.

    If a database connection is lost, the method is called again.
    """

    @wraps(method)
    def read(library: Library, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return library.in_one_snapshot(lambda: method(library, *args, **kwargs))

    return read


PUBLIC_NAMES = (
    "open",
    "open_all",
    "close",
    "folders",
    "index",
    "load_models",
    "is_up_to_date",
    "status",
    "forget",
    "query",
    "why",
    "read",
    "outline",
    "listing",
    "properties",
    "related",
    "verify",
    "broken",
    "orphans",
    "unlinked",
    "retired",
    "duplicates",
    "decisions",
    "judgments",
    "private_notes",
)
"""The names of `Library` that users call. The others are for the packages of thumbindex."""


class Library:
    """Some folders of Markdown, indexed and searched as one.

    A library is cheap to open and safe to use from several threads.
    """

    def __init__(
        self,
        folders: Sequence[Folder],
        config: Config,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        wait_for_models: bool = True,
        published: Sequence[Reader] = (),
    ) -> None:
        self.config = config
        self._readers: tuple[Reader, ...] = (*map(DiskReader, folders), *published)
        self._embedder, self._reranker = embedder, reranker
        self._has_own_embedder = embedder is not None
        self.is_local = True
        self._wait_for_models = wait_for_models
        # by configured name and by `Embedder.name`
        self._indexing_models: dict[str, Embedder] = {}
        self._loading = threading.Lock()
        self._query_slots = threading.Semaphore(MAX_CONCURRENT_QUERIES)

    def __dir__(self) -> tuple[str, ...]:
        return PUBLIC_NAMES

    @classmethod
    def open(
        cls,
        folders: Sequence[str | Path] = (),
        *,
        index: str | Path | None = None,
        config: Config | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        wait_for_models: bool = True,
        engine: str = "",
    ) -> Library:
        """Open folders by path or configured name.

        By default, opens the configured folders; without any, the current directory.

        If `engine` is a PostgreSQL URL, the default is all folders published in the database. Names
        then refer to published folders, and paths to folders on this machine. Raises EngineError.

        By default, the first query loads the models and waits for them. If `wait_for_models` is
        False, queries search only words until you call `load_models`.
        """
        if isinstance(folders, str):
            raise UsageError(f"Pass folders as a list: Library.open([{folders!r}]).")
        config = config or load_config()
        directory = str(index) if index is not None else config.index.directory
        published: tuple[Reader, ...] = ()
        if engine:
            published, folders = postgres.open_published_folders(engine, config, folders)
        try:
            roots = find_folders(config, folders, directory) if folders or not engine else ()
            local_folders = [open_folder(name, root, directory, config) for name, root in roots]
            names = {local_folder.name for local_folder in local_folders}
            if in_both := names & {reader.folder.name for reader in published}:
                raise UsageError(
                    f"Two folders are named {min(in_both)!r}, one on this machine and one "
                    "published: rename the one on this machine."
                )
            configs = [
                *(local_folder.config for local_folder in local_folders),
                *(reader.folder.config for reader in published),
            ]
            return cls(
                local_folders,
                configs[0] if len(configs) == 1 else config,
                embedder,
                reranker,
                wait_for_models,
                published,
            )
        except BaseException:
            for reader in published:
                reader.close()
            raise

    @classmethod
    def open_all(
        cls,
        *,
        index: str | Path | None = None,
        config: Config | None = None,
        only: Sequence[str | Path] = (),
    ) -> Library:
        """Open every index in the index directory, even if its folder is missing.

        `only` selects folders by path or name.
        """
        config = config or load_config()
        indexes = find_indexes(str(index) if index is not None else config.index.directory, config)
        choices = {str(choice) for choice in only} | {str(real_folder(choice)) for choice in only}
        return cls(
            [folder for folder in indexes if not only or choices & {str(folder.root), folder.name}],
            config,
        )

    def only(self, names: Collection[str]) -> Library:
        """Return a library over the named open folders, with the models loaded so far."""
        other = copy(self)
        other._readers = tuple(reader for reader in self._readers if reader.folder.name in names)
        # a single folder's own configuration applies
        if len(other._readers) == 1:
            other.config = other._readers[0].folder.config
        return other

    def without_local_paths(self) -> Library:
        """Return a library for remote callers: it accepts no absolute paths."""
        other = copy(self)
        other.is_local = False
        return other

    def in_one_snapshot(self, ask: Callable[[], _Result]) -> _Result:
        """Call `ask` in a snapshot: one generation of each index.

        If a database connection is lost, call `ask` once more. Raises EngineError.
        """
        with ExitStack() as stack:
            for reader in self._readers:
                if not reader.is_published:
                    stack.enter_context(reader.pinned())
            return self.database.in_one_snapshot(ask) if self.database else ask()

    @property
    def database(self) -> postgres.PublishedFolders | None:
        """The database of published folders; None if all folders are on this machine."""
        return next((reader.database for reader in self._readers if reader.database), None)

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """Name and absolute path of each folder."""
        return tuple((reader.folder.name, reader.folder.root) for reader in self._readers)

    @property
    def opened(self) -> tuple[Folder, ...]:
        """Each open folder with its index paths and configuration."""
        return tuple(reader.folder for reader in self._readers)

    @property
    def indexed(self) -> bool:
        """Whether every folder has indexed words."""
        return self.in_one_snapshot(lambda: all(reader.indexed for reader in self._readers))

    @property
    def is_searchable(self) -> bool:
        """Like `indexed`, but without a database query: uses the last known state."""
        return all(reader.is_searchable for reader in self._readers)

    def unmatched_private_globs(self) -> tuple[str, ...]:
        """Return the configured private globs that match no note; empty if a folder is missing."""
        unmatched: tuple[str, ...] = self.config.corpus.private.globs
        settings = dict.fromkeys(configured_roots(self.config).values(), self.config.corpus)
        settings |= {
            reader.folder.root: reader.folder.config.corpus
            for reader in self._readers
            if not reader.is_published
        }
        for root, corpus in settings.items():
            if not unmatched or not root.is_dir():
                return ()
            unmatched = unmatched_private_globs(unmatched, root, corpus)
        return unmatched

    def private_notes(self, name: str = "") -> tuple[PrivateNote, ...]:
        """Return the private notes by folder and path, and why they are private.

        Only the owner may see them: tools and HTTP servers must not call this. Reads every file, or
        with `name`, those with this file name or at this path.
        """
        notes, end = list[PrivateNote](), name and f"/{name.lstrip('/')}".casefold()
        for reader in self._readers:
            if reader.is_published:
                raise UsageError(
                    "A database holds no private notes: run this on the machine with the notes, "
                    "with --folder."
                )
            folder, cache = reader.folder, PathCache()
            for file in walk_with_private(folder.root, folder.config.corpus):
                path = f"{folder.root}/{file.path}".casefold()
                if not path.endswith(end) and not path.rpartition(".")[0].endswith(end):
                    continue
                if why := why_private(folder.root, file.path, folder.config.corpus, cache):
                    notes.append(PrivateNote(folder.name, file.path, *why))
        return tuple(notes)

    def count_private_notes(self) -> int:
        """Return the number of private notes, without reading files. Only the owner may see it."""
        count = 0
        for reader in self._readers:
            if isinstance(reader, DiskReader):
                folder, cache = reader.folder, PathCache()
                root, corpus = folder.root, folder.config.corpus
                count += count_private_states(reader.store)
                if corpus.private.globs:
                    count += sum(
                        is_private_by_glob(str(root), file.path, corpus, cache)
                        for file in walk_with_private(root, corpus)
                    )
        return count

    # -------------------------------------------------------------- models

    @property
    def has_model(self) -> bool:
        """Whether queries can be embedded."""
        return self._embedder is not None

    @property
    def has_vectors(self) -> bool:
        """Whether an index has exact or provisional vectors."""
        return any(state.has_vectors for state in self.index_states().values())

    @property
    def awaits_model(self) -> bool:
        """Whether an index has vectors, but no model is loaded yet."""
        return not self.has_model and self.has_vectors

    @property
    def words_only_sentence(self) -> str:
        """A sentence that tells users how queries are limited if a model cannot be loaded."""
        if not self.has_model:
            return "Queries search words only."
        return "Passages are not reranked."

    def load_models(self) -> None:
        """Load the indexes' model and the reranker, if not loaded yet.

        Without a model, queries search only words. Raises ModelError.
        """
        with self._loading:
            names = self._index_models()
            has_index_model = self._has_own_embedder or (
                self._embedder and self._embedder.fingerprint in names
            )
            if names and not has_index_model:
                self._embedder = self.open_model(min(names.values()))
            # a folder's own file may turn on the stage `rerank` for its folder
            with_reranker = [
                config
                for config in (self.config, *(reader.folder.config for reader in self._readers))
                if config.query.runs("rerank")
                and (config is self.config or config.encode.rerank.model)
            ]
            if self._reranker is None and self._embedder is not None and with_reranker:
                self._reranker = CrossEncoderReranker(
                    with_reranker[0].encode.rerank.model, offline=is_offline()
                )

    @consistent_read
    def _index_models(self) -> dict[str, str]:
        """Return the names of the indexes' models by fingerprint."""
        stores = [reader.store for reader in self._readers if reader.indexed]
        return {
            store.meta("fingerprint"): name for store in stores if (name := store.meta("model"))
        }

    def _ensure_models(self) -> None:
        if self._wait_for_models and self._embedder is None:
            try:
                self.load_models()
            except ModelError as error:
                self._wait_for_models = False
                _LOG.warning("%s %s", error, self.words_only_sentence)

    def open_model(self, index_model: str) -> Embedder:
        """Open the configured model; if it is `auto`, open the index's model. Raises ModelError."""
        if self._has_own_embedder and self._embedder is not None:
            return self._embedder
        settings = self.config.encode.embed
        if index_model and settings.model == "auto":
            settings = replace(settings, model=index_model)
        if settings.model not in self._indexing_models:
            embedder = open_embedder(settings, offline=is_offline())
            self._indexing_models.update({settings.model: embedder, embedder.name: embedder})
        return self._indexing_models[settings.model]

    def _open_table(self, settings: EmbedSettings, model: str) -> TokenTable | None:
        """Return the table of provisional vectors for an index's model, if there is one."""
        if self._has_own_embedder and self._embedder:
            model = self._embedder.fingerprint
        try:
            return table_for(settings, model)
        except ModelError:  # the bundled model is damaged, which `embed` reports
            return None

    # -------------------------------------------------------------- answering

    def with_query_settings(self, settings: QuerySettings) -> Library:
        """Return a library with other query settings that shares the indexes and models.

        Closing either library closes both. The stage `expand` works only if the original library
        also runs `expand`: otherwise, the vocabulary is neither indexed nor loaded.
        """
        self._ensure_models()
        other = copy(self)
        other.config = replace(self.config, query=settings)
        if settings.runs("rerank") and self._embedder is not None:
            other.load_models()
        return other

    def query(
        self,
        text: str | Query,
        *,
        wait_fresh: float = 0.0,
        explain: bool = False,
        progress: Callable[[Progress], None] | None = None,
        interrupted: Callable[[], bool] | None = None,
        indexer_starting: Callable[[], bool] | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Answer:
        """Answer a query from the current indexes.

            library.query("who decided?", limit=3, path=["plans/**"], since="2026-01-31")

        `also` and `passage` are other phrasings; `folder`, `path`, `tag`, `since` and `until` are
        filters. `without` names documents by path: they are not searched, and their links are not
        followed. With `explain`, each passage explains its rank.

        With `wait_fresh` (seconds, at most 60), the query first waits until every edit on disk is
        searchable. The wait also ends when the time is up or `interrupted` returns True.
        `freshness` names the folders that are behind.

        If no server or other process updates a folder's index, the waiting query indexes the
        folder's words. A caller with its own indexer passes `indexer_starting`, a function that
        returns True while the indexer is starting. The query then indexes nothing.

        Without `wait_fresh`, an `interrupted` query returns an empty answer.
        """
        query = self._build_query(text, arguments)
        wait = validate_wait(wait_fresh)
        freshness = None
        if wait:
            freshness = wait_until_fresh(
                self._select_readers(query.filters.folder),
                wait,
                progress or (lambda _: None),
                interrupted or _never,
                indexer_starting or _never,
                None if indexer_starting else self._index_words_until,
            )
        self._ensure_models()
        with self._query_slots:
            is_over = interrupted is not None and interrupted() and not wait
            readers = () if is_over else self._readers
            answer = self.in_one_snapshot(
                lambda: answer_query(
                    query,
                    readers,
                    self.config.query,
                    self._embedder,
                    self._reranker,
                    explain=explain,
                )
            )
        return replace(answer, freshness=freshness)

    def _build_query(self, text: str | Query, arguments: QueryArguments) -> Query:
        """Build a query, and check that its folders exist. Raises UsageError."""
        query = text if isinstance(text, Query) else Query.of(text, **arguments)
        self._select_readers(query.filters.folder)
        return query

    def why(
        self, note: str, text: str | Query, /, **arguments: Unpack[QueryArguments]
    ) -> WhyReport:
        """Explain why a query finds or misses a note (or `path#heading`).

            library.why("plans.md", "who decided?", tag=["project"])

        Takes the same query and filters as `query`.
        """
        query = self._build_query(text, arguments)
        self._ensure_models()
        engines = (self.config.query, self._embedder, self._reranker)
        with self._query_slots:
            return self.in_one_snapshot(
                partial(explain_note, note, query, self._readers, *engines, is_local=self.is_local)
            )

    @consistent_read
    def listing(
        self,
        filters: Filters | None = None,
        /,
        *,
        columns: Sequence[str] = (),
        sort: str = "",
        **narrowing: Unpack[FilterArguments],
    ) -> NoteList:
        """List the notes that pass the filters, newest first.

            library.listing(where=["status:doing"], columns=["due"], sort="due")

        `columns` are the properties that each note has. `sort` is `title`, `date` or a property,
        with a minus for descending order.
        """
        filters = filters or Filters.of(**narrowing)
        readers = self._select_readers(filters.folder)
        return list_notes(filters, readers, columns=columns, sort=sort)

    @consistent_read
    def properties(
        self, key: str | None = None, *, values: int | None = 5, folder: Sequence[str] = ()
    ) -> tuple[PropertyCount, ...]:
        """Return the properties of all notes with their most frequent values, or only `key`."""
        return count_properties(self._select_readers(folder), key, values)

    @consistent_read
    def frequent_keys(self, limit: int = 10) -> tuple[str, ...]:
        """Return the keys of the most frequent properties that a condition can name."""
        keys = (count.key for count in count_properties(self._readers, None, 0))
        return tuple(filter(is_filter_key, keys))[:limit]

    @consistent_read
    def orphans(self, **narrowing: Unpack[FilterArguments]) -> NoteList:
        """List the notes that pass the filters and that no other note links to, newest first."""
        filters = Filters.of(**narrowing)
        return list_orphans(filters, self._select_readers(filters.folder))

    @consistent_read
    def retired(self, **narrowing: Unpack[FilterArguments]) -> RetiredNotes:
        """List the notes that are no longer in force and pass the filters, newest first."""
        filters = Filters.of(**narrowing)
        readers = self._select_readers(filters.folder)
        return list_retired(list_notes(filters, readers), readers, filters.until, self.config.query)

    @consistent_read
    def broken(
        self, *, for_owner: bool = False, **narrowing: Unpack[FilterArguments]
    ) -> BrokenLinks:
        """List the broken links in the notes that pass the filters.

        A link to a private note looks as if the note were missing. With `for_owner`,
        its reason says that it is private: set it only for the owner of the notes.
        """
        filters = Filters.of(**narrowing)
        readers = self._select_readers(filters.folder)
        return list_broken(list_notes(filters, readers), readers, for_owner=for_owner)

    @consistent_read
    def checkup(
        self, folder: Sequence[str] = (), *, for_owner: bool = False
    ) -> tuple[DuplicateReport, BrokenLinks, RetiredNotes]:
        """Return duplicates with undecided pairs, broken links and retired notes.

        Faster than `duplicates`, `broken` and `retired`: the file of each note is checked once.
        """
        readers = self._select_readers(folder)
        with files_checked_once():
            notes = list_notes(Filters(), readers)
            return (
                list_duplicates(readers, grey=True),
                list_broken(notes, readers, for_owner=for_owner),
                list_retired(notes, readers, None, self.config.query),
            )

    @consistent_read
    def unlinked(self, folder: Sequence[str] = ()) -> tuple[UnlinkedPair, ...]:
        """List pairs of similar notes without a link between them, most similar first.

        In a folder with more than 20,000 notes, only the newest are compared.
        """
        pairs = [pair for reader in self._select_readers(folder) for pair in unlinked_pairs(reader)]
        return tuple(sorted(pairs, key=lambda pair: -pair.score))

    @consistent_read
    def read(
        self,
        path: str,
        *,
        folder: str | None = None,
        heading: str | None = None,
        lines: tuple[int, int] | tuple[int, int, int] | None = None,
        exact: bool = False,
    ) -> Excerpt:
        """Return a document's current lines: all, the lines under a heading, or a range.

        `path` may be a path, a name, `path#heading`, a citation, an address or a passage's id. For
        a citation, the cited lines are returned. For an id or address, the passage is returned,
        even if it is a part of a line. With `exact`, only paths and `path#heading` are accepted.

        The third number of `lines` is a character of the first line: `(3, 5, 24001)`.
        """
        if heading is not None and lines is not None:
            raise UsageError("Use either `heading` or `lines`, not both.")
        notes = self._lookup(folder)
        note = notes.find_exact(path) if exact else notes.find(path)
        if heading is None and lines is None:
            return read_named(note)
        return read_excerpt(note, heading, lines)

    @consistent_read
    def read_each(
        self, paths: Sequence[str], *, folder: str | None = None
    ) -> tuple[tuple[Excerpt, ...], Mapping[str, UsageError]]:
        """Read several paths; return the distinct excerpts, and errors by path."""
        excerpts, errors = dict[Excerpt, None](), dict[str, UsageError]()
        for path in paths:
            try:
                excerpts[self.read(path, folder=folder)] = None
            except UsageError as error:
                errors[path] = error
        return tuple(excerpts), errors

    @consistent_read
    def outline(
        self, path: str | None = None, *, folder: str | None = None
    ) -> tuple[OutlineEntry, ...]:
        """Return the headings of the document `path`, or the documents in the directory `path`.

        Without `path`, return every document.
        """
        notes = self._lookup(folder)
        entries = tuple(map(outline_entry, notes.documents_in(path or ".")))
        if entries or path is None or path.strip("/") in {"", "."}:
            return entries
        return outline_headings(notes.find(path))

    def _lookup(self, folder: str | None) -> NoteLookup:
        return NoteLookup(self._select_readers(folder), self.is_local)

    @consistent_read
    def browse(
        self,
        arrange: Callable[[Iterable[Document]], Iterable[Document]],
        limit: int,
    ) -> tuple[OutlineEntry, ...]:
        """Select and sort the documents with `arrange`; return the first `limit` visible ones."""
        arranged = filter_visible(arrange(all_documents(self._readers)), self._readers)
        return tuple(map(outline_entry, islice(arranged, limit)))

    @consistent_read
    def documents_at(self, places: Iterable[tuple[str, str]]) -> tuple[Document, ...]:
        """Return the visible documents at pairs of folder and path."""
        catalogs = {
            reader.folder.name: reader.folder_snapshot().catalog
            for reader in self._readers
            if reader.indexed
        }
        documents = (
            catalogs[folder].documents[n]
            for folder, path in places
            if folder in catalogs and (n := catalogs[folder].document_at(path)) is not None
        )
        return tuple(filter_visible(documents, self._readers))

    @consistent_read
    def similar_paths(self, path: str, *, folder: str | None = None) -> tuple[str, ...]:
        """Return the notes with the most similar paths, best first."""
        return self._lookup(folder).similar_paths(path)

    def suggest_notes(self, typed: str, limit: int) -> tuple[OutlineEntry, ...]:
        """Return the `limit` notes whose names best complete the typed text."""
        return self.browse(partial(complete_names, typed), limit)

    @consistent_read
    def related(self, path: str, *, folder: str | None = None, limit: int = 10) -> RelatedNotes:
        """Return a document's outgoing links, backlinks and most similar documents."""
        return related_to(self._lookup(folder).find(path), limit)

    @consistent_read
    def page(
        self,
        path: str,
        *,
        note_address: Callable[[str, str], str],
        tag_address: Callable[[str], str],
        folder: str | None = None,
        heading: str | None = None,
        lines: tuple[int, int] | None = None,
    ) -> NotePage:
        """Render a note as HTML with its links and similar notes; highlight lines or a heading.

        `path` must be an exact path, not a name. `note_address(path, heading)` and
        `tag_address(name)` return link targets.
        """
        # imports an HTML parser that no other method needs
        from thumbindex.library.rendering import note_page

        note = self._lookup(folder).find_exact(path)
        if heading:
            excerpt = read_excerpt(note, heading, None)
            lines = excerpt.start_line, excerpt.end_line
        return note_page(note, note_address, tag_address, lines)

    @consistent_read
    def render_passage(
        self,
        passage: Passage,
        start: int,
        stop: int,
        *,
        note_address: Callable[[str, str], str],
        tag_address: Callable[[str], str],
    ) -> str:
        """Render the lines between two offsets of a passage's text as HTML, as `page` does.

        The words in `passage.marks` are marked wherever they are. No file is read.
        """
        from thumbindex.library.rendering import render_passage

        [reader] = self._select_readers([passage.folder])
        return render_passage(passage, start, stop, reader, note_address, tag_address)

    @consistent_read
    def verify(self, text: str | Sequence[str], *, folder: str | None = None) -> Verification:
        """Check the citations and quotations in one or more drafts against the current notes.

        The state of each CitationCheck is `there`, `moved`, `changed`, `gone`, `never_there` or
        `not_compared`.
        """
        texts = [text] if isinstance(text, str) else text
        return verify_citations(texts, self._select_readers(folder), self.is_local)

    @cached_property
    def count_tokens(self) -> Callable[[str], int]:
        """A token counter. Never counts fewer tokens than the bundled model. Raises ModelError."""
        return token_counter()

    def all_notes(self) -> tuple[NoteText, ...]:
        """Read the headings, texts and links of every note from the index."""
        return read_notes(self.opened)

    def warm_up(self, folder: Sequence[str] = ()) -> None:
        """Open the current snapshots of some or all folders ahead of the next query."""
        for reader in self._select_readers(folder):
            if isinstance(reader, DiskReader):  # each query opens its own snapshot of a database
                reader.warm_up()

    @consistent_read
    def track_changes(self) -> ChangeTracker:
        """Return a tracker of changed notes."""
        return ChangeTracker(self._readers)

    def is_up_to_date(self) -> bool:
        """Return whether every folder's words are current. Writes nothing.

        Raises StorageError, UnknownFolderError.
        """
        return all(
            reader.is_published or is_folder_up_to_date(reader.folder) for reader in self._readers
        )

    def await_fresh(self, seconds: float) -> bool:
        """Wait until a server's indexer has indexed every edit; return whether it has.

        Returns at once if the index is current, or if a folder has no server. Raises StorageError,
        UnknownFolderError.
        """
        if self.is_up_to_date():
            return True
        if len(self.watched_folders()) < len(self._readers):
            return False
        freshness = wait_until_fresh(
            self._readers, seconds, lambda _: None, _never, _never, index=None
        )
        return freshness.fresh

    def missing_folders(self) -> tuple[str, ...]:
        """Return the names of indexed folders that are missing or empty.

        The usual reason is an unmounted drive.
        """
        return tuple(
            reader.folder.name
            for reader in self._readers
            if not reader.is_published and reader.indexed and is_empty_folder(reader.folder.root)
        )

    @consistent_read
    def status(self) -> tuple[FolderStatus, ...]:
        """Return each folder's index status."""
        return tuple(map(status_of, self._readers))

    @consistent_read
    def index_states(self) -> Mapping[str, IndexState]:
        """Return each readable index's counts by folder. Cheaper than `status`."""
        states = {}
        for reader in self._readers:
            try:
                states[reader.folder.name] = folder_index_state(reader)
            except StorageError:
                continue
        return states

    def _select_readers(self, folder: str | Sequence[str] | None = None) -> tuple[Reader, ...]:
        """Return the readers of the named folders, or all. Raises UnknownFolderError."""
        requested = [folder] if isinstance(folder, str) else folder or ()
        names = [reader.folder.name for reader in self._readers]
        for name in requested:
            if name not in names:
                raise UnknownFolderError(
                    f"There is no folder {name!r}. The folders are: {', '.join(names)}."
                )
        return tuple(
            reader for reader in self._readers if not requested or reader.folder.name in requested
        )

    # -------------------------------------------------------------- duplicates and decisions

    @consistent_read
    def duplicates(self, folder: Sequence[str] = (), *, grey: bool = False) -> DuplicateReport:
        """Return duplicates and outdated decisions; with `grey`, also undecided pairs."""
        return list_duplicates(self._indexed_readers(folder), grey=grey)

    @consistent_read
    def decisions(self, folder: Sequence[str] = ()) -> DuplicateDecisions:
        """Return the user's decisions about duplicates."""
        return DuplicateDecisions(self._indexed_readers(folder))

    def _indexed_readers(self, folder: Sequence[str]) -> tuple[Reader, ...]:
        chosen = self._select_readers(folder)
        for reader in chosen:
            if not reader.indexed:
                raise UsageError(
                    f"There is no index of {reader.folder.root}: run `thumbindex index` first."
                )
        return chosen

    # -------------------------------------------------------------- relevance judgments

    @consistent_read
    def judgments(self) -> Judgments:
        """Return the user's relevance judgments."""
        return Judgments(self._readers)

    # -------------------------------------------------------------- indexing

    def index(
        self,
        *,
        complete: bool = True,
        rebuild: bool = False,
        verify: bool = False,
        progress: Callable[[Progress], None] | None = None,
        folder: Sequence[str] = (),
        interrupted: Callable[[], bool] | None = None,
        finish: bool = True,
        after_others: bool = False,
    ) -> IndexReport:
        """Update the indexes. Repairs damaged and old indexes, and waits for other writers.

        Unless `complete`, the run ends when all notes can be searched by words and meaning: their
        vectors are provisional, and queries compute the exact ones of their best candidates.

        If `interrupted` returns True between two batches, the run stops, and the next call indexes
        the remaining files. Without `finish`, segments are not merged and commit dates are not
        stored. With `after_others`, the run first waits until another process's run ends. With
        `verify`, it compares every file's digest and checks the whole index. Raises ModelError
        after the words are committed.
        """
        folders = self._local_folders(folder)
        show, interrupted = progress or (lambda _: None), interrupted or _never
        for local_folder in folders if after_others else ():
            wait_for_other_run(local_folder, show, interrupted, complete=complete)
        requests = [
            path
            for local_folder in folders
            for path in pending_requests(local_folder.index_paths.folder)
        ]
        with publish_progress(folders, show) as report_progress:
            options = IndexingOptions(
                complete,
                rebuild,
                verify,
                report_progress,
                interrupted,
                finish,
                open_table=self._open_table,
            )
            repaired = self.repair(folder) if verify else ()
            try:
                report = index_folders(folders, options, self.open_model)
            except IndexDamagedError:
                repaired += (done := self.repair(folder))
                if not done:
                    raise
                report = index_folders(folders, options, self.open_model)
        if not report.deferred:
            complete_requests(requests)
        return replace(report, repaired=(*repaired, *report.repaired))

    def _index_words_until(self, folder: str, is_over: Callable[[], bool]) -> None:
        self.index(complete=False, folder=[folder], interrupted=is_over)

    def embed(
        self,
        folder: Sequence[str] = (),
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> tuple[str, ...]:
        """Store missing commit dates and vectors, without comparing files or finding duplicates.

        If an index is damaged, stops and repairs it. Returns a sentence about each repaired index.
        The next `index` reads the notes of these indexes again.
        """
        folders = self._local_folders(folder)
        try:
            with publish_progress(folders, progress) as report_progress, keep_stores_open():
                for local_folder in folders:
                    options = IndexingOptions(on_progress=report_progress, interrupted=interrupted)
                    update_commit_dates(local_folder, options)
                    embed_folder(local_folder, self.open_model, report_progress, interrupted)
        except IndexDamagedError:
            if not (repaired := self.repair(folder)):
                raise
            return repaired
        return ()

    def find_duplicates(self, folder: Sequence[str] = ()) -> Generator[None]:
        """Find duplicates of newly embedded texts, in short steps.

        Stopping early loses the findings of the current batch of documents.
        """
        for local_folder in self._local_folders(folder):
            yield from duplicate_steps(local_folder)

    def merge(self, folder: Sequence[str] = (), *, idle: IdleTime = "long") -> None:
        """Merge small segments of the keyword indexes, as many as the idle time allows."""
        for local_folder in self._local_folders(folder):
            with Writer.open(local_folder.index_paths.folder) as writer:
                writer.merge_keyword(idle)

    def _local_folders(self, folder: Sequence[str]) -> list[Folder]:
        return [reader.folder for reader in self._select_readers(folder) if not reader.is_published]

    def repair(self, folder: Sequence[str] = ()) -> tuple[str, ...]:
        """Reset indexes that are damaged or have another schema, and delete damaged vector files.

        Returns a sentence about each repair. The next `index` reads the notes again and embeds only
        texts that lost their vectors.
        """
        local_folders = self._local_folders(folder)
        done = [repair_index(local_folder.index_paths) for local_folder in local_folders]
        for sentence in filter(None, done):
            _LOG.warning(sentence)
        return tuple(filter(None, done))

    def request_repair(self) -> None:
        """Request a repair from the process that watches the library's folders."""
        for folder in self.opened:
            with suppress(OSError):
                folder.index_paths.repair.touch()

    def watched_folders(self) -> tuple[str, ...]:
        """Return the names of the folders that a running server watches."""
        return tuple(
            reader.folder.name
            for reader in self._readers
            if not reader.is_published and is_held(reader.folder.index_paths.watch)
        )

    def progress(self) -> tuple[Progress, ...]:
        """Return the progress of each folder that this or another process is indexing."""
        runs = map(current_progress, self.opened)
        return tuple(run for run in runs if run and run.done < run.total)

    def forget(self) -> tuple[FolderStatus, ...]:
        """Delete the indexes of the library's folders, but not the notes.

        Returns the last status of each deleted index. Raises IndexBusyError if another process is
        writing.
        """
        local_readers = [reader for reader in self._readers if not reader.is_published]
        deleted = tuple(
            status
            for status in [status_of(reader) for reader in local_readers]
            if Path(status.location).is_dir()
        )
        for reader in local_readers:
            reader.close()
            delete_index(reader.folder.index_paths)
        return deleted

    # -------------------------------------------------------------- closing

    def close(self) -> None:
        """Close all files and connections."""
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
