"""The library: `Library` opens folders, indexes them and answers queries."""

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
from thumbindex.corpus.walk import unmatched_private_globs
from thumbindex.encode.embed import open_embedder, token_counter
from thumbindex.encode.models import CrossEncoderReranker
from thumbindex.errors import (
    IndexDamagedError,
    ModelError,
    StorageError,
    UnknownFolderError,
    UsageError,
)
from thumbindex.index.builds import delete_index, repair_index
from thumbindex.index.locks import is_held
from thumbindex.index.refresh_requests import complete_requests, pending_requests
from thumbindex.index.writer import Writer
from thumbindex.library.answering import (
    MAX_CONCURRENT_QUERIES,
    answer_query,
    folder_index_state,
    mark_terms,
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
    estimate_note_tokens,
    list_notes,
    outline_entry,
    outline_headings,
    read_excerpt,
    read_notes,
)
from thumbindex.library.related import list_broken, list_orphans, related_to, unlinked_pairs
from thumbindex.library.status import status_of
from thumbindex.library.visibility import all_documents, filter_visible
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
    Progress,
    Query,
    QueryArguments,
    RelatedNotes,
    UnlinkedPair,
    Verification,
    WhyReport,
)
from thumbindex.ports import Embedder, Reranker
from thumbindex.process import is_offline
from thumbindex.settings import Config, QuerySettings

