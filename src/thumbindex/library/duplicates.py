"""What the owner of a folder sees of duplicates, and decides: clusters, verdicts, export and import; no note is ever written to."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from thumbindex.compare.differences import judge
from thumbindex.corpus.parse import parse_document
from thumbindex.errors import UsageError
from thumbindex.index.writer import Writer
from thumbindex.library.clusters import is_merged, pairs_of, places_of, read_clusters
from thumbindex.library.reader import Reader
from thumbindex.model import BlockKind, Chunk, Cluster, Decision, DuplicatesFound, Judgement, Verdict
from thumbindex.ports import Embedder
from thumbindex.settings import Config
from thumbindex.text import embedded_text

EXPORT_VERSION = 1
"""Of the JSON that `export` writes."""

_AT_ONCE = 256
"""Texts of pairs that are embedded at once."""


class Duplicated:
    """What a library tells of duplicates in its folders, and what its owner decides of them."""

    config: Config
    _readers: tuple[Reader, ...]
    _open_embedder: Callable[[str], Embedder]
    _known: Callable[[Sequence[str]], Sequence[str]]

    def duplicates(self, folder: Sequence[str] = (), *, grey: bool = False) -> DuplicatesFound:
        """Return the clusters of one text, with `grey` those too of which the owner has to decide, and what of the decisions has lapsed."""
        found = [(reader.folder.name, read_clusters(reader)) for reader in self._chosen_readers(folder)]
        every = [each for _, known in found for each in known.clusters]
        merged = places_of(each for each in every if is_merged(each))
        return DuplicatesFound(
            tuple(each for each in every if grey or each.zone == "same" or each.verdict),
            tuple((name, decision) for name, known in found for decision in known.lapsed),
            sum(known.chunks for _, known in found),
            len(merged),
            len(places_of(each for each in every if each.zone == "grey" and each.verdict is None) - merged),
        )

    def decide(self, cluster: str, verdict: Verdict, note: str = "", *, folder: Sequence[str] = ()) -> Cluster:
        """Decide of all texts of a cluster, by its id, that they are the same or stay apart; return it as it is then."""
        reader, found = self._cluster(cluster, folder)
        now = time.time()
        made = [Decision(*pair, verdict, note, now, *places) for pair, places in pairs_of(found)]
        with Writer.open(reader.folder.places.folder) as writer, writer.store.transaction():
            for each in made:
                writer.store.put_decision(each)
        return self._again(reader, found)

    def undo(self, cluster: str, *, folder: Sequence[str] = ()) -> Cluster:
        """Take back what was decided of a cluster; return it as it is then. Raises UsageError where nothing was decided."""
        reader, found = self._cluster(cluster, folder)
        with Writer.open(reader.folder.places.folder) as writer, writer.store.transaction():
            gone = [writer.store.drop_decision(*pair) for pair, _ in pairs_of(found)]
        if not any(gone):
            raise UsageError(f"Cluster {found.id}: nothing was decided of it; `thumbindex duplicates --grey` lists what is decided and what is not.")
        return self._again(reader, found)

    def export_decisions(self, folder: Sequence[str] = ()) -> dict[str, Any]:
        """Return all decisions, lapsed ones too, as JSON values."""
        readers = self._chosen_readers(folder)
        return {"version": EXPORT_VERSION, "decisions": [asdict(each) for reader in readers for each in reader.store.decisions()]}

    def import_decisions(self, exported: Any, folder: Sequence[str] = ()) -> int:
        """Keep decisions that were exported, over those about the same texts; return how many. Raises UsageError where one is no decision.

        Each goes to the folders that hold both texts; one about texts that no folder holds goes to all, and is listed as lapsed.
        """
        decisions = _read_decisions(exported)
        texts = sorted({digest for each in decisions for digest in (each.first, each.second)})
        held = {reader: set(reader.store.rows_of_texts(texts).values()) for reader in self._chosen_readers(folder)}
        nowhere = [each for each in decisions if not any({each.first, each.second} <= there for there in held.values())]
        for reader, there in held.items():
            with Writer.open(reader.folder.places.folder) as writer, writer.store.transaction():
                for each in (*(each for each in decisions if {each.first, each.second} <= there), *nowhere):
                    writer.store.put_decision(each)
        self.refresh()
        return len(decisions)

    def judge_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[Judgement, ...]:
        """Judge pairs of texts that are in no index, by the configured model and guards. Raises ModelError."""
        embedder = self._open_embedder("")
        return tuple(judgement for at in range(0, len(pairs), _AT_ONCE) for judgement in _judge(pairs[at : at + _AT_ONCE], embedder, self.config))

    def refresh(self) -> None:
        """Open the indexes as they are now."""
        raise NotImplementedError

    def _chosen_readers(self, folder: Sequence[str]) -> list[Reader]:
        self._known(folder)
        chosen = [reader for reader in self._readers if not folder or reader.folder.name in folder]
        for reader in chosen:
            if not reader.folder.places.store.exists():
                raise UsageError(f"There is no index of {reader.folder.root}: run `thumbindex index` first.")
        return chosen

    def _cluster(self, name: str, folder: Sequence[str]) -> tuple[Reader, Cluster]:
        """Find a cluster by its id, or by how it begins where no other does."""
        wanted = name.strip().casefold()
        found = [
            (reader, each)
            for reader in self._chosen_readers(folder)
            for each in read_clusters(reader).clusters
            if wanted and each.id.startswith(wanted)
        ]
        if len(found) != 1:
            what = f"begins several ({', '.join(each.id for _, each in found)}): give all of it" if found else "is not there (any more)"
            raise UsageError(f"Cluster {name}: {what}; `thumbindex duplicates --grey` lists them.")
        return found[0]

    def _again(self, reader: Reader, cluster: Cluster) -> Cluster:
        self.refresh()
        return next(each for each in (*read_clusters(reader).clusters, cluster) if each.id == cluster.id)


# ------------------------------------------------------------------ import, and pairs from a file


def _read_decisions(exported: Any) -> list[Decision]:
    if not isinstance(exported, dict) or exported.get("version") != EXPORT_VERSION or not isinstance(exported.get("decisions"), list):
        raise UsageError(f"This is no export of decisions of version {EXPORT_VERSION}: make one with `thumbindex duplicates export FILE`.")
    return [_read_decision(each, n) for n, each in enumerate(exported["decisions"], 1)]


def _read_decision(given: Any, number: int) -> Decision:
    try:
        read = Decision(**given)
        texts = (read.first, read.second, read.note, read.first_place, read.second_place)
        whole = all(isinstance(text, str) for text in texts) and isinstance(read.made, int | float) and math.isfinite(read.made)
        if not whole or read.verdict not in ("same", "apart") or not read.first <= read.second:
            raise ValueError(json.dumps(given)[:200])
        "".join(texts).encode()  # a lone surrogate can be kept nowhere
        bytes.fromhex(read.first + read.second)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Decision {number} of the export cannot be read ({error}): nothing was imported; export again.") from error
    return read


def _judge(pairs: Sequence[tuple[str, str]], embedder: Embedder, config: Config) -> list[Judgement]:
    vectors = embedder.embed_passages([embedded_text((), text) for pair in pairs for text in pair])
    cosines = (vectors[::2] * vectors[1::2]).sum(axis=1)
    return [
        judge(_chunk(first, config), _chunk(second, config), float(cosine), config.index.duplicates)
        for (first, second), cosine in zip(pairs, cosines, strict=True)
    ]


def _chunk(text: str, config: Config) -> Chunk:
    """Return a text as one chunk: of the kind and language of its blocks where these are of one."""
    found = parse_document("text.md", text.encode("utf-8", "surrogatepass"), config.corpus).chunks
    kinds = {(each.kind, each.language) for each in found}
    kind, language = kinds.pop() if len(kinds) == 1 else (BlockKind.PROSE, "")
    return Chunk(0, 0, kind, (), 1, 1 + text.count("\n"), text, language=language)
