"""The adapter to LlamaIndex: a library as a retriever for its query engines.

Importing this module imports LlamaIndex.
"""

from __future__ import annotations

from typing import Any, Unpack
from urllib.parse import quote

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from thumbindex.library import Library
from thumbindex.model import Passage, QueryArguments
from thumbindex.settings import MAX_PHRASING_CHARS, MAX_REWORDINGS

_HIDDEN = [
    "address",
    "folder",
    "path",
    "heading_path",
    "start_line",
    "end_line",
    "match_start",
    "match_end",
]
"""Kept from the model that answers: the citation says it all in one line."""


# LlamaIndex is not followed by mypy
class ThumbindexRetriever(BaseRetriever):  # type: ignore[misc]
    """Retrieves cited passages from a library; where it finds no answer, no node."""

    def __init__(
        self, library: Library, *, callback_manager: Any = None, **asking: Unpack[QueryArguments]
    ) -> None:
        self._library = library
        self._asking = asking
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # what is to be embedded beside a query, as HyDE has it: an answer as it might read, then
        # rewordings
        passage, *also = [
            text[:MAX_PHRASING_CHARS]
            for text in query_bundle.custom_embedding_strs or ()
            if text != query_bundle.query_str
        ] or [""]
        asking: QueryArguments = {
            **self._asking,
            "passage": passage,
            "also": also[:MAX_REWORDINGS],
        }
        found = self._library.query(query_bundle.query_str, **asking)
        return [as_node(each) for each in found.passages]


def as_node(passage: Passage) -> NodeWithScore:
    """Return a passage as LlamaIndex has it: its text, its score, and where it stands as
    metadata.
    """
    metadata = {
        "citation": passage.citation,
        "address": passage.address,
        "folder": passage.folder,
        "path": passage.path,
        "heading_path": list(passage.heading_path),
        "start_line": passage.start_line,
        "end_line": passage.end_line,
        "match_start": passage.match_start,
        "match_end": passage.match_end,
    }
    # The same passage is the same node in every answer: LlamaIndex merges and caches by it. A
    # folder's name may have slashes, too.
    identity = (
        f"{quote(passage.folder, safe='')}/{passage.path}:{passage.start_line}-{passage.end_line}"
    )
    node = TextNode(
        id_=identity,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=_HIDDEN,
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=passage.score)