_LOG = logging.getLogger(__name__)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def consistent_read(
    method: Callable[Concatenate[Library, _Parameters], _Result],
) -> Callable[Concatenate[Library, _Parameters], _Result]:
    """Decorate a method that only reads: all its reads are of one generation of each index.

    If the connection to a database is lost, the method is called again.
    """

    @wraps(method)
    def read(library: Library, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return library.in_one_snapshot(lambda: method(library, *args, **kwargs))

    return read


class Library:
    """Some folders of Markdown, indexed and searched as one.

    It is cheap to open and safe to use from several threads.
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
        # by configured name, and by its own name
        self._indexing_models: dict[str, Embedder] = {}
        self._loading = threading.Lock()
        self._query_slots = threading.Semaphore(MAX_CONCURRENT_QUERIES)

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
        """Open folders by path or configured name; by default the configured or current ones.

        With `engine`, the address of a PostgreSQL database, names are folders published there (all
        of them by default), and paths are folders on this machine. Raises EngineError.

        The first query loads the index's model; a server does not wait for it
        (`wait_for_models=False`).
        """
        if isinstance(folders, str):
            raise UsageError(f"Folders are a list: Library.open([{folders!r}]).")
        config = config or load_config()
        directory = str(index) if index is not None else config.index.directory
        published: tuple[Reader, ...] = ()
        if engine:
            published, folders = postgres.open_published_folders(engine, config, folders)
        try:
            own = find_folders(config, folders, directory) if folders or not engine else ()
            found = [open_folder(name, root, directory, config) for name, root in own]
            names = {each.name for each in found}
            if in_both := names & {reader.folder.name for reader in published}:
                raise UsageError(
                    f"There are two folders {min(in_both)!r}, one here and one that is "
                    "published: give the one here another name."
                )
            configs = [
                *(each.config for each in found),
                *(reader.folder.config for reader in published),
            ]
            return cls(
                found,
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
        """Open every index in the index directory, missing folders included; `only` selects some by
        path or name.
        """
        config = config or load_config()
        found = find_indexes(str(index) if index is not None else config.index.directory, config)
        wanted = {str(one) for one in only} | {str(real_folder(one)) for one in only}
        return cls(
            [each for each in found if not only or wanted & {str(each.root), each.name}], config
        )

    def only(self, names: Collection[str]) -> Library:
        """Return a library over some of the same open folders, with the models loaded so far."""
        other = copy(self)
        other._readers = tuple(reader for reader in self._readers if reader.folder.name in names)
        # the configuration in a single folder's own file applies
        if len(other._readers) == 1:
            other.config = other._readers[0].folder.config
        return other

    def without_local_paths(self) -> Library:
        """Return this library for callers on other machines: it accepts no absolute paths."""
        other = copy(self)
        other.is_local = False
        return other

    def in_one_snapshot(self, ask: Callable[[], _Result]) -> _Result:
        """Call `ask` with all its reads of one generation of each index.

        If the connection to a database is lost, call it once more. Raises EngineError.
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
        """Each folder with its index paths and its configuration."""
        return tuple(reader.folder for reader in self._readers)

    @property
    def indexed(self) -> bool:
        """Return whether every folder has words to search."""
        return self.in_one_snapshot(lambda: all(reader.indexed for reader in self._readers))

    @property
    def is_searchable(self) -> bool:
        """Return whether every folder had words to search when its database was asked last."""
        return all(reader.is_searchable for reader in self._readers)

    def unmatched_private_globs(self) -> tuple[str, ...]:
        """Return the user's private globs that match no note; none if a folder is missing."""
        left: tuple[str, ...] = self.config.corpus.private.globs
        settings = dict.fromkeys(configured_roots(self.config).values(), self.config.corpus)
        settings |= {
            reader.folder.root: reader.folder.config.corpus
            for reader in self._readers
            if not reader.is_published
        }
        for root, corpus in settings.items():
            left = unmatched_private_globs(left, root, corpus) if left and root.is_dir() else ()
        return left

    # -------------------------------------------------------------- models

    @property
    def has_model(self) -> bool:
        """Return whether queries can be embedded."""
        return self._embedder is not None

    @property
    def awaits_model(self) -> bool:
        """Return whether there are vectors to search, but no model yet."""
        return not self.has_model and any(each.vectors for each in self.index_states().values())

    @property
    def words_only_sentence(self) -> str:
        """Return how answers differ if a model cannot be loaded."""
        if not self.has_model:
            return "Answers come from words alone."
        return "Passages are not reranked."

    def load_models(self) -> None:
        """Load the model of the indexes and the reranker; again only if that model has changed.

        Without a model, queries search words alone. Raises ModelError.
        """
        with self._loading:
            names = self._index_models()
            has_index_model = self._has_own_embedder or (
                self._embedder and self._embedder.fingerprint in names
            )
            if names and not has_index_model:
                self._embedder = self.open_model(min(names.values()))
            # A folder's own file may name a reranker, which `only` uses for that folder.
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
        """Return the models of the indexes: names by fingerprint."""
        stores = [reader.store for reader in self._readers if reader.indexed]
        return {
            store.meta("fingerprint"): name for store in stores if (name := store.meta("model"))
        }

    def _ensure_models(self) -> None:
        """Load the models with the first query, if it may wait for them."""
        if self._wait_for_models and self._embedder is None:
            try:
                self.load_models()
            except ModelError as error:
                self._wait_for_models = False
                _LOG.warning("%s %s", error, self.words_only_sentence)

    def open_model(self, index_model: str) -> Embedder:
        """Open the configured model; if it is `auto`, the model of the index. Raises ModelError."""
        if self._has_own_embedder and self._embedder is not None:
            return self._embedder
        settings = self.config.encode.embed
        if index_model and settings.model == "auto":
            settings = replace(settings, model=index_model)
        if settings.model not in self._indexing_models:
            embedder = open_embedder(settings, offline=is_offline(), lean=not self._wait_for_models)
            self._indexing_models.update({settings.model: embedder, embedder.name: embedder})
        return self._indexing_models[settings.model]

    # -------------------------------------------------------------- answering

    def with_query_settings(self, settings: QuerySettings) -> Library:
        """Return a library over the same indexes and models with other query settings.

        Closing one closes both. `expand` needs a vocabulary, which an index has if this library
        expands.
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
        interrupted: Callable[[], bool] = lambda: False,
        indexer_starting: Callable[[], bool] | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Answer:
        """Answer from what is indexed now; indexes nothing.

            library.query("who decided?", limit=3, path=["plans/**"], since="2026-01-31")

        `also` and `passage` are other words for the question, and `folder`, `path`, `tag`, `since`
        and `until` narrow it. Documents at the paths `without` are left out, and so is what is
        found through them.

        With `wait_fresh` (seconds, at most 60) the answer comes once the words of all that is on
        disk now can be searched, and at the latest when the time is up or `interrupted` returns
        True; its `freshness` names the folders that are behind. A server that watches a folder, or
        another process's run over its words, is waited for. A folder that no server watches is then
        indexed here, unless `indexer_starting` is given: it returns True if a process is about to
        index. Without `wait_fresh`, an `interrupted` query is not searched and its answer is empty.
        With `explain` each passage has an explanation of its rank.
        """
        query = self._build_query(text, arguments)
        wait = validate_wait(wait_fresh)
        freshness = None
        if wait:
            freshness = wait_until_fresh(
                self._select_readers(query.filters.folder),
                wait,
                progress or (lambda _: None),
                interrupted,
                indexer_starting or (lambda: False),
                None if indexer_starting else self._index_words_until,
            )
        self._ensure_models()
        with self._query_slots:
            readers = () if interrupted() and not wait else self._readers
            found = self.in_one_snapshot(
                lambda: answer_query(
                    query,
                    readers,
                    self.config.query,
                    self._embedder,
                    self._reranker,
                    explain=explain,
                )
            )
        return replace(found, freshness=freshness)

    def _build_query(self, text: str | Query, arguments: QueryArguments) -> Query:
        """Return a query with its limit and known folders. Raises UsageError."""
        query = text if isinstance(text, Query) else Query.of(text, **arguments)
        self._select_readers(query.filters.folder)
        return replace(query, limit=query.limit or self.config.query.limit)

    @consistent_read
    def with_marks(self, found: Answer) -> Answer:
        """Return an answer with `marks`: the offsets of the query's words in its passages."""
        return mark_terms(found, self._readers)

    def why(
        self, note: str, text: str | Query, /, **arguments: Unpack[QueryArguments]
    ) -> WhyReport:
        """Explain why a note (`path#heading` too) is or is not among the answers to a query.

            library.why("plans.md", "who decided?", tag=["project"])

        The question is given as to `query`. Indexes nothing.
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
        self, filters: Filters | None = None, /, **narrowing: Unpack[FilterArguments]
    ) -> NoteList:
        """List the notes that filters (those of `query`) let through, the newest first."""
        filters = filters or Filters.of(**narrowing)
        return list_notes(filters, self._select_readers(filters.folder))

    @consistent_read
    def orphans(self, **narrowing: Unpack[FilterArguments]) -> NoteList:
        """List the notes that no other note links to, of those that filters let through, the newest
        first.
        """
        filters = Filters.of(**narrowing)
        return list_orphans(filters, self._select_readers(filters.folder))

    @consistent_read
    def broken(self, **narrowing: Unpack[FilterArguments]) -> BrokenLinks:
        """List the links to no note, in the notes that filters let through."""
        filters = Filters.of(**narrowing)
        return list_broken(filters, self._select_readers(filters.folder))

    @consistent_read
    def unlinked(self, folder: Sequence[str] = ()) -> tuple[UnlinkedPair, ...]:
        """List pairs of notes that are near by meaning and not linked, nearest first.

        In a folder with more than 20,000 notes, the newest are compared.
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
        lines: tuple[int, int] | None = None,
        exact: bool = False,
    ) -> Excerpt:
        """Return a document's lines: all of them, those under a heading (`path#heading` will do),
        or a range; of a citation the lines that it names.

        A note is meant by its path, its name, a citation, an address or an id; with `exact` by its
        path alone.
        """
        if heading is not None and lines is not None:
            raise UsageError("`heading` and `lines` exclude each other: give one of them.")
        notes = self._lookup(folder)
        found = notes.find_exact(path) if exact else notes.find(path)
        if heading is None and lines is None:
            heading, lines = None if found.lines else found.fragment, found.lines
        return read_excerpt(found, heading, lines)

    @consistent_read
    def read_each(
        self, paths: Sequence[str], *, folder: str | None = None
    ) -> tuple[tuple[Excerpt, ...], Mapping[str, UsageError]]:
        """Read several paths as `read` does; return the distinct excerpts, and errors by path."""
        found, errors = dict[tuple[str, str, int, int], Excerpt](), dict[str, UsageError]()
        for path in paths:
            try:
                excerpt = self.read(path, folder=folder)
                found.setdefault(
                    (excerpt.folder, excerpt.path, excerpt.start_line, excerpt.end_line), excerpt
                )
            except UsageError as error:
                errors[path] = error
        return tuple(found.values()), errors

    @consistent_read
    def outline(
        self, path: str | None = None, *, folder: str | None = None
    ) -> tuple[OutlineEntry, ...]:
        """Return a document's headings, the documents of a directory, or every document."""
        notes = self._lookup(folder)
        found = tuple(map(outline_entry, notes.documents_in(path or ".")))
        if found or path is None or path.strip("/") in {"", "."}:
            return found
        return outline_headings(notes.find(path))

    def _lookup(self, folder: str | None) -> NoteLookup:
        return NoteLookup(self._select_readers(folder), self.is_local)

    @consistent_read
    def browse(
        self,
        arrange: Callable[[Iterable[Document]], Iterable[Document]],
        limit: int,
        *,
        folder: str | None = None,
    ) -> tuple[OutlineEntry, ...]:
        """Return the first visible documents in the order of `arrange`."""
        readers = self._select_readers(folder)
        documents = islice(filter_visible(arrange(all_documents(readers)), readers), limit)
        return tuple(map(outline_entry, documents))

    def suggest_notes(
        self, typed: str, limit: int, *, folder: str | None = None
    ) -> tuple[OutlineEntry, ...]:
        """Return the first notes whose names complete the typed text."""
        return self.browse(partial(complete_names, typed), limit, folder=folder)

    @consistent_read
    def related(self, path: str, *, folder: str | None = None, limit: int = 10) -> RelatedNotes:
        """Return a document's links both ways and the most similar documents."""
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
        """Return a note as HTML with links and neighbors; lines or a heading are highlighted.

        `path` is exact. `note_address(path, heading)` and `tag_address(name)` return link targets.
        """
        # with a parser and an escaper of HTML, that nobody else needs
        from thumbindex.library.rendering import note_page

        found = self._lookup(folder).find_exact(path)
        if heading:
            excerpt = read_excerpt(found, heading, None)
            lines = excerpt.start_line, excerpt.end_line
        return note_page(found, note_address, tag_address, lines)

    @consistent_read
    def verify(self, text: str | Sequence[str], *, folder: str | None = None) -> Verification:
        """Check each citation in a text, with its quotation, against the notes on disk.

        Its state is there, moved, changed, gone or never there. The text is a draft answer, or
        several.
        """
        texts = [text] if isinstance(text, str) else text
        return verify_citations(texts, self._select_readers(folder), self.is_local)

    @cached_property
    def count_tokens(self) -> Callable[[str], int]:
        """Count tokens, never fewer than the bundled model's tokenizer. Raises ModelError."""
        return token_counter()

    def all_notes(self) -> tuple[NoteText, ...]:
        """Read every indexed note: its headings, texts and links."""
        return read_notes(self.opened)

    @consistent_read
    def note_tokens(self, passages: Sequence[Passage]) -> dict[tuple[str, str], int]:
        """Estimate the tokens of the whole notes of passages, by folder and path."""
        return estimate_note_tokens(passages, self._readers, self.count_tokens)

    def warm_up(self, folder: Sequence[str] = ()) -> None:
        """Open the current snapshots of some or all folders, so that the next query need not."""
        for reader in self._select_readers(folder):
            if isinstance(reader, DiskReader):  # every query opens a database's snapshot anew
                reader.warm_up()

    @consistent_read
    def track_changes(self) -> ChangeTracker:
        """Return a tracker: each `poll` returns the notes that changed since the last one."""
        return ChangeTracker(self._readers)

    def is_up_to_date(self) -> bool:
        """Return whether the words of every folder are current; nothing is written.

        Raises StorageError, UnknownFolderError.
        """
        return all(
            reader.is_published or is_folder_up_to_date(reader.folder) for reader in self._readers
        )

    def missing_folders(self) -> tuple[str, ...]:
        """Return the indexed folders that are missing or empty, such as unmounted drives."""
        return tuple(
            reader.folder.name
            for reader in self._readers
            if not reader.is_published and reader.indexed and is_empty_folder(reader.folder.root)
        )

    @consistent_read
    def status(self) -> tuple[FolderStatus, ...]:
        """Return the state of each folder's index."""
        found = [(reader, status_of(reader)) for reader in self._readers]
        database = self.database.status() if self.database else None
        return tuple(
            replace(status, database=database) if reader.is_published else status
            for reader, status in found
        )

    @consistent_read
    def index_states(self) -> Mapping[str, IndexState]:
        """Return the counts of each readable index, by folder. Cheaper than `status`."""
        found = {}
        for reader in self._readers:
            try:
                found[reader.folder.name] = folder_index_state(reader)
            except StorageError:
                continue
        return found

    def _select_readers(self, folder: str | Sequence[str] | None = None) -> tuple[Reader, ...]:
        """Return some folders, all of them if none is named. Raises UnknownFolderError."""
        wanted = [folder] if isinstance(folder, str) else folder or ()
        names = [reader.folder.name for reader in self._readers]
        for name in wanted:
            if name not in names:
                raise UnknownFolderError(f"No folder {name!r} here: there is {', '.join(names)}.")
        return tuple(
            reader for reader in self._readers if not wanted or reader.folder.name in wanted
        )

    # ----------------------------------------------- duplicates, and what the owner decides of them

    @consistent_read
    def duplicates(self, folder: Sequence[str] = (), *, grey: bool = False) -> DuplicateReport:
        """Return clusters of duplicates and outdated decisions; with `grey` undecided pairs too."""
        return list_duplicates(self._indexed_readers(folder), grey=grey)

    @consistent_read
    def decisions(self, folder: Sequence[str] = ()) -> DuplicateDecisions:
        """Return the owner's decisions about duplicates in some folders."""
        return DuplicateDecisions(self._indexed_readers(folder))

    def _indexed_readers(self, folder: Sequence[str]) -> tuple[Reader, ...]:
        chosen = self._select_readers(folder)
        for reader in chosen:
            if not reader.indexed:
                raise UsageError(
                    f"There is no index of {reader.folder.root}: run `thumbindex index` first."
                )
        return chosen

    # ------------------------------------------------------------- what the owner judges of answers

    @consistent_read
    def judgments(self) -> Judgments:
        """Return the owner's relevance judgments in these folders."""
        return Judgments(self._readers)

    # ----------------------------------------------------------- keeping the indexes up to the disk

    def index(
        self,
        *,
        words_only: bool = False,
        rebuild: bool = False,
        verify: bool = False,
        progress: Callable[[Progress], None] | None = None,
        folder: Sequence[str] = (),
        interrupted: Callable[[], bool] = lambda: False,
        finish: bool = True,
        after_others: bool = False,
    ) -> IndexReport:
        """Update the indexes; wait for other writers, and repair damaged or old indexes.

        If `interrupted` returns True between two batches, the rest is deferred to the next call.
        Without `finish`, segments are not merged and commit dates not stored. `after_others` waits
        for the run of another process first. `verify` compares every file's digest and reads the
        whole index. Raises ModelError after the words are committed.
        """
        folders = self._local_folders(folder)
        show = progress or (lambda _: None)
        for each in folders if after_others else ():
            wait_for_other_run(each, show, interrupted, words_only=words_only)
        requests = [path for each in folders for path in pending_requests(each.index_paths.folder)]
        with publish_progress(folders, show) as report_progress:
            options = IndexingOptions(
                words_only, rebuild, verify, report_progress, interrupted, finish
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
        self.index(words_only=True, folder=[folder], interrupted=is_over)

    def embed(
        self,
        folder: Sequence[str] = (),
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> tuple[str, ...]:
        """Store missing commit dates and vectors, without comparing files or finding duplicates.

        Return what was repaired, in words: the next `index` reads its notes again.
        """
        folders = self._local_folders(folder)
        try:
            with publish_progress(folders, progress) as report_progress:
                for each in folders:
                    update_commit_dates(
                        each, IndexingOptions(on_progress=report_progress, interrupted=interrupted)
                    )
                    embed_folder(each, self.open_model, report_progress, interrupted)
        except IndexDamagedError:
            if not (repaired := self.repair(folder)):
                raise
            return repaired
        return ()

    def find_duplicates(self, folder: Sequence[str] = ()) -> Generator[None]:
        """Find duplicates among new vectors, as `index` does, in steps of hundredths of a second.

        Stopping before the end loses the current batch of documents.
        """
        for each in self._local_folders(folder):
            yield from duplicate_steps(each)

    def merge(self, folder: Sequence[str] = (), *, idle: IdleTime = "long") -> None:
        """Merge small segments of the keyword indexes, as many as fit the idle time."""
        for each in self._local_folders(folder):
            with Writer.open(each.index_paths.folder) as writer:
                writer.merge_keyword(idle)

    def _local_folders(self, folder: Sequence[str]) -> list[Folder]:
        return [reader.folder for reader in self._select_readers(folder) if not reader.is_published]

    def repair(self, folder: Sequence[str] = ()) -> tuple[str, ...]:
        """Read whole indexes, reset what is damaged or of another schema, delete bad vectors.

        Return what was done, in words. The next `index` reads the notes again and embeds only lost
        vectors.
        """
        done = [repair_index(each.index_paths) for each in self._local_folders(folder)]
        for sentence in filter(None, done):
            _LOG.warning(sentence)
        return tuple(filter(None, done))

    def request_repair(self) -> None:
        """Request a repair from the process that watches these folders."""
        for each in self.opened:
            with suppress(OSError):
                each.index_paths.repair.touch()

    def watched_folders(self) -> tuple[str, ...]:
        """Return the names of the folders that a server watches and indexes."""
        return tuple(
            reader.folder.name
            for reader in self._readers
            if not reader.is_published and is_held(reader.folder.index_paths.watch)
        )

    def progress(self) -> tuple[Progress, ...]:
        """Return the progress of each folder that any process is indexing."""
        found = (current_progress(each) for each in self.opened)
        return tuple(each for each in found if each and each.done < each.total)

    def forget(self) -> tuple[FolderStatus, ...]:
        """Delete these folders' indexes, not their notes.

        Raises IndexBusyError if another process is writing.
        """
        own = [reader for reader in self._readers if not reader.is_published]
        gone = tuple(
            status
            for status in [status_of(reader) for reader in own]
            if Path(status.location).is_dir()
        )
        for reader in own:
            reader.close()
            delete_index(reader.folder.index_paths)
        return gone

    # -------------------------------------------------------------- closing

    def close(self) -> None:
        """Close the files."""
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
